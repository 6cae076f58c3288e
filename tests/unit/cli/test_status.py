"""edge-status says what is in the status file, and only that, on any terminal."""

from __future__ import annotations

import dataclasses
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from edge.cli.status import main
from edge.reports import (
    BoardReport,
    CameraReport,
    InferenceReport,
    KeeperReport,
    ProcessReport,
    RootReport,
    ServiceStatus,
)
from edge.service.health import write_status
from edge.status.text import by_reason, duration, number, size

HOSTILE = "\x1b]0;title\x07\x1b[2J\r\n\u202e\x9b31m[bold red]:smile:"


def make_status(**changed: Any) -> ServiceStatus:
    segment = time.strftime("/srv/front/x/front_%Y%m%dT%H%M%SZ.mp4.part", time.gmtime(time.time() - 95))
    values = {
        "version": "1.2", "pid": 1, "state": "running", "started_utc": "2026-01-02T03:04:05Z",
        "written_utc": "2026-01-02T03:04:06Z", "written_monotonic_s": time.monotonic(),
        "config_path": "/etc/edge/edge.yaml", "config_sha256": "",
        "cameras": [
            CameraReport("front", state="recording", fps_in=14.98, fps_out=14.9, faces=1234, delay_s=0.61,
                         whole_frames={"damaged": 3, "late": 20}, dropped={"disk": 7}, reconnects=2, segment=segment,
                         width_px=1920, height_px=1080),
            CameraReport("back", state="backing_off", detail="no route to the camera"),
        ],
        "inference": InferenceReport("ready", models=["yunet_n on ONNX Runtime"], clients=1, requests=5, late=4),
        "keeper": KeeperReport(roots=[RootReport("/srv", "low", free_bytes=3 << 30, floor_bytes=2 << 30, deleted=8)]),
        "board": BoardReport(temperatures_c={"tj-thermal": 61.2}, gpu_load=0.3, throttled={"oc3": 37}),
        "processes": [ProcessReport("inference", "running", 7, restarts=3, last_error="killed by signal 9")],
        "problems": ["back: no pictures for 3 min"],
    }  # fmt: skip
    return ServiceStatus(**(values | changed))


def run(folder: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "edge.cli.status", "--runtime-dir", str(folder), *options]
    kept = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "NO_COLOR")}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=kept | environment, timeout=20)


def test_everything_is_shown(tmp_path: Path) -> None:
    write_status(tmp_path, make_status(state="degraded"))
    done = run(tmp_path)
    assert done.returncode == 1 and not done.stderr
    for text in (
        "edge 1.2  degraded", "15.0/14.9", "1,234", "0.61 s", "backing off", "no route to the camera", "1920x1080",
        "masked whole: 20 late, 3 damaged", "dropped: 7 disk", "yunet_n on ONNX Runtime", "4 late", "3.0 GiB", "low",
        "tj-thermal 61 °C", "GPU 30%", "throttled 37 oc3", "restarted 3 times (killed by signal 9)",
        "back: no pictures for 3 min",
    ):  # fmt: skip
        assert text in done.stdout, text
    assert re.search(r"9[5-9] s", done.stdout)      # the age of the open segment


@pytest.mark.parametrize("width", [40, 60, 100, 160])
def test_it_fits_the_terminal(tmp_path: Path, width: int) -> None:
    write_status(tmp_path, make_status(cameras=[*make_status().cameras, CameraReport("x" * 64, detail="long " * 50)]))
    lines = run(tmp_path, COLUMNS=str(width)).stdout.splitlines()
    assert max(map(cell_len, lines)) <= width
    front = next(line for line in lines if line.startswith("front"))
    assert "recording" in front if width >= 60 else front


@pytest.mark.parametrize(
    ("state", "expected"), [("running", 0), ("degraded", 1), ("starting", 1), ("stopping", 1)]
)
def test_exit_codes_of_states(tmp_path: Path, state: str, expected: int, capsys: pytest.CaptureFixture[str]) -> None:
    write_status(tmp_path, make_status(state=state))
    assert main(["--runtime-dir", str(tmp_path)]) == expected
    assert main(["--runtime-dir", str(tmp_path), "--json"]) == expected


