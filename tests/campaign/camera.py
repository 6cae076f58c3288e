"""The camera process with a clock that somebody sets: ``python -m tests.campaign.camera FD``.

The file named by ``$CAMPAIGN_CLOCK`` says by how many seconds UTC is off: ``{"offset_s": 3600}``.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from edge.camera.__main__ import main
from edge.recordings.clock import SystemClock

VARIABLE = "CAMPAIGN_CLOCK"


def _shifted_utc_s(_: SystemClock) -> float:
    try:
        offset_s = json.loads(Path(os.environ[VARIABLE]).read_text())["offset_s"]
    except FileNotFoundError:
        offset_s = 0.0
    return time.time() + float(offset_s)


if __name__ == "__main__":
    SystemClock.utc_s = _shifted_utc_s  # type: ignore[method-assign]
    code = main()
    sys.stderr.flush()
    os._exit(code)
