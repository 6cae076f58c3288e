"""Every key of the configuration: which field it sets, and what may stand there. Defaults are the dataclasses'."""

from __future__ import annotations

from dataclasses import dataclass

from edge.config.lists import schedule, secret, user, zones
from edge.config.sources import DEVICE, URL, description
from edge.config.values import (
    Reader,
    boolean,
    choice,
    color,
    duration,
    items,
    number,
    or_none,
    path,
    rate,
    size,
    text,
)


@dataclass(frozen=True, slots=True)
class Key:
    """One key. field: dotted, within `ServiceSettings`, `CameraSettings` or the class of a source.

    needed: there is no default.
    """

    field: str
    read: Reader
    needed: bool = False


SERVICE = {
    "runtime_dir": Key("runtime_dir", path()),
    "models_dir": Key("models_dir", or_none(path())),
    "metrics_port": Key("metrics_port", or_none(number(1024, 65535, whole=True))),
}

# Under `defaults`, and under each camera, where it replaces the default. Lists are replaced as a whole.
CAMERA = {
    "stall_timeout": Key("run.source.stall_timeout_s", duration("1s", "5m")),
    "on_doubt": Key("on_doubt", choice("redact", "drop")),
    "look_ahead": Key("run.track.look_ahead_s", duration("0s", "10s")),
    "hold": Key("run.track.hold_s", duration("0s", "10s")),
    "audio": Key("", choice("drop")),
    "detect.model": Key("run.detect.model", text("auto, a name of edge-models list, or the path of an .onnx file")),
    "detect.backend": Key("run.detect.backend", choice("auto", "onnxruntime", "tensorrt")),
    "detect.scales": Key(
        "run.detect.scales", items(number(64, 8192, whole=True), 8, "a list of longer sides in pixels, 64 to 8192")
    ),
    "detect.threshold": Key("run.detect.score_threshold", or_none(number(0.001, 1))),
    "detect.scan_interval": Key("run.detect.scan_interval_s", duration("0s", "10s")),
    "detect.engine_dir": Key("run.detect.engine_dir", or_none(path())),
    "detect.require_gpu": Key("run.detect.require_gpu", boolean()),
    "mask.method": Key("run.mask.method", choice("pixelate", "blur", "solid", "image", "swap")),
    "mask.shape": Key("run.mask.shape", choice("ellipse", "box")),
    "mask.scale": Key("run.mask.mask_scale", number(1, 5)),
    "mask.blocks": Key("run.mask.blocks", number(1, 12, whole=True)),
    "mask.color": Key("run.mask.color", color()),
    "mask.image": Key("run.mask.image", or_none(path())),
    "mask.zones": Key("run.mask.zones", zones()),
    "recording.directory": Key("recording.directory", path()),
    "recording.codec": Key("run.record.codec", choice("h264", "h265")),
    "recording.quality": Key("run.record.quality", number(0, 51)),
    "recording.bitrate": Key("run.record.bitrate_kbps", or_none(rate("64k", "100M"))),
    "recording.segment": Key("recording.segment_s", duration("1s", "1h")),
    "recording.fragment": Key("run.record.fragment_s", duration("200ms", "10s")),
    "recording.snapshot_interval": Key("recording.snapshot_interval_s", or_none(duration("1s", "1d"))),
    "retention.max_age": Key("recording.retention.max_age_s", or_none(duration("1m", "3650d"))),
    "retention.max_size": Key("recording.retention.max_bytes", or_none(size("10M", "1000T"))),
    "retention.disk_floor": Key("recording.retention.min_free_bytes", size("1M", "1000T")),
    "schedule": Key("schedule", schedule()),
}

_SIDE = number(16, 8192, whole=True)
_FRAME_RATE = number(1, 240)

SOURCE = {
    "source.rtsp.url": Key("url", URL, needed=True),
    "source.rtsp.transport": Key("run.source.transport", choice("tcp", "udp")),
    "source.rtsp.user": Key("user", or_none(user())),
    "source.rtsp.password": Key("password", or_none(secret())),
    "source.v4l2.device": Key("device", DEVICE, needed=True),
    "source.v4l2.format": Key("format", choice("auto", "mjpeg", "yuyv", "nv12", "h264")),
    "source.v4l2.width": Key("width_px", or_none(_SIDE)),
    "source.v4l2.height": Key("height_px", or_none(_SIDE)),
    "source.v4l2.frame_rate": Key("frame_rate", or_none(_FRAME_RATE)),
    "source.csi.sensor_id": Key("sensor_id", number(0, 15, whole=True), needed=True),
    "source.csi.width": Key("width_px", _SIDE),
    "source.csi.height": Key("height_px", _SIDE),
    "source.csi.frame_rate": Key("frame_rate", _FRAME_RATE),
    "source.file.path": Key("path", path(), needed=True),
    "source.file.loop": Key("loop", boolean()),
    "source.gstreamer.description": Key("description", description(), needed=True),
}


def below(keys: dict[str, Key], prefix: str) -> list[str]:
    """The names that may stand directly under `prefix` (dotted, empty for the top)."""
    start = f"{prefix}." if prefix else ""
    return list(dict.fromkeys(key[len(start) :].partition(".")[0] for key in keys if key.startswith(start)))
