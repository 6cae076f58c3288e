"""No library of ours reports home."""

from __future__ import annotations

import os


def refuse_telemetry() -> None:
    """Turn off what ONNX Runtime for Linux has sent by default since 1.29: model names, hashes, hardware, timings.

    To be called before onnxruntime is imported, by anyone: later, its collector already runs, with a database in the
    user's cache, and `disable_telemetry_events` leaves both in place. See Privacy.md in its package.
    """
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
