"""The check that every test passes does see what is left behind."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness.leftovers import Leftovers


@contextmanager
def thread(_: Path) -> Iterator[None]:
    done = threading.Event()
    waiting = threading.Thread(target=done.wait, name="forgotten")
    waiting.start()
    yield
    done.set()
    waiting.join()


@contextmanager
def child(_: Path) -> Iterator[None]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield
        process.kill()


@contextmanager
def zombie(_: Path) -> Iterator[None]:
    with subprocess.Popen([sys.executable, "-c", "print()"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read()
        yield


@contextmanager
def open_file(folder: Path) -> Iterator[None]:
    with (folder / "forgotten").open("w"):
        yield


@pytest.mark.parametrize(
    ("leave", "says"), [(thread, "forgotten"), (child, "input()"), (zombie, "process"), (open_file, "forgotten")]
)
def test_what_is_left_is_seen_and_then_gone(leave, says: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    before = Leftovers.now()
    with leave(tmp_path):
        assert any(says in line for line in Leftovers.now().since(before))
    assert Leftovers.now().since(before) == []


def test_a_shown_password_fails_the_test(tmp_path: Path, password: str) -> None:
    inner = tmp_path / "test_inner.py"
    inner.write_text("def test_shows(password): print('rtsp://user:' + password + '@camera')\n")
    root = Path(__file__).parents[3]
    command = [sys.executable, "-m", "pytest", "-c", str(root / "setup.cfg"), "--rootdir", str(root)]
    done = subprocess.run(
        [*command, "-p", "tests.conftest", str(inner)], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "the password stands in 'Captured stdout call'" in done.stdout
    assert password not in done.stdout.partition("Captured stdout")[0]
