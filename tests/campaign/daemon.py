"""edge-daemon as it is, but with an inference process that misbehaves on demand and cameras whose clock can be set."""

from __future__ import annotations

import sys

from edge.cli.daemon import main
from edge.supervisor.plans import Modules

if __name__ == "__main__":
    sys.exit(main(modules=Modules(camera="tests.campaign.camera", inference="tests.harness.faulty_inference")))
