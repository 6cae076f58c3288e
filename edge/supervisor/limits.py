"""From when on a child counts as hung."""

from __future__ import annotations

from edge.reports import CameraReport, InferenceReport, KeeperReport

StateReport = CameraReport | InferenceReport | KeeperReport

SILENCE_S = 15.0
# Opening a camera, loading a model or recovering files may keep a process from reporting.
SLOW_SILENCE_S = 45.0
SLOW_STATES = ("starting", "connecting", "loading", "recovering")
# A camera notices itself that its source stalls, and then leaves the state "recording".
WEDGED_BEYOND_STALL_S = 15.0
INFERENCE_WEDGED_S = 30.0


def hang(
    report: StateReport | None, silent_s: float, unchanged_s: float, stall_timeout_s: float
) -> str:
    """Why a running child is taken for hung, or "".

    report: its last one, None before the first. silent_s: since that, or since its start. unchanged_s: since `progress`
    or the state last changed.
    """
    limit_s = SLOW_SILENCE_S if report is None or report.state in SLOW_STATES else SILENCE_S
    if silent_s > limit_s:
        return f"gave no sign of life for {silent_s:.0f} s"
    if isinstance(report, CameraReport) and report.state == "recording":
        limit_s = stall_timeout_s + WEDGED_BEYOND_STALL_S
    elif isinstance(report, InferenceReport) and report.state == "ready":
        limit_s = INFERENCE_WEDGED_S
    else:
        return ""
    return f"made no progress for {unchanged_s:.0f} s" if unchanged_s > limit_s else ""
