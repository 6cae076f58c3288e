"""Whether the service manager may be told that all is well, and since when it may not."""

from __future__ import annotations

from collections.abc import Iterable

from edge.supervisor.child import REMEMBERED_HANGS, Child

# As many hangs as a child remembers within this time: a new process does not cure it.
HANGS_WITHIN_S = 600.0
UNKILLABLE_S = 60.0


def not_alive(children: Iterable[Child], now_s: float) -> str:
    """What restarting single processes does not cure, or "".

    A child that runs is within its limits, or was just killed for being beyond them; one in back-off or failed waits,
    which the status declares. So these remain: the inference process hangs again and again, or cannot be killed (the
    driver hangs); every camera that should run hangs again and again. One camera alone must not end the others.
    """
    cameras = []
    for child in children:
        hangs = len(child.hung_s) == REMEMBERED_HANGS and now_s - child.hung_s[0] < HANGS_WITHIN_S
        if child.plan.is_camera:
            cameras += [hangs] if child.state != "failed" else []
        elif child.name == "inference":
            if hangs:
                return f"the inference process hung {REMEMBERED_HANGS} times within {HANGS_WITHIN_S / 60:.0f} minutes"
            if child.state == "killed" and now_s - child.since_s > UNKILLABLE_S:
                return "the inference process cannot be killed"
    return "every camera process hangs again and again" if cameras and all(cameras) else ""
