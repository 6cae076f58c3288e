"""Which checks there are, in the order in which one mends a machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """One subject. function: ``module:function``, from ServiceSettings to findings.

    limit_s: after this it is taken to hang. contacts_cameras: talks to cameras over the network.
    """

    name: str
    function: str
    limit_s: float
    contacts_cameras: bool = False


CHECKS = (
    Check("python", "edge.doctor.software:check_python", 10),
    Check("packages", "edge.doctor.software:check_packages", 60),
    Check("gstreamer", "edge.doctor.software:check_gstreamer", 60),
    Check("encoders", "edge.doctor.codecs:check_encoders", 60),
    Check("decoders", "edge.doctor.codecs:check_decoders", 60),
    Check("gpu", "edge.doctor.inference:check_gpu", 60),
    Check("models", "edge.doctor.inference:check_models", 30),
    Check("engines", "edge.doctor.inference:check_engines", 120),
    Check("detector", "edge.doctor.inference:check_detector", 120),
    Check("rights", "edge.doctor.rights:check_rights", 10),
    Check("credentials", "edge.doctor.credentials:check_credentials", 10),
    Check("cameras", "edge.doctor.cameras:check_local_cameras", 30),
    Check("network", "edge.doctor.network:check_network_cameras", 120, contacts_cameras=True),
    Check("disks", "edge.doctor.disks:check_disks", 120),
    Check("clock", "edge.doctor.machine:check_clock", 10),
    Check("board", "edge.doctor.machine:check_board", 20),
)
