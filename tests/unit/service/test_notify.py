"""sd_notify, received by a real socket."""

from __future__ import annotations

import os
import re
import socket
import time
from pathlib import Path

import pytest

from edge.service.notify import Notifier


@pytest.mark.parametrize("abstract", [False, True])
def test_messages_arrive(tmp_path: Path, abstract: bool) -> None:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0" + path if abstract else path)
        manager.settimeout(1.0)
        notifier = Notifier("@" + path if abstract else path)
        expected = []
        for call, message in (
            (notifier.ready, "READY=1"),
            (notifier.alive, "WATCHDOG=1"),
            (notifier.stopping, "STOPPING=1"),
            (lambda: notifier.extend(30.0), "EXTEND_TIMEOUT_USEC=30000000"),
            (lambda: notifier.status("all\ngood"), "STATUS=all good"),
            (lambda: notifier.status("all\ngood"), ""),                         # unchanged: not sent
            (lambda: notifier.status("bad"), "STATUS=bad"),
        ):
            call()
            expected += [message] if message else []
        assert [manager.recv(1000).decode() for _ in expected] == expected
        notifier.reloading()
        found = re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=(\d+)", manager.recv(1000).decode())
        assert found and abs(int(found[1]) / 1e6 - time.monotonic()) < 1.0
        notifier.close()


@pytest.mark.parametrize("address", [None, "", "/nowhere/at/all", "@nobody", "vsock:2:1"])
def test_nobody_listens(address: str | None) -> None:
    notifier = Notifier(address)
    notifier.ready()
    notifier.close()
    notifier.alive()


def test_a_manager_that_does_not_read_blocks_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        notifier = Notifier(path)
        for _ in range(5000):
            notifier.alive()
        notifier.close()


@pytest.mark.parametrize(
    ("variables", "watchdog_s"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "60000000"}, 60.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": str(os.getpid())}, 60.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_environment_is_read_and_not_inherited(variables: dict[str, str], watchdog_s: float | None) -> None:
    environment = {"NOTIFY_SOCKET": "@x", "HOME": "/root", **variables}
    notifier = Notifier.from_environment(environment)
    assert notifier.watchdog_s == watchdog_s
    assert environment == {"HOME": "/root"}
    notifier.close()
