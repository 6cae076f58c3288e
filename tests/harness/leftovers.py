"""What a test may not leave behind: Python threads, child processes, open files."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

# GLib and ONNX Runtime open event descriptors on first use and keep them for the life of the process.
KEPT_ONCE = ("anon_inode:[eventfd]", "anon_inode:[eventpoll]", "/dev/urandom", "/dev/null")
KEPT_AT_MOST = 4


@dataclass(frozen=True)
class Leftovers:
    """A look at this process: names of threads, command lines of children, targets of file descriptors."""

    threads: frozenset[str]
    children: frozenset[str]
    files: Counter[str]

    @staticmethod
    def now() -> Leftovers:
        """Look now."""
        threads = frozenset(f"{thread.name} ({thread.ident})" for thread in threading.enumerate())
        return Leftovers(threads, frozenset(_children()), Counter(_files()))

    def since(self, before: Leftovers) -> list[str]:
        """What is here now and was not before, for people; empty when nothing is."""
        left = [f"thread {name}" for name in sorted(self.threads - before.threads)]
        left += [f"process {name}" for name in sorted(self.children - before.children)]
        for target, count in sorted((self.files - before.files).items()):
            if target not in KEPT_ONCE or count > KEPT_AT_MOST:
                left.append(f"open file {target}" + (f" ({count} times)" if count > 1 else ""))
        return left


def _children() -> list[str]:
    """Direct children of this process, also dead ones that nobody has waited for."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # proc(5): pid (name) state ppid …; the name may hold spaces and brackets.
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:                     # it has just ended
            continue
        # multiprocessing keeps one helper per process until the end.
        if int(parent) == os.getpid() and "multiprocessing.resource_tracker" not in command:
            found.append(f"{folder.name} {command or '(ended, not waited for)'}")
    return found


def children_of(pid: int) -> list[int]:
    """Direct children of a process."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found


def is_alive(pid: int) -> bool:
    """Whether there is such a process, and it has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _files() -> list[str]:
    """Targets of all file descriptors; sockets and pipes by their inode."""
    found = []
    tracker, netlink = _resource_tracker_fd(), _netlink_sockets()
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):      # the descriptor of the listing itself
            target = str(entry.readlink())
            if entry.name != tracker and target not in netlink:
                found.append(target)
    return found


def _netlink_sockets() -> set[str]:
    """GLib's network monitor opens one with the first connection, and keeps it for the life of the process."""
    lines = Path("/proc/self/net/netlink").read_text().splitlines()[1:]
    return {f"socket:[{line.split()[-1]}]" for line in lines}


def _resource_tracker_fd() -> str:
    from multiprocessing import resource_tracker

    tracker = getattr(resource_tracker, "_resource_tracker", None)
    return str(getattr(tracker, "_fd", None))
