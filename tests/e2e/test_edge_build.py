"""edge-build from end to end with ONNX Runtime, and edge-run with what it leaves."""

from __future__ import annotations

import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from edge.device import this_device
from edge.engines.store import find_engines, load_engine
from edge.models.choose import choose

ROOT = Path(__file__).parents[2]
BACKEND = ("--backend", "onnxruntime")
FRAME = ("--frame", "640x360")      # no scale beyond 640 is verified then
pytestmark = pytest.mark.timeout(300)
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def environment(home: Path) -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "HOME": str(home), "PYTHONPATH": str(ROOT), "TERM": "dumb"}


def command(*options: object) -> list[str]:
    return [sys.executable, "-m", "build_engines.cli", *map(str, options)]


def list_of(folder: Path, photos: Path, count: int) -> Path:
    """A list of evenly spread calibration photos."""
    paths = sorted(photos.iterdir())
    path = folder / "pictures.txt"
    path.write_text("\n".join(str(each) for each in paths[:: len(paths) // count][:count]))
    return path


@pytest.fixture
def build(tmp_path: Path) -> Run:
    def build_(*options: object) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command(*options), cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, check=False
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return build_


@pytest.fixture(scope="module")
def pictures(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return list_of(tmp_path_factory.mktemp("set"), shared_data / "photos" / "calibration", 48)


@pytest.fixture(scope="module")
def engines(pictures: Path, default_model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A real build with INT8 forced: its report, its messages, its directory. It takes a minute or more, so processes
    that share the tests share it, too."""
    base = tmp_path_factory.getbasetemp()
    home = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "engines-of-edge-build"
    home.mkdir(exist_ok=True)
    with (home / "lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "report.json").exists():
            _build_once(home, pictures, default_model)
    report = json.loads((home / "report.json").read_text())
    return {"report": report, "messages": (home / "messages").read_text(), "directory": home / "engines"}


def _build_once(home: Path, pictures: Path, model: Path) -> None:
    options = ("--force-int8", "--model", model, "--calibration", pictures, "--json", *BACKEND, *FRAME)
    done = subprocess.run(
        command(*options, "--engine-dir", home / "engines"), cwd=home, env=environment(home), capture_output=True,
        text=True, check=False,
    )   # fmt: skip
    assert done.returncode == 0, done.stderr
    (home / "messages").write_text(done.stderr)
    (home / "report.json").write_text(done.stdout)


def test_the_report_says_what_was_tried_and_kept(engines: dict[str, Any]) -> None:
    report = engines["report"]
    assert (report["backend"], report["backend_why"]) == ("onnxruntime", "asked for")
    assert (report["pictures"]["kind"], report["pictures"]["pictures"]) == ("list", 48)
    assert report["pictures"]["calibrated_on"] + report["pictures"]["held_out"] == 48
    assert any("scenes are few" in problem for problem in report["pictures"]["problems"])
    model = report["models"][0]
    candidates = {one["name"]: one for one in model["candidates"]}
    assert {"fp32", "int8-all", "int8-wide"} <= set(candidates)
    for one in candidates.values():
        assert one["timings"][0]["median_ms"] > 0
        assert one["scores"]["faces"] > 20
        assert 0.8 < one["scores"]["recall"] <= 1
    assert candidates["fp32"]["scores"]["recall"] == candidates["fp32"]["scores"]["precision"] == 1
    assert candidates["fp32"]["scores"]["iou"] == pytest.approx(1, abs=1e-3)
    assert model["kept"].startswith("int8")
    assert set(model["methods"]) == {"minmax", "percentile", "entropy", "mse"}
    assert "calibrating on" in engines["messages"]


def test_what_is_written_is_an_engine_with_its_story(engines: dict[str, Any], default_model: Path) -> None:
    names = [path.name for path in engines["directory"].iterdir()]
    assert sorted(path.split("-")[-1].split(".")[-1] for path in names) == ["json", "json", "lock", "lock", "onnx"]
    assert not (engines["directory"] / ".build").exists()
    manifest = json.loads(next(engines["directory"].glob("*-any.json")).read_text())
    ranges = json.loads(next(engines["directory"].glob("*-ranges.json")).read_text())
    assert manifest["precision"]["kind"] == "int8"
    assert manifest["precision"]["int8_layers"]
    assert manifest["calibration"] == {
        "set_sha256": ranges["set_sha256"], "ranges_sha256": ranges["sha256"], "pictures": ranges["pictures"],
        "kind": "list",
    }   # fmt: skip
    assert manifest["scores"]["recall"] > 0.9
    assert manifest["timings"][0]["runs"] >= 10


def test_edge_run_takes_it(engines: dict[str, Any], default_model: Path, tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "one.png"), np.full((120, 160, 3), 90, np.uint8))
    options = ["one.png", "-o", "out", "--json", "--model", str(default_model)]
    done = subprocess.run(
        [sys.executable, "-m", "edge.cli.run", *options, "--engine-dir", str(engines["directory"])],
        cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, check=False,
    )   # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "(CPU), int8 engine" in done.stdout


def test_check_says_whether_it_is_current(
    engines: dict[str, Any], build: Run, default_model: Path, tmp_path: Path
) -> None:
    there = ("--check", "--model", default_model, *BACKEND, "--engine-dir")
    done = build(*there, engines["directory"])
    assert (done.returncode, done.stdout) == (0, f"{engines['report']['models'][0]['model']} any: current, int8\n")
    done = build(*there, tmp_path / "empty", "--json")
    assert done.returncode == 78
    assert "edge-build --int8 --model" in json.loads(done.stdout)[0]["problem"]
    assert not (tmp_path / "empty").exists()
    for name in engines["directory"].glob("*onnxruntime*"):
        (tmp_path / name.name).write_bytes(name.read_bytes())
    payload = next(tmp_path.glob("*.onnx"))
    content = bytearray(payload.read_bytes())
    content[len(content) // 2] ^= 1
    payload.write_bytes(content)
    done = build(*there, tmp_path)
    assert done.returncode == 78
    assert "its content is not what was built" in done.stdout


def test_ranges_are_taken_again_and_refused_for_another_model(
    engines: dict[str, Any], build: Run, pictures: Path, default_model: Path, shared_data: Path, tmp_path: Path
) -> None:
    ranges = next(engines["directory"].glob("*-ranges.json"))
    common = ("--calibration", pictures, "--ranges", ranges, "--engine-dir", tmp_path / "engines", *BACKEND)
    done = build(*common, "--model", default_model, "--max-time", 1, "-q")
    assert done.returncode == 0, done.stderr
    assert f"ranges of {ranges}" in done.stdout
    assert "kept: fp32" in done.stdout
    assert "was not tried: the time was up" in done.stdout
    other = shared_data / "models" / "detectors_noncommercial" / "scrfd_500m_bnkps_dynamic.onnx"
    done = build(*common, "--model", other)
    assert done.returncode == 78
    assert "not for the model" in done.stderr


def test_without_int8_no_pictures_are_needed(build: Run, default_model: Path, tmp_path: Path) -> None:
    done = build("--fp32", "--model", default_model, *BACKEND, "--engine-dir", tmp_path / "engines")
    assert done.returncode == 0, done.stderr
    assert "kept: fp32" in done.stdout
    assert "outputs are compared on a made-up picture only" in done.stdout


def test_a_dry_run_writes_nothing(build: Run, pictures: Path, default_model: Path, tmp_path: Path) -> None:
    options = ("--dry-run", "--model", default_model, "--calibration", pictures, *BACKEND)
    done = build(*options, "--engine-dir", tmp_path / "engines", "--json")
    plan = json.loads(done.stdout)
    assert (done.returncode, plan["pictures"], plan["models"][0]["searched_at"]) == (0, 48, "640x352")
    assert plan["seconds"] > 0
    assert not (tmp_path / "engines").exists()
    assert "in all" in build(*options).stdout


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--calibration", "none"), 66, "none: No such file"),
        (("--model", "nothing"), 66, "model nothing"),
        (("--max-recall-loss", "x"), 64, "not a number"),
        (("--int8", "--fp16"), 64, "not allowed with"),
        (("--fp16", "--force-int8"), 64, "exclude each other"),
        (("--frame", "full"), 64, "is not a size"),
        (("--batch", "0"), 64, "out of range"),
        (("--backend", "tensorrt"), 69, "TensorRT cannot be used here"),
        (("--engine-dir", "/proc/here"), 74, "--engine-dir"),
        (("--ranges", "none.json", "--model", "a", "--model", "b"), 64, "belongs to one model"),
    ],
)
def test_wrong_arguments(build: Run, default_model: Path, options: tuple[str, ...], code: int, message: str) -> None:
    model = () if "--model" in options else ("--model", default_model)
    backend = () if "--backend" in options else BACKEND
    done = build(*model, *backend, *options)
    assert done.returncode == code, done.stderr
    assert message in done.stderr


def test_a_poor_set_is_refused_with_what_is_missing(build: Run, default_model: Path, tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    for number in range(3):
        noise = np.random.default_rng(number).integers(0, 255, (120, 160, 3), np.uint8)
        cv2.imwrite(str(tmp_path / "set" / f"{number}.png"), noise)
    done = build("--calibration", "set", "--model", default_model, "--engine-dir", tmp_path / "engines", *BACKEND)
    assert done.returncode == 78
    assert "3 usable pictures of 3 different scenes, at least 16" in done.stderr
    assert not list((tmp_path / "engines").glob("*.json"))


def test_a_second_build_in_the_same_directory_is_told(build: Run, default_model: Path, tmp_path: Path) -> None:
    directory = tmp_path / "engines"
    directory.mkdir()
    with (directory / ".build.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = build("--fp32", "--model", default_model, "--engine-dir", directory, *BACKEND)
    assert done.returncode == 75
    assert "another edge-build is at work" in done.stderr


def test_a_directory_that_all_can_write_is_refused(build: Run, default_model: Path, tmp_path: Path) -> None:
    directory = tmp_path / "engines"
    directory.mkdir()
    directory.chmod(0o777)
    done = build("--fp32", "--model", default_model, "--engine-dir", directory, *BACKEND)
    assert done.returncode == 78
    assert "chmod o-w" in done.stderr


@pytest.fixture
def started(pictures: Path, default_model: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A build that has begun to calibrate."""
    options = ("--model", default_model, "--calibration", pictures, "--engine-dir", tmp_path / "engines", *BACKEND)
    with subprocess.Popen(
        command(*options), cwd=tmp_path, env=environment(tmp_path), text=True, stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    ) as process:   # fmt: skip
        assert process.stderr is not None
        for line in process.stderr:
            if "calibrating on" in line:
                break
        yield process
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(started: subprocess.Popen[str], number: int, tmp_path: Path) -> None:
    time.sleep(0.3)
    os.kill(started.pid, number)
    _, messages = started.communicate(timeout=30)
    assert started.returncode == 130
    assert "interrupted; engines that were there before still work" in messages
    assert "Traceback" not in messages
    left = [path.name for path in (tmp_path / "engines").iterdir()]
    assert left == [".build.lock"]


def test_one_killed_at_any_moment_leaves_the_old_engine_working(
    build: Run, default_model: Path, tmp_path: Path
) -> None:
    directory = tmp_path / "engines"
    options = ("--fp32", "--model", default_model, "--engine-dir", directory, *BACKEND, *FRAME)
    started_s = time.monotonic()
    assert build(*options).returncode == 0
    whole_s = time.monotonic() - started_s
    for share in (0.5, 0.8, 0.9, 1.0):      # the first half is mostly Python that starts
        with subprocess.Popen(
            command(*options), cwd=tmp_path, env=environment(tmp_path), stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:   # fmt: skip
            time.sleep(share * whole_s * random.uniform(0.9, 1.1))
            process.kill()
        assert working(directory, default_model)
    assert build(*options).returncode == 0
    left = sorted(path.name for path in directory.iterdir() if not path.name.startswith((".lock", ".build.lock")))
    assert len(left) == 2, left     # the engine and its manifest


def working(directory: Path, model: Path) -> bytes:
    """The one engine, after all checks; old or new, they are the same. Raises where one fails."""
    (stored,) = find_engines(directory, choose(str(model), None).description.name, "onnxruntime")
    return load_engine(stored, this_device())


def test_help_is_quick() -> None:
    code = "import sys, build_engines.cli; build_engines.cli.build_parser(); print([m for m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True,
        env={"PYTHONPATH": str(ROOT)},
    )   # fmt: skip
    heavy = {"numpy", "cv2", "onnx", "onnxruntime", "rich", "pydantic", "tensorrt"}
    assert not heavy & {name.strip("'") for name in done.stdout.strip("[]\n").split(", ")}
