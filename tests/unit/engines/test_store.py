"""Engines on disk: every fault has its own message, found before anything is loaded."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from edge.device import Device
from edge.engines.manifest import Manifest, PrecisionPlan, Probe, ProbeOutput, description_hash
from edge.engines.store import (
    StoredEngine,
    default_engine_dir,
    find_engine,
    find_engines,
    load_engine,
    manifest_path,
    write_engine,
)
from edge.errors import ConfigError, StorageError
from edge.models.description import description

ROOT = Path(__file__).parents[3]
ORIN = Device("NVIDIA Jetson AGX Orin Developer Kit", "aarch64", "8.7", "8.6.2", "12.2", "6.0")
PAYLOAD = bytes(range(256)) * 40
OUTPUT = ProbeOutput(name="stride_8", shape=(1, 16, 48, 80), mean=0.1, rms=1.0, samples=(0.5,))


def manifest(device: Device = ORIN, backend: str = "tensorrt", size: tuple[int, int] | None = (384, 640)) -> Manifest:
    height, width = size or (None, None)
    return Manifest(
        model="yunet_n", model_sha256="a" * 64, description_sha256="b" * 64, backend=backend,
        height_px=height, width_px=width, batches=(1, 8), precision=PrecisionPlan(kind="fp16"), toolkit="0.2",
        device=device.name, machine=device.machine, compute_capability=device.compute_capability,
        tensorrt=device.tensorrt, cuda=device.cuda, jetpack=device.jetpack,
        probe=Probe(seed=1, height_px=384, width_px=640, tolerance=0.02, outputs=(OUTPUT,)),
        created_utc="2026-01-01T00:00:00Z",
    )   # fmt: skip


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    place = tmp_path / "engines"
    write_engine(place, PAYLOAD, manifest())
    return place


def find(directory: Path) -> StoredEngine:
    stored = find_engine(directory, "yunet_n", "tensorrt", 384, 640)
    assert stored is not None
    return stored


def test_what_was_written_comes_back(directory: Path) -> None:
    stored = find(directory)
    assert stored.manifest.bytes == len(PAYLOAD)
    assert stored.path.name.startswith("yunet_n-tensorrt-640x384-")
    assert load_engine(stored, ORIN, "a" * 64, "b" * 64) == PAYLOAD
    assert [path.name for path in directory.glob("*.part")] == []


def test_a_payload_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "plan").write_bytes(PAYLOAD)
    path = write_engine(tmp_path / "engines", tmp_path / "plan", manifest())
    assert path.read_bytes() == PAYLOAD


def test_none_was_built(tmp_path: Path) -> None:
    assert find_engine(tmp_path / "nothing", "yunet_n", "tensorrt", 384, 640) is None
    assert find_engine(tmp_path, "yunet_n", "tensorrt", 384, 640) is None
    assert find_engines(tmp_path, "yunet_n", "tensorrt") == []


def test_one_engine_per_size_or_one_for_all(directory: Path) -> None:
    assert find_engine(directory, "yunet_n", "tensorrt", 384, 384) is None
    write_engine(directory, b"small", manifest(size=(192, 320)))
    write_engine(directory, b"any", manifest(backend="onnxruntime", size=None))
    assert [stored.manifest.width_px for stored in find_engines(directory, "yunet_n", "tensorrt")] == [320, 640]
    any_size = find_engine(directory, "yunet_n", "onnxruntime", 384, 384)
    assert any_size is not None
    assert load_engine(any_size, replace(ORIN, tensorrt=None, compute_capability=None, cuda=None)) == b"any"


def test_an_orphan_counts_when_all_are_asked_for(directory: Path) -> None:
    manifest_path(directory, "yunet_n-tensorrt-640x384").unlink()
    with pytest.raises(ConfigError, match="there is no manifest beside it"):
        find_engines(directory, "yunet_n", "tensorrt")


def test_a_new_engine_replaces_the_old(directory: Path) -> None:
    old = find(directory).path
    new = write_engine(directory, b"better", manifest())
    assert load_engine(find(directory), ORIN) == b"better"
    assert not old.exists()
    left = [directory / ".lock", new, manifest_path(directory, "yunet_n-tensorrt-640x384")]
    assert sorted(directory.iterdir()) == left


def rewritten(key: str, value: object) -> Callable[[Path], None]:
    def change(directory: Path) -> None:
        path = manifest_path(directory, "yunet_n-tensorrt-640x384")
        path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))

    return change


def payload(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def apply(directory: Path) -> None:
        path = next(directory.glob("*.engine"))
        path.write_bytes(change(path.read_bytes()))

    return apply


def only(pattern: str, act: Callable[[Path], object]) -> Callable[[Path], None]:
    def apply(directory: Path) -> None:
        act(next(directory.glob(pattern)))

    return apply


FAULTS = {
    "truncated": (payload(lambda content: content[:-100]), "has 10140 bytes where its manifest says 10240"),
    "longer": (payload(lambda content: content + b"x"), "has more bytes where its manifest says 10240"),
    "one flipped byte": (
        payload(lambda content: content[:5000] + bytes([content[5000] ^ 1]) + content[5001:]),
        "its content is not what was built",
    ),
    "payload missing": (only("*.engine", Path.unlink), "is missing, its manifest is there"),
    "manifest missing": (only("*.json", Path.unlink), "there is no manifest beside it"),
    "manifest cut off": (only("*.json", lambda path: os.truncate(path, 300)), "is damaged, not JSON"),
    "newer schema": (rewritten("schema_version", 2), "was written by a newer version of this toolkit (schema 2"),
    "unknown key": (rewritten("extra", 1), "is damaged (extra: Extra inputs are not permitted)"),
    "other directory": (rewritten("engine", "../../etc/passwd"), "is damaged (engine: "),
    "renamed": (rewritten("width_px", 320), "is the manifest of yunet_n-tensorrt-320x384; it was renamed"),
    "writable directory": (lambda directory: directory.chmod(0o777), "every user of this machine can write there"),
    "writable file": (only("*.engine", lambda path: path.chmod(0o666)), "others can write it, so it is not used"),
    "writable manifest": (only("*.json", lambda path: path.chmod(0o666)), "others can write it, so it is not used"),
    "other user's directory": (lambda directory: os.chown(directory, 4711, 4711), "belongs to another user"),
    "other user's file": (only("*.engine", lambda path: os.chown(path, 4711, 4711)), "others can write it"),
}


@pytest.mark.parametrize(("spoil", "said"), FAULTS.values(), ids=list(FAULTS))
def test_each_fault_is_told_apart(directory: Path, spoil: Callable[[Path], None], said: str) -> None:
    try:
        spoil(directory)
    except PermissionError:
        pytest.skip("only root can give files away")
    with pytest.raises(ConfigError) as caught:
        load_engine(find(directory), ORIN)
    assert said in caught.value.message
    assert caught.value.exit_code == 78
    assert f"edge-build --int8 --model yunet_n --backend tensorrt --engine-dir {directory}" in caught.value.remedy


def test_a_writable_folder_above_is_refused_and_a_sticky_one_is_not(tmp_path: Path) -> None:
    above = tmp_path / "above"
    write_engine(above / "engines", PAYLOAD, manifest())
    above.chmod(0o1777)
    assert load_engine(find(above / "engines"), ORIN) == PAYLOAD
    above.chmod(0o777)
    with pytest.raises(ConfigError, match="every user of this machine can write there"):
        find(above / "engines")
    with pytest.raises(ConfigError, match="every user of this machine can write there"):
        write_engine(above / "engines", PAYLOAD, manifest())


def test_a_link_is_not_followed(directory: Path, tmp_path: Path) -> None:
    path = find(directory).path
    (tmp_path / "elsewhere").write_bytes(PAYLOAD)
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError):
        load_engine(find(directory), ORIN)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tensorrt": "10.3.0"}, "was built for TensorRT 8.6.2, this machine has 10.3.0"),
        ({"tensorrt": None}, "was built for TensorRT 8.6.2, this machine has none"),
        ({"compute_capability": "8.9"}, "was built for GPU compute capability 8.7, this machine has 8.9"),
        ({"name": "NVIDIA Jetson Orin NX"}, "was built for device NVIDIA Jetson AGX Orin Developer Kit, this machine"),
        ({"cuda": "12.6"}, "was built for CUDA 12.2, this machine has 12.6"),
        ({"machine": "x86_64"}, "was built for processor architecture aarch64, this machine has x86_64"),
    ],
)
def test_another_machine(directory: Path, change: dict[str, str | None], said: str) -> None:
    stored = find(directory)
    stored.path.unlink()    # found out before the payload is touched
    with pytest.raises(ConfigError) as caught:
        load_engine(stored, replace(ORIN, **change))
    assert said in caught.value.message
    assert "run: edge-build --int8 --model yunet_n" in caught.value.remedy
    assert caught.value.exit_code == 78


def test_another_model_file(directory: Path) -> None:
    with pytest.raises(ConfigError, match=r"was built from another file of yunet_n \(sha256 aaaaaaaaaaaa…, now cccc"):
        load_engine(find(directory), ORIN, "c" * 64)
    with pytest.raises(ConfigError, match="was described otherwise"):
        load_engine(find(directory), ORIN, "a" * 64, description_hash(description("yunet_n")))


def test_a_disk_that_refuses(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="choose another --engine-dir"):
        write_engine(tmp_path / "file" / "engines", PAYLOAD, manifest())


def test_the_default_directory_is_the_user_s(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("edge.engines.checks.SYSTEM_DIRECTORY", tmp_path / "none")
    assert default_engine_dir() == tmp_path / "edge" / "engines"
    (tmp_path / "none").mkdir()
    assert default_engine_dir() == tmp_path / "none"


def test_a_writer_killed_at_any_moment_leaves_a_working_engine(tmp_path: Path) -> None:
    """SIGKILL at many moments of many writes: the engine on disk is always a whole one, old or new."""
    directory = tmp_path / "engines"
    write_engine(directory, b"0" * 4_000_000, manifest())
    code = (
        "import sys, itertools\nfrom pathlib import Path\n"
        "from edge.engines.store import find_engine, write_engine\n"
        "directory = Path(sys.argv[1])\n"
        "stored = find_engine(directory, 'yunet_n', 'tensorrt', 384, 640)\n"
        "print('ready', flush=True)\n"
        "for number in itertools.count():\n"
        "    write_engine(directory, bytes([48 + number % 10]) * 4_000_000, stored.manifest)\n"
    )
    seen = set()
    for number in range(12):
        writer = subprocess.Popen([sys.executable, "-c", code, directory], cwd=ROOT, stdout=subprocess.PIPE)
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(0.004 * number)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        seen.add(load_engine(find(directory), ORIN)[:1])
    assert seen
    write_engine(directory, b"last", manifest())
    assert load_engine(find(directory), ORIN) == b"last"
    assert len(list(directory.iterdir())) == 3      # what killed writers left is gone