@pytest.mark.parametrize(
    ("content", "expected", "text"),
    [(None, 69, "is edge-daemon running"), ("", 69, "is no status"), ("{}", 69, "is no status"),
     ("[" * 9999, 69, "is no status"),
     ('{"type": "Fatal", "text": "x", "exit_code": 1}', 69, "another version"),
     ('{"type": "ServiceStatus", "new": 1}', 69, "another version")],
    ids=["missing", "empty", "no type", "deep", "another report", "unknown field"],
)  # fmt: skip
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_no_status(
    tmp_path: Path, content: str | None, expected: int, text: str, options: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    if content is not None:
        (tmp_path / "status.json").write_text(content)
    assert main(["--runtime-dir", str(tmp_path), *options]) == expected
    captured = capsys.readouterr()
    assert text in captured.err and not captured.out and captured.err.count("\n") == 1


@pytest.mark.parametrize(
    ("age_s", "text"), [(60, "60 s ago"), (7200, "2 h ago"), (-50, "before this machine was started")]
)
def test_an_old_status_is_no_status(
    tmp_path: Path, age_s: float, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_status(tmp_path, make_status(written_monotonic_s=time.monotonic() - age_s))
    assert main(["--runtime-dir", str(tmp_path)]) == 75
    captured = capsys.readouterr()
    assert text in captured.err and not captured.out


def test_hostile_text_never_reaches_the_terminal(tmp_path: Path) -> None:
    def poisoned(made: Any) -> Any:
        """The same report, with hostile text wherever there is text without a fixed meaning."""
        changes: dict[str, Any] = {}
        for field in dataclasses.fields(made):
            value = getattr(made, field.name)
            if isinstance(value, str) and field.name not in ("state", "segment"):
                changes[field.name] = HOSTILE
            elif isinstance(value, list) and value and not isinstance(value[0], int):
                changes[field.name] = [HOSTILE if isinstance(each, str) else poisoned(each) for each in value]
            elif isinstance(value, dict) and field.name != "latency":
                changes[field.name] = {HOSTILE: 3}
            elif dataclasses.is_dataclass(value):
                changes[field.name] = poisoned(value)
        return dataclasses.replace(made, **changes)

    write_status(tmp_path, poisoned(make_status()))
    for options in ([], ["--json"]):
        done = run(tmp_path, *options)
        assert not re.search(r"[^\n -~°]", done.stdout), re.findall(r"[^\n -~°]", done.stdout)
        assert "title" in done.stdout and "[bold red]:smile:" in done.stdout
        assert not done.stderr


def on_terminal(folder: Path, *options: str, **environment: str) -> str:
    """What a terminal of 100 columns is sent."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "edge.cli.status", "--runtime-dir", str(folder), *options]
    child = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs,
        env={key: value for key, value in os.environ.items() if key != "NO_COLOR"}
        | {"COLUMNS": "100", "LINES": "40", "TERM": "xterm-256color"} | environment,
    )  # fmt: skip
    os.close(theirs)
    sent = b""
    try:
        while piece := os.read(ours, 65536):
            sent += piece
            if "--watch" in options and sent.count(b"edge 1.2") == 2:
                child.send_signal(signal.SIGINT)
    except OSError:         # EIO: the other side is closed
        pass
    os.close(ours)
    assert child.wait(10) == (130 if "--watch" in options else 0)
    return sent.decode()


def test_colours_on_a_terminal_only_and_by_choice(tmp_path: Path) -> None:
    write_status(tmp_path, make_status())
    assert "\x1b[32m" in on_terminal(tmp_path)
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", on_terminal(tmp_path, NO_COLOR="1"))
    assert "\x1b" not in run(tmp_path).stdout


def test_watching_ends_with_ctrl_c(tmp_path: Path) -> None:
    write_status(tmp_path, make_status())
    sent = on_terminal(tmp_path, "--watch")
    assert "Traceback" not in sent and sent.count("edge 1.2") >= 2


def test_watching_in_json_goes_on_without_a_daemon_and_ends_with_its_reader(tmp_path: Path) -> None:
    write_status(tmp_path, make_status())
    command = [sys.executable, "-m", "edge.cli.status", "--runtime-dir", str(tmp_path), "--json", "--watch"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stderr is not None
        assert json.loads(child.stdout.readline())["state"] == "running"
        (tmp_path / "status.json").unlink()
        assert "there is no" in child.stderr.readline()
        write_status(tmp_path, make_status(state="degraded"))
        assert json.loads(child.stdout.readline())["state"] == "degraded"
        child.stdout.close()
        assert child.wait(10) == 1
        assert "Traceback" not in child.stderr.read()


def test_json_holds_what_the_daemon_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_status(tmp_path, make_status())
    main(["--runtime-dir", str(tmp_path), "--json"])
    shown = json.loads(capsys.readouterr().out)
    assert 0 <= shown.pop("age_s") < 5
    assert shown == json.loads((tmp_path / "status.json").read_text())


def test_all_fields_are_documented() -> None:
    text = (Path(__file__).parents[3] / "docs/monitoring.md").read_text()
    sections = {
        "Top level": ServiceStatus, "`cameras[]`": CameraReport, "`inference`": InferenceReport,
        "`keeper`": KeeperReport, "`keeper.roots[]`": RootReport, "`board`": BoardReport,
        "`processes[]`": ProcessReport,
    }  # fmt: skip
    for title, report in sections.items():
        section = re.split(r"^##", text.split(f"### {title}\n")[1], flags=re.MULTILINE)[0]
        listed = re.findall(r"^\| `(\w+)`", section, re.MULTILINE)
        extra = {"type", "age_s"} if report is ServiceStatus else set()
        assert set(listed) == {field.name for field in dataclasses.fields(report)} | extra, title
        assert len(listed) == len(set(listed))


def test_verifying_nothing_and_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--verify", str(tmp_path)]) == 0
    assert "everything is as it was recorded" in capsys.readouterr().out
    assert main(["--verify", str(tmp_path / "absent")]) == 66


def test_verifying_finds_a_changed_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "recordings"
    stray = root / "front" / "2026-01-02" / "front_20260102T030405Z.mp4"
    stray.parent.mkdir(parents=True)
    stray.write_bytes(b"nobody recorded this")
    write_status(tmp_path, make_status(keeper=KeeperReport(roots=[RootReport(str(root))])))
    assert main(["--runtime-dir", str(tmp_path), "--verify"]) == 1      # where the daemon records
    assert stray.name in capsys.readouterr().out
    assert main(["--verify", str(root), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)[0]["findings"][0]["path"] == str(stray)


@pytest.mark.parametrize(
    ("shown", "expected"),
    [(duration(0.4), "0 s"), (duration(119), "119 s"), (duration(120), "2 min"), (duration(86400 * 3), "3 d"),
     (size(0), "0 B"), (size(1023), "1023 B"), (size(1536), "1.5 KiB"), (size(110 << 30), "110 GiB"),
     (size(5 << 50), "5120 TiB"), (number(1234567), "1,234,567"), (by_reason({}), ""), (by_reason({"a": 0}), ""),
     (by_reason({str(i): i for i in range(7)}), "6 6, 5 5, 4 4, 3 3, 3 for other reasons")],
)  # fmt: skip
def test_words(shown: str, expected: str) -> None:
    assert shown == expected
