"""Things that can happen to a child process, for the tests of `build_engines.child`."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from typing import Any

from build_engines.child import Tell, call_in_child
from edge.errors import BuildError


def add(argument: tuple[int, int], tell: Tell) -> int:
    """Tell both numbers, return their sum."""
    for number in argument:
        tell(number)
    return sum(argument)


def process_id(argument: object, tell: Tell) -> int:
    """Of the child."""
    return os.getpid()


def refuse(argument: str, tell: Tell) -> None:
    """Raise an error that is expected."""
    raise BuildError(argument, "do something else")


def break_down(argument: str, tell: Tell) -> None:
    """Raise an error that is not expected."""
    raise ZeroDivisionError(argument)


def die(argument: int, tell: Tell) -> None:
    """By this signal, after the last words on stderr."""
    print("last words", file=sys.stderr, flush=True)
    os.kill(os.getpid(), argument)
    time.sleep(10)


def touch_nothing(argument: object, tell: Tell) -> None:
    """A real invalid access, as native code makes it."""
    ctypes.string_at(8)


def leave(argument: int, tell: Tell) -> None:
    """With this exit code, without an answer."""
    os._exit(argument)


def sleep(argument: float, tell: Tell) -> None:
    """Tell the process id first."""
    tell(os.getpid())
    time.sleep(argument)


def talk(argument: int, tell: Tell) -> int:
    """Tell a lot."""
    for number in range(argument):
        tell((number, "x" * 1000))
    return argument


def main() -> None:
    """Be a parent whose child sleeps: print its process id and wait."""

    def show(message: Any) -> None:
        print(message, flush=True)

    try:
        call_in_child(sleep, 60.0, show)
    except KeyboardInterrupt:
        sys.exit(130)

