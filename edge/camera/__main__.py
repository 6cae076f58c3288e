"""Entry point: ``python -m edge.camera FD``, FD being the child's end of `edge.channel`."""

from __future__ import annotations

import os
import resource
import sys

from edge.camera.process import run_camera
from edge.channel import ChannelClosedError, ChildEnd


def main() -> int:
    """Exit code."""
    # A core dump would hold unmasked frames.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        return run_camera(ChildEnd(int(sys.argv[1])))
    except ChannelClosedError:
        return 1


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    # Threads may hang in a decoder or driver; everything that had to be finished is.
    os._exit(code)
