"""Odd passwords in a real daemon with real cameras: none is in anything that it says, writes or is started with."""

from __future__ import annotations

import base64
import html
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.harness.echoing_camera import Echo, EchoingCamera
from tests.harness.leftovers import children_of
from tests.harness.rtspd import RtspServer
from tests.harness.service import Service
from tests.harness.site import COMMAND, written

# What is special somewhere: in addresses, in base64, in JSON, in shells, in YAML, in GStreamer's launch syntax, in
# regular expressions, in format strings; and one that looks like a word of the journal.
PASSWORDS = (
    "pa:ss@wo/rd?q#f",
    "per%20cent%%s{0}",
    'quo"te\'s\\n $HOME `id`',
    "ümläut ✓ 密码",
    "a.*[b]+(c)|^d$ ! tee",
    "connected: h264 640x360",
)
USER = "viewer<&>"
TOLD = "Told-to-a-camera-that-repeats-it"
# Where people put a password although it does not belong there; each is refused.
MISPLACED = (
    f"rtsp: {{url: 'rtsp://viewer:{TOLD}@127.0.0.1/'}}",
    f"rtsp: {{url: 'rtsp://{TOLD}@127.0.0.1/'}}",
    f"rtsp: {{url: 'rtsp://viewer:w/{TOLD}@127.0.0.1/'}}",
    f"rtsp: {{url: 'rtsp://127.0.0.1/a%40{TOLD}'}}",
    f"rtsp: {{url: 'rtsp://127.0.0.1/?channel=1&token={TOLD}'}}",
    f"rtsp: {{url: 'rtsp://[::1/{TOLD}'}}",
    f"rtsp: {{url: 'http://viewer:{TOLD}@127.0.0.1/'}}",
    f"rtsp: {{url: 'rtsp://127.0.0.1/', user: viewer, password: {TOLD}}}",
    f"rtsp: {{url: 'rtsp://127.0.0.1/', user: viewer, password: {{{TOLD}: x}}}}",
    f"rtsp: 'rtsp://viewer:{TOLD}@127.0.0.1/'",
    f"gstreamer: {{description: 'souphttpsrc location=http://viewer:{TOLD}@127.0.0.1/ ! jpegparse'}}",
)
CONFIG = """
service: {{runtime_dir: {folder}/run, metrics_port: {port}}}
defaults:
  stall_timeout: 2s
  detect: {{model: {model}, backend: onnxruntime, scales: [320]}}
  recording: {{directory: {folder}/recordings, segment: 3s}}
  retention: {{disk_floor: 1M}}
cameras:
"""


def forms(secret: str) -> set[bytes]:
    """The secret as it may stand in a text."""
    raw = secret.encode()
    basic = base64.b64encode(f"{USER}:{secret}".encode())
    texts = {
        urllib.parse.quote(secret), urllib.parse.quote(secret, safe=""), urllib.parse.quote_plus(secret),
        json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], html.escape(secret), repr(secret)[1:-1],
    }  # fmt: skip
    return {raw, basic, base64.b64encode(raw).rstrip(b"="), *(text.encode() for text in texts)}


def everything(folder: Path, service: Service, port: int) -> Iterator[tuple[str, bytes]]:
    """(where, content) of all that a daemon shows while it runs."""
    for pid in [service.pid, *children_of(service.pid)]:
        for name in ("cmdline", "environ", "comm"):
            yield f"/proc/PID/{name}", Path(f"/proc/{pid}/{name}").read_bytes()
        for task in Path(f"/proc/{pid}/task").iterdir():
            yield "thread name", (task / "comm").read_bytes()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        yield "metrics", answer.read()
    for name in ("status.json", "health"):
        yield name, (folder / "run" / name).read_bytes()
    runtime, config = str(folder / "run"), str(folder / "edge.yaml")
    for command in (
        ["edge.cli.status", "--runtime-dir", runtime],
        ["edge.cli.status", "--runtime-dir", runtime, "--json"],
        ["edge.cli.daemon", "--check", "--config", config],
        ["edge.cli.doctor", "--config", config, "--cameras", "--only", "network", "--only", "credentials"],
    ):
        done = subprocess.run([sys.executable, "-m", *command], capture_output=True, check=False, timeout=100)
        assert b"Traceback" not in done.stderr, done.stderr
        yield " ".join(command[:2]), done.stdout + done.stderr


