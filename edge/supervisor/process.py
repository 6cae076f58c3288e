"""One child process: its start, its channel, what it prints, its end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from edge.channel import ChannelClosedError, ParentEnd

SIGNALS = {number.value: number.name for number in signal.Signals}


class Process:
    """Starts ``python -m MODULE DESCRIPTOR`` in a session of its own and hands down its settings.

    descriptors: open in the child under the same numbers. output: read end, not blocking, of what it prints.
    Raises OSError when it cannot be started.
    """

    def __init__(self, module: str, settings: Any, descriptors: Sequence[int] = ()) -> None:
        self.channel, theirs = ParentEnd.pair()
        self.output, printed = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.output, False)
        try:
            self._popen = subprocess.Popen(
                [sys.executable, "-m", "edge.supervisor.launch", str(os.getpid()), module, str(theirs.fileno())],
                stdin=subprocess.DEVNULL, stdout=printed, stderr=printed,
                pass_fds=(theirs.fileno(), *descriptors), start_new_session=True)  # fmt: skip
        except OSError:
            self.close()
            raise
        finally:
            theirs.close()
            os.close(printed)
        with contextlib.suppress(ChannelClosedError):       # it ended at once, which its exit will tell
            self.channel.send(settings)

    @property
    def pid(self) -> int:
        """Of the process, which is also the number of its group."""
        return self._popen.pid

    def kill(self) -> None:
        """SIGKILL to it and to all that it started. Not to be called after `wait`: the number may be another's."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Exit code of a process that is known to have ended; negative for a signal. Its group is killed."""
        self.kill()
        return self._popen.wait()

    def close(self) -> None:
        """Let go of channel and output."""
        self.channel.close()
        os.close(self.output)


def describe_exit(code: int) -> str:
    """How a process ended, for people."""
    if code == -signal.SIGKILL:
        return "was killed (out of memory?)"
    if code < 0:
        return f"crashed ({SIGNALS.get(-code, -code)})"
    return f"ended (exit code {code})"
