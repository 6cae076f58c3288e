"""What several keys, or several cameras, must agree on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edge.cameras import CameraSettings
from edge.config.document import Faults


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value stands: its line and its dotted key."""

    line: int
    key: str

    @property
    def section(self) -> str:
        """The key without its last part."""
        return self.key.rpartition(".")[0]


def check_values(values: Mapping[str, Any], places: Mapping[str, Place], faults: Faults) -> None:
    """Rules between the keys of one camera (or of the defaults). values: those that were written, by key."""

    def wrong(key: str, what: str, remedy: str) -> None:
        faults.add(places[key].line, places[key].key, what, remedy)

    segment_s, fragment_s = values.get("recording.segment", 300.0), values.get("recording.fragment", 1.0)
    if fragment_s > segment_s:
        key = "recording.fragment" if "recording.fragment" in values else "recording.segment"
        wrong(key, f"a fragment ({fragment_s:g} s) is longer than a segment ({segment_s:g} s)",
              "make recording.fragment shorter or recording.segment longer")  # fmt: skip
    quality, bitrate = places.get("recording.quality"), places.get("recording.bitrate")
    if values.get("recording.bitrate") is not None and quality and bitrate and quality.section == bitrate.section:
        wrong("recording.quality", "quality and bitrate exclude each other", "keep one of them")
    if values.get("mask.method") == "image" and values.get("mask.image") is None:
        wrong("mask.method", "image needs a picture", "write mask.image: /PATH")
    if values.get("detect.require_gpu") and values.get("detect.backend") == "onnxruntime":
        wrong("detect.require_gpu", "ONNX Runtime runs on the processor", "choose another detect.backend")
    scales = values.get("detect.scales", ())
    if len(set(scales)) != len(scales):
        wrong("detect.scales", "names a scale twice", "write each once")
    max_age_s, snapshot_s = values.get("retention.max_age"), values.get("recording.snapshot_interval")
    if max_age_s is not None and max_age_s < segment_s:
        key = "retention.max_age" if "retention.max_age" in values else "recording.segment"
        wrong(key, "segments would be deleted before the next one is complete", "make it longer than recording.segment")
    if max_age_s is not None and snapshot_s is not None and snapshot_s > max_age_s:
        wrong("recording.snapshot_interval", "is longer than retention.max_age", "make it shorter")
    for side, other in (("width", "height"), ("height", "width")):
        key = f"source.v4l2.{side}"
        if values.get(key) is not None and values.get(f"source.v4l2.{other}") is None:
            wrong(key, f"needs {other} too", f"write {other}:, or neither")
    if values.get("source.rtsp.password") is not None and values.get("source.rtsp.user") is None:
        wrong("source.rtsp.password", "needs a user", "write user: beside it")


def check_cameras(cameras: Sequence[tuple[CameraSettings, Place]], faults: Faults) -> None:
    """Rules between cameras."""
    seen: dict[tuple[str, str], str] = {}
    for camera, place in cameras:
        key = (str(camera.recording.directory), camera.name.lower())
        if key in seen:
            faults.add(place.line, place.key, f"differs from {seen[key]} in upper and lower case alone, and some file "
                       "systems do not tell them apart", "choose another name")  # fmt: skip
        seen.setdefault(key, camera.name)