def free_port() -> int:
    """A port of this machine that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def camera_text(folder: Path, name: str, url: str, password: str) -> str:
    """The camera's part of the configuration; its password is in a file beside it."""
    secret = folder / f"secret-{name}"
    secret.touch(0o600)
    secret.write_text(password + "\n")
    return (f"  {name}:\n    source:\n      rtsp:\n        url: {url}\n        user: '{USER}'\n"
            f"        password: {{file: {secret}}}\n")  # fmt: skip


@pytest.mark.parametrize(
    ("right", "wrong", "repeating"),
    [(PASSWORDS[:1], PASSWORDS[2:3], ("codec",)),
     pytest.param(PASSWORDS, PASSWORDS, ("reason", "codec", "address"), marks=pytest.mark.slow)],
    ids=["some", "all"],
)  # fmt: skip
def test_no_password_is_shown(
    right: tuple[str, ...], wrong: tuple[str, ...], repeating: tuple[Echo, ...], tmp_path: Path, default_model: Path,
    sample: Path,
) -> None:  # fmt: skip
    port = free_port()
    (tmp_path / "recordings").mkdir()
    text = CONFIG.format(folder=tmp_path, port=port, model=default_model)
    with ExitStack() as stack:
        for number, password in enumerate(right + wrong):
            is_right = number < len(right)
            real = password if is_right else "another"
            authentication = "digest" if number % 2 else "basic"
            server = stack.enter_context(
                RtspServer({"clip": sample}, user=USER, password=real, authentication=authentication)  # type: ignore[arg-type]
            )
            name = f"right{number}" if is_right else f"wrong{number}"
            text += camera_text(tmp_path, name, server.url("clip"), password)
        parrots = {f"repeats-{where}": stack.enter_context(EchoingCamera(where)) for where in repeating}
        for name, parrot in parrots.items():
            text += camera_text(tmp_path, name, parrot.url, TOLD)
        (tmp_path / "edge.yaml").write_text(text)
        command = [*COMMAND, str(tmp_path / "edge.yaml"), "--log-level", "debug"]
        service = stack.enter_context(Service(command, tmp_path / "run"))
        for number in range(len(right)):
            service.wait(written(f"right{number}", 40), 60)
        for name in [*(f"wrong{number}" for number in range(len(right), len(right + wrong))), *parrots]:
            service.wait(lambda status, name=name: any(
                camera.camera == name and camera.state == "backing_off" for camera in status.cameras), 60)  # fmt: skip
        assert all(parrot.heard == TOLD for parrot in parrots.values())
        seen = list(everything(tmp_path, service, port))
        bad = "".join(f"  misplaced{number}: {{source: {{{source}}}}}\n" for number, source in enumerate(MISPLACED))
        (tmp_path / "edge.yaml").write_text(text + bad)
        service.signal(signal.SIGHUP)
        service.wait(lambda status: "failed" in status.last_reload, 30)
        seen += everything(tmp_path, service, port)
        assert service.end(signal.SIGTERM) == 0
        assert service.log.count("cameras.misplaced") >= len(MISPLACED)
        (tmp_path / "edge.yaml").unlink()
        seen.append(("journal", service.log.encode()))
    for folder, _, files in os.walk(tmp_path):
        seen += [("file name", os.fsencode(file)) for file in files]
        seen += [(file, Path(folder, file).read_bytes()) for file in files if not file.startswith("secret")]
    assert {"journal", "metrics", "status.json"} < {where for where, _ in seen}
    searched = {form for password in (*right, *wrong, TOLD) for form in forms(password)}
    shown = {(where, form) for form in searched for where, text in seen if form in text}
    if "connected: h264 640x360" in right:      # which the daemon says of its own accord
        shown = {(where, form) for where, form in shown if form != b"connected: h264 640x360"}
    assert shown == set()
