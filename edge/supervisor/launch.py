"""First thing that runs in a child: tie its life to the supervisor's, then become the module that it is to run.

``python -m edge.supervisor.launch SUPERVISOR_PID MODULE ARGUMENT…``
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys

PR_SET_PDEATHSIG = 1                # linux/prctl.h


def main() -> None:
    """Does not return before the module ends."""
    supervisor, module = int(sys.argv[1]), sys.argv[2]
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != supervisor:  # it died before prctl took effect
        return
    # Who is to stop is told so by the supervisor, in its order; a signal to the whole group must not overtake it.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.argv = sys.argv[2:]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
