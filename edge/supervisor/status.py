"""What the world is told: the children's reports put together, and in words what is wrong."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from edge.reports import CameraReport, InferenceReport, KeeperReport, ServiceStatus
from edge.supervisor.child import Child
from edge.text import one_line

# A camera in one of these states does what it is meant to do.
GOOD_STATES = ("recording", "off_schedule")


def add_children(status: ServiceStatus, children: Iterable[Child]) -> None:
    """Fill in cameras, inference, keeper, processes and problems."""
    for child in children:
        if child.state == "ended":
            continue
        status.processes.append(child.to_report())
        if child.plan.is_camera:
            camera = camera_report(child)
            status.cameras.append(camera)
            if camera.state not in GOOD_STATES:
                status.problems.append(_words(child.name, camera.state.replace("_", " "), camera.detail))
            continue
        if child.state != "running" or child.report is None:
            status.problems.append(_words(f"{child.name} process", _words_for(child), child.last_error))
        if isinstance(child.report, InferenceReport):
            status.inference = child.report
            if child.state == "running" and child.report.state != "ready":
                status.problems.append(_words("inference", child.report.state, child.report.detail))
        elif isinstance(child.report, KeeperReport):
            status.keeper = child.report
            status.problems += [_words(root.directory, root.state.replace("_", " "), root.detail)
                                for root in child.report.roots if root.state != "ok"]  # fmt: skip


def camera_report(child: Child) -> CameraReport:
    """The camera's last report, or what its supervisor knows where it cannot report itself."""
    report = child.report if isinstance(child.report, CameraReport) else CameraReport(child.name)
    if child.state == "running":
        return report
    if child.state == "stopping":
        return replace(report, state="stopping")
    state = "failed" if child.state == "failed" else "backing_off"
    return replace(report, state=state, detail=child.last_error, fps_in=0.0, fps_out=0.0)  # type: ignore[arg-type]


def summary(status: ServiceStatus) -> str:
    """One line for ``systemctl status``."""
    recording = sum(camera.state == "recording" for camera in status.cameras)
    problems = f"; {'; '.join(status.problems)}" if status.problems else ""
    return f"{recording} of {len(status.cameras)} cameras record{problems}"[:500]


def _words_for(child: Child) -> str:
    return "starting" if child.state == "running" else child.state.replace("_", " ")


def _words(what: str, state: str, detail: str) -> str:
    return one_line(f"{what}: {state}" + (f" ({detail})" if detail else ""))
