"""edge-models on the command line."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from edge.cli.models import main
from tests.unit.models.published import model_file


@pytest.fixture
def store(shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store in which YuNet-n lies; nothing is fetched. The graph cache is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "store"
    folder.mkdir()
    shutil.copy(model_file(shared_data, "yunet_n"), folder / "yunet_n.onnx")
    return folder


def test_list_says_what_is_here_and_on_what_terms(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--models-dir", str(store)]) == 0
    text = capsys.readouterr().out
    assert str(store / "yunet_n.onnx") in text
    assert "not here; edge-models fetch centerface" in text
    assert "weights non-commercial research only" in text


def test_list_for_machines(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--json", "--models-dir", str(store)]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert sorted(rows) == ["centerface", "retinaface_mb025", "scrfd_500m", "yunet_n"]
    assert rows["yunet_n"]["path"] == str(store / "yunet_n.onnx")
    assert rows["centerface"]["path"] is None
    assert rows["scrfd_500m"]["sources"] == []


def test_fetch_takes_what_is_here(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fetch", "--models-dir", str(store), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "name": "yunet_n", "path": str(store / "yunet_n.onnx"), "reason": "",
    }   # fmt: skip


def test_path(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["path", "yunet_n", "--models-dir", str(store)]) == 0
    assert capsys.readouterr().out == f"{store / 'yunet_n.onnx'}\n"


def test_check_runs_the_file(store: Path, shared_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(model_file(shared_data, "scrfd_500m"))]) == 0
    text = capsys.readouterr().out
    assert "SCRFD-500M, read as scrfd, runs on ONNX Runtime" in text
    assert "non-commercial" in text


@pytest.mark.parametrize(
    ("arguments", "exit_code", "text"),
    [
        (["path", "centerface"], 69, "by hand"),
        (["fetch", "scrfd_500m"], 69, "no public source"),
        (["path", "blazeface"], 64, "no model is called"),
        (["path"], 64, "needs the name"),
        (["check"], 64, "needs the path"),
        (["check", "/nowhere.onnx"], 66, "No such file"),
        (["check", "/etc/hostname"], 69, "not an ONNX model"),
    ],
)
def test_failures(
    store: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], exit_code: int, text: str
) -> None:
    assert main([*arguments, "--models-dir", str(store)]) == exit_code
    shown = capsys.readouterr()
    assert text in shown.err
    assert shown.err.startswith("edge-models: ")
    assert shown.out == ""


def test_wrong_arguments() -> None:
    with pytest.raises(SystemExit) as caught:
        main(["melt"])
    assert caught.value.code == 64


def test_a_closed_pipe_is_no_traceback(store: Path) -> None:
    command = f"'{sys.executable}' -m edge.cli.models list --models-dir '{store}' | true"
    done = subprocess.run(["sh", "-c", f"sleep 0.1; {command}"], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    for redirection in (">&-", ">/dev/full"):
        words = ["sh", "-c", f"{command.removesuffix(' | true')} {redirection}"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert "Traceback" not in done.stderr
        assert done.returncode == (0 if redirection == ">&-" else 74)


def test_ctrl_c_in_a_download(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that accepts and then says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.getsockname()[1]}/simple")
        command = [sys.executable, "-m", "edge.cli.models", "fetch", "centerface", "--models-dir", str(store)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            server.settimeout(30)
            connection, _ = server.accept()
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=20)
            connection.close()
    assert process.returncode == 130
    assert said == ""
    assert [each.name for each in store.iterdir()] == ["yunet_n.onnx"]
