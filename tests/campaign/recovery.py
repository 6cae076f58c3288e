"""How long until every camera records again, with the faces in its frames known: by what the daemon says of itself."""

from __future__ import annotations

import time
from typing import Any

from tests.campaign.world import World

LIMIT_S = 90.0
POLL_S = 0.1


def recover(world: World) -> float | None:
    """Seconds until each camera has written frames that are not hidden whole; None when one has not in time."""
    started_s = time.monotonic()
    before = _written(world.status())
    waiting = set(world.cameras)
    while waiting:
        if time.monotonic() - started_s > LIMIT_S:
            return None
        time.sleep(POLL_S)
        now = _written(world.status())
        for camera in sorted(waiting):
            if camera in now and now[camera] > before.get(camera, 0):
                waiting.discard(camera)
            elif camera not in now or now[camera] < before.get(camera, 0):      # a new process counts from zero
                before[camera] = 0
    return time.monotonic() - started_s


def _written(status: dict[str, Any]) -> dict[str, int]:
    return {camera["camera"]: int(camera["frames_out"]) - sum(camera["whole_frames"].values())
            for camera in status.get("cameras", []) if camera["state"] == "recording"}
