"""Waits for processes that have ended: our children, and grandchildren that lost their parent."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterable

from edge.supervisor.child import Child

PR_SET_CHILD_SUBREAPER = 36         # linux/prctl.h
# A thread of ours may have started a program, and waits for it itself: only what stays is nobody's.
ORPHAN_S = 10.0


class Reaper:
    """Makes this process the parent of its orphaned descendants, so that none stays a zombie."""

    def __init__(self) -> None:
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._orphan, self._since_s = 0, 0.0

    def reap(self, children: Iterable[Child], now_s: float) -> None:
        """Tell the children that have ended so; take away zombies that nobody else waits for."""
        for child in children:
            if child.pid is not None and _zombie(os.P_PID, child.pid):
                child.ended()
        pid = _zombie(os.P_ALL, 0)
        if pid != self._orphan:
            self._orphan, self._since_s = pid, now_s
        elif pid and now_s - self._since_s > ORPHAN_S:
            ours = {child.pid for child in children}
            while (pid := _zombie(os.P_ALL, 0)) and pid not in ours:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)


def _zombie(kind: int, number: int) -> int:
    """A child that has ended and was not waited for, without waiting for it; 0 for none."""
    try:
        found = os.waitid(kind, number, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return 0
    return found.si_pid if found else 0
