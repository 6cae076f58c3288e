"""The keeper process: recovers, deletes and watches the disks of all cameras. It never sees a picture.

Started by the supervisor as ``python -m edge.recordings.keeper FD``; talks over `edge.channel`.
"""

from __future__ import annotations

import sys
from collections import deque
from pathlib import Path

from edge.cameras import CameraSettings
from edge.channel import ChannelClosedError, ChildEnd, Stop
from edge.recordings.clock import SystemClock
from edge.recordings.root_keeper import RootKeeper
from edge.recordings.settings import KeeperSettings
from edge.reports import Event, Fatal, KeeperReport

__all__ = ["Keeper", "KeeperSettings", "main"]

REPORT_S = 1.0
STOP_TIMEOUT_S = 5.0


class Keeper:
    """One `RootKeeper` for each directory that cameras record into, and the reports about all."""

    def __init__(self, channel: ChildEnd, settings: KeeperSettings) -> None:
        self._channel = channel
        self._events: deque[Event] = deque()
        roots: dict[Path, list[CameraSettings]] = {}
        for camera in settings.cameras:
            roots.setdefault(camera.recording.directory, []).append(camera)
        self._roots = [RootKeeper(path, tuple(cameras), self._events.append, SystemClock())
                       for path, cameras in roots.items()]

    def run(self) -> None:
        """Report until told to stop. Raises ChannelClosedError when the supervisor is gone."""
        while not isinstance(self._channel.receive(REPORT_S), Stop):
            self._report()
        for root in self._roots:
            root.stop(STOP_TIMEOUT_S / len(self._roots))
        self._report(stopping=True)

    def _report(self, stopping: bool = False) -> None:
        while self._events and self._channel.report(self._events[0]):
            self._events.popleft()
        # A disk that hangs shows in `progress` and in the root's state; this process itself is well.
        report = KeeperReport(progress=sum(root.progress for root in self._roots),
                              roots=[root.report() for root in self._roots])
        report.state = "watching" if all(root.has_looked for root in self._roots) else "recovering"
        if stopping:
            report.state = "stopping"
        self._channel.report(report)


def main() -> int:
    """Entry point; the argument is the number of an inherited socket."""
    channel = ChildEnd(int(sys.argv[1]))
    try:
        settings = channel.receive(timeout_s=30)
        if not isinstance(settings, KeeperSettings):
            channel.report(Fatal("keeper: no settings", 1))
            return 1
        Keeper(channel, settings).run()
    except ChannelClosedError:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
