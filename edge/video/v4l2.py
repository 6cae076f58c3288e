"""USB cameras: what to ask a V4L2 device for."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

from edge.cameras import V4l2Source
from edge.errors import RetryLater
from edge.settings import PixelFormat
from edge.video.gst import load, make

_MEDIA: dict[PixelFormat, tuple[str, ...]] = {
    # MJPEG first: raw 1080p30 does not fit through USB 2.
    "auto": ("image/jpeg", "video/x-raw"),
    "mjpeg": ("image/jpeg",),
    "yuyv": ("video/x-raw,format=YUY2",),
    "nv12": ("video/x-raw,format=NV12",),
    "h264": ("video/x-h264",),
}
_LARGEST_UNASKED_PX = 1920


def v4l2_caps(camera: V4l2Source) -> str:
    """Caps for exactly what the settings name; where they name no width, at most 1920 pixels of it."""
    fields = [f"width=(int){camera.width_px or f'[1,{_LARGEST_UNASKED_PX}]'}"]
    if camera.height_px is not None:
        fields.append(f"height=(int){camera.height_px}")
    if camera.frame_rate is not None:
        rate = Fraction(camera.frame_rate).limit_denominator(1001)
        fields.append(f"framerate=(fraction){rate.numerator}/{rate.denominator}")
    return ";".join(",".join((media, *fields)) for media in _MEDIA[camera.format])


def v4l2_elements(camera: V4l2Source) -> tuple[Any, ...]:
    """Source and caps filter, to be added and linked. Raises RetryLater while the camera is not plugged in."""
    if not Path(camera.device).exists():
        raise RetryLater(f"{camera.device}: not plugged in", "check the cable")
    source = make("v4l2src", device=str(camera.device), do_timestamp=True)
    return source, make("capsfilter", caps=load().Gst.Caps.from_string(v4l2_caps(camera)))
