"""A function in a process of its own: real kills, real crashes, real hangs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from build_engines.child import ChildDiedError, call_in_child
from edge.errors import BuildError
from tests.harness import child_tasks as tasks

ROOT = Path(__file__).parents[3]


def gone(process_id: int, within_s: float = 5.0) -> bool:
    """Whether the process has ended; a zombie that nobody has waited for yet counts."""
    deadline_s = time.monotonic() + within_s
    while time.monotonic() < deadline_s:
        try:
            state = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


def test_the_result_and_the_messages_come_back() -> None:
    told: list[object] = []
    assert call_in_child(tasks.add, (3, 4), told.append) == 7
    assert told == [3, 4]
    assert call_in_child(tasks.process_id, None) != os.getpid()


def test_many_messages() -> None:
    told: list[object] = []
    assert call_in_child(tasks.talk, 2000, told.append) == 2000
    assert len(told) == 2000


def test_an_expected_error_is_raised_here() -> None:
    with pytest.raises(BuildError) as caught:
        call_in_child(tasks.refuse, "too large")
    assert (caught.value.message, caught.value.remedy) == ("too large", "do something else")


@pytest.mark.parametrize(
    ("task", "argument", "how", "said"),
    [
        (tasks.die, signal.SIGKILL, "killed", "was killed (SIGKILL), most likely because memory ran out (last words)"),
        (tasks.die, signal.SIGABRT, "crashed", "crashed (SIGABRT) (last words)"),
        (tasks.touch_nothing, None, "crashed", "crashed (SIGSEGV)"),
        (tasks.leave, 3, "ended", "ended unexpectedly (exit code 3)"),
        (tasks.break_down, "by zero", "ended", "ended unexpectedly (exit code 1) (ZeroDivisionError: by zero)"),
    ],
)
def test_a_death_is_told(task: tasks.Tell, argument: object, how: str, said: str) -> None:
    with pytest.raises(ChildDiedError) as caught:
        call_in_child(task, argument)       # type: ignore[arg-type]
    assert caught.value.how == how
    assert str(caught.value) == said


def test_a_hang_is_ended() -> None:
    children: list[int] = []
    with pytest.raises(ChildDiedError) as caught:
        call_in_child(tasks.sleep, 60.0, children.append, timeout_s=1.0)    # type: ignore[arg-type]
    assert (caught.value.how, str(caught.value)) == ("timeout", "was stopped after 1 s")
    assert children
    assert gone(children[0])


def test_an_error_in_the_listener_ends_the_child() -> None:
    children: list[int] = []

    def listen(message: object) -> None:
        assert isinstance(message, int)
        children.append(message)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        call_in_child(tasks.sleep, 60.0, listen)
    assert gone(children[0])


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_the_child_never_outlives_its_parent(number: signal.Signals, code: int) -> None:
    command = [sys.executable, "-c", "from tests.harness.child_tasks import main; main()"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.send_signal(number)
        assert parent.wait(10) == code
    assert gone(child)
