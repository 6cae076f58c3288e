"""The end in good order: cameras first, because they still need detections, then the rest; 20 s at most."""

from __future__ import annotations

from collections.abc import Sequence

from edge.errors import InterruptedJobError
from edge.supervisor.child import STOP_S, Child

REST_STOP_S = 3.0
# A process that hangs in the kernel is left to the service manager.
GIVE_UP_S = STOP_S + REST_STOP_S + 1.5


class Ending:
    """Begins with its construction. exit_code: of the service."""

    def __init__(self, children: Sequence[Child], exit_code: int, now_s: float) -> None:
        self.exit_code = exit_code
        self._cameras = [child for child in children if child.plan.is_camera]
        self._rest = [child for child in children if not child.plan.is_camera]
        self._begun_s = now_s
        self._rest_since_s: float | None = None
        for child in self._cameras:
            child.stop()

    def is_over(self, now_s: float) -> bool:
        """Whether all have ended, or waiting longer is of no use."""
        ended = all(child.state == "ended" for child in (*self._cameras, *self._rest))
        return ended or now_s - self._begun_s > GIVE_UP_S

    def tick(self, now_s: float) -> None:
        """What is due now. Cameras that do not end are killed by their own limit."""
        if self._rest_since_s is None:
            late = now_s - self._begun_s > STOP_S + 0.5
            if late or all(child.state == "ended" for child in self._cameras):
                self._rest_since_s = now_s
                for child in self._rest:
                    child.stop()
        elif now_s - self._rest_since_s > REST_STOP_S:
            for child in self._rest:
                child.kill("did not stop in time")

    def at_once(self) -> None:
        """Kill all: open segments stay .part files."""
        self.exit_code = InterruptedJobError.exit_code
        for child in (*self._cameras, *self._rest):
            child.stop()
            child.kill("the service ends at once")
