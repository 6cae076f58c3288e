"""Sensors on a Jetson's camera connector, through Argus."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from edge.cameras import CsiSource
from edge.video.gst import load, make


def csi_caps(camera: CsiSource) -> str:
    """What Argus is asked for: NV12 in the memory of the image processor."""
    rate = Fraction(camera.frame_rate).limit_denominator(1001)
    return (f"video/x-raw(memory:NVMM),format=NV12,width={camera.width_px},height={camera.height_px},"
            f"framerate={rate.numerator}/{rate.denominator}")


def csi_elements(camera: CsiSource) -> tuple[Any, ...]:
    """From the sensor to NV12 in system memory, one pass of the VIC. Raises UnavailableError off a Jetson."""
    caps = load().Gst.Caps
    return (
        make("nvarguscamerasrc", sensor_id=camera.sensor_id),
        make("capsfilter", caps=caps.from_string(csi_caps(camera))),
        make("nvvidconv"),
        make("capsfilter", caps=caps.from_string("video/x-raw,format=NV12")),
    )
