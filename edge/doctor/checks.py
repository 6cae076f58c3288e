"""Which checks there are, in the order in which one mends a machine."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass

from edge.cameras import ServiceSettings
from edge.doctor.finding import Finding


@dataclass(frozen=True, slots=True)
class Check:
    """One subject. function: ``module:function`` under `edge.doctor`, from ServiceSettings to findings.

    limit_s: after this it is taken to hang. contacts_cameras: talks to cameras over the network.
    """

    name: str
    function: str
    limit_s: float
    contacts_cameras: bool = False

    def load(self) -> Callable[[ServiceSettings], list[Finding]]:
        """The function; importing it may load heavy packages."""
        module, _, name = self.function.partition(":")
        found: Callable[[ServiceSettings], list[Finding]] = getattr(
            importlib.import_module(f"edge.doctor.{module}"), name
        )
        return found


CHECKS = (
    Check("python", "software:check_python", 10),
    Check("packages", "software:check_packages", 60),
    Check("gstreamer", "software:check_gstreamer", 60),
    Check("encoders", "codecs:check_encoders", 60),
    Check("decoders", "codecs:check_decoders", 60),
    Check("gpu", "inference:check_gpu", 60),
    Check("models", "inference:check_models", 30),
    Check("engines", "inference:check_engines", 120),
    Check("detector", "inference:check_detector", 120),
    Check("rights", "rights:check_rights", 10),
    Check("credentials", "credentials:check_credentials", 10),
    Check("cameras", "cameras:check_local_cameras", 30),
    Check("network", "network:check_network_cameras", 120, contacts_cameras=True),
    Check("disks", "disks:check_disks", 120),
    Check("clock", "machine:check_clock", 10),
    Check("board", "machine:check_board", 20),
)
