"""One function call in a process of its own: what it does to that process becomes an error, not the end of this one.

Builders are native code that allocates as much as it finds. The out-of-memory killer, a crash or a hang in them must
be a message with what to do about it, and must leave the old engine working (docs/int8.md).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Literal, TypeVar

from edge.errors import EdgeError

PR_SET_PDEATHSIG = 1    # prctl(2)
POLL_S = 0.2
KEPT_STDERR_BYTES = 4096
Result = TypeVar("Result")
Tell = Callable[[object], None]
Task = Callable[[Any, Tell], Result]


@dataclass(frozen=True)
class ChildDiedError(Exception):
    """The process ended without an answer.

    how: ``out_of_memory`` when the kernel's killer ended something meanwhile, ``killed`` for another SIGKILL,
    ``crashed`` for any other signal, ``ended`` for an exit, ``timeout`` when it was stopped for taking too long.
    detail: for people. stderr: its last lines.
    """

    how: Literal["out_of_memory", "killed", "crashed", "ended", "timeout"]
    detail: str
    stderr: str

    def __str__(self) -> str:
        return f"{self.detail}{f' ({self.stderr.splitlines()[-1].strip()})' if self.stderr else ''}"


def call_in_child(
    task: Task[Result], argument: object, on_message: Tell = lambda message: None, timeout_s: float = 3600.0
) -> Result:
    """``task(argument, tell)`` in a new Python process; `on_message` gets what it tells on the way.

    task: a function at the top of a module; it, its argument, messages and result are pickled. Nothing is inherited but
    the environment, so a GPU that this process uses is not disturbed.
    Raises the EdgeError that the task raised, ChildDiedError when there is no answer. Whatever happens, also
    KeyboardInterrupt, the process has ended when this returns.
    """
    kills_before = _oom_kills()
    deadline_s = time.monotonic() + timeout_s
    ours, theirs = socket.socketpair()
    with contextlib.ExitStack() as stack:
        connection = stack.enter_context(Connection(ours.detach()))
        stderr = stack.enter_context(tempfile.TemporaryFile())
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", "build_engines.child", str(theirs.fileno()), str(os.getpid())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                start_new_session=True,     # a Ctrl-C in the terminal reaches only us; the child is then killed
            )
        stack.callback(_end, process)
        try:
            connection.send((task, argument))
            while time.monotonic() < deadline_s:
                if not connection.poll(POLL_S):
                    continue
                kind, content = connection.recv()
                if kind == "message":
                    on_message(content)
                elif kind == "raised":
                    raise content
                else:
                    return content  # type: ignore[no-any-return]
        except (EOFError, ConnectionError, pickle.UnpicklingError):
            raise _death(process, stderr, kills_before) from None
        raise ChildDiedError("timeout", f"was stopped after {timeout_s:g} s", _tail(stderr))


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _death(process: subprocess.Popen[bytes], stderr: Any, kills_before: int) -> ChildDiedError:
    try:
        code = process.wait(10.0)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()
    said = _tail(stderr)
    if code == -signal.SIGKILL:
        if _oom_kills() > kills_before:
            return ChildDiedError("out_of_memory", "was killed because memory ran out", said)
        return ChildDiedError("killed", "was killed (SIGKILL), most likely because memory ran out", said)
    if code < 0:
        return ChildDiedError("crashed", f"crashed ({signal.Signals(-code).name})", said)
    return ChildDiedError("ended", f"ended unexpectedly (exit code {code})", said)


def _tail(stderr: Any) -> str:
    stderr.seek(max(0, stderr.seek(0, os.SEEK_END) - KEPT_STDERR_BYTES))
    return str(stderr.read().decode("utf-8", "replace").strip())


def _oom_kills() -> int:
    """How often the kernel's out-of-memory killer has struck since the start of the machine."""
    with contextlib.suppress(OSError), open("/proc/vmstat", encoding="ascii") as file:   # noqa: PTH123
        for line in file:
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
    return 0


def main() -> int:
    """Entry point: ``python -m build_engines.child FD PARENT``, FD being one end of a socket pair."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(sys.argv[2]):      # it died before prctl took effect
        return 1
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    connection, lock = Connection(int(sys.argv[1])), threading.Lock()

    def send(kind: str, content: object) -> None:
        with lock:
            connection.send((kind, content))

    try:
        task, argument = connection.recv()
        try:
            result = task(argument, lambda message: send("message", message))
        except EdgeError as error:
            send("raised", error)
        else:
            send("result", result)
    except (EOFError, ConnectionError):
        return 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)     # the answer is out; native libraries take seconds to take themselves apart, or crash at it


if __name__ == "__main__":
    sys.exit(main())
