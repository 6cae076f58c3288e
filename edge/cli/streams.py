"""Standard streams that may be closed, full or without a reader; the work does not depend on them."""

from __future__ import annotations

import contextlib
import os
import sys

from edge.text import one_line


def ensure_standard_streams() -> None:
    """Open what the caller closed of descriptors 0 to 2: what is opened next would get their numbers, and messages of
    a library would end up in a video."""
    missing = []
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            missing.append(number)
    for number in missing:
        opened = os.open(os.devnull, os.O_RDWR)     # the lowest free number, but a thread may have been quicker
        if opened != number:
            os.dup2(opened, number)
            os.close(opened)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def say(text: str) -> None:
    """Print one line on stderr, at once. What does not get through, to a full disk for one, is lost.

    Raises BrokenPipeError when the reader has gone.
    """
    try:
        print(one_line(text), file=sys.stderr, flush=True)
    except BrokenPipeError:
        raise
    except OSError:
        _discard(2)


def complain(text: str) -> None:
    """Print the last line before the end on stderr, if anybody reads it."""
    with contextlib.suppress(BrokenPipeError):
        say(text)


def discard_output() -> None:
    """What is still in a buffer goes nowhere: its reader has gone, e.g. `| head`."""
    for number in (1, 2):
        try:
            (sys.stdout if number == 1 else sys.stderr).flush()
        except OSError:
            _discard(number)


def _discard(number: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)
