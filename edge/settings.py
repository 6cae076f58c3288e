"""What a run does, as frozen values with the defaults that users see; they cross process borders by pickling."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Method = Literal["pixelate", "blur", "solid", "image", "swap"]
Shape = Literal["ellipse", "box"]
Backend = Literal["auto", "onnxruntime", "tensorrt"]
Codec = Literal["h264", "h265"]
Transport = Literal["tcp", "udp"]
OnDoubt = Literal["redact", "drop"]
PixelFormat = Literal["auto", "mjpeg", "yuyv", "nv12", "h264"]


@dataclass(frozen=True, slots=True)
class Zone:
    """A polygon in fractions of the picture (0 to 1, x right, y down), at least three corners.

    ``always`` is masked in every frame; in ``never`` zones nothing is masked,
    unless it also lies in an ``always`` zone.
    """

    kind: Literal["always", "never"]
    corners: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class DetectSettings:
    """How faces are found.

    model: ``auto``, the name of a description in configs/models, or the path of an ONNX file.
    score_threshold: a track starts at this score, 0 to 1; None takes the model's own default.
    scales: longer side of the detector input in pixels, each; empty chooses from the picture size.
    scan_interval_s: scales above the smallest are revisited at least this often; 0 runs all of them on every frame.
    threads: parallel detector runs; 0 means one per processor.
    deadline_s: a run that takes longer counts as failed, and its frame is masked whole.
    engine_dir: where engines are looked for; None is `edge.engines.store.default_engine_dir`.
    require_gpu: fail rather than run on the processor.
    """

    model: str = "auto"
    score_threshold: float | None = None
    scales: tuple[int, ...] = ()
    scan_interval_s: float = 0.1
    backend: Backend = "auto"
    threads: int = 0
    deadline_s: float = 20.0
    engine_dir: Path | None = None
    require_gpu: bool = False


@dataclass(frozen=True, slots=True)
class TrackSettings:
    """How masks are kept steady over time.

    look_ahead_s: how far the output lags behind the input, so that a mask can start before the first detection
        of a track and bridge gaps from both sides.
    hold_s: how long a mask stays after the last detection, growing.
    keep_ratio: a detection with a score of at least keep_ratio * score_threshold extends a track, without
        being able to start one.
    """

    look_ahead_s: float = 0.5
    hold_s: float = 0.5
    keep_ratio: float = 0.5


@dataclass(frozen=True, slots=True)
class MaskSettings:
    """How a face is hidden.

    mask_scale: the mask is the face box times this, about its centre.
    blocks: pixelate: mosaic blocks across the shorter side of the mask; blur: how coarsely samples are averaged
        before they are smoothed. Relative to the face, so that every face loses as much.
    color: solid: red, green, blue, 0 to 255.
    image: image: path of a picture with or without alpha.
    """

    method: Method = "pixelate"
    shape: Shape = "ellipse"
    mask_scale: float = 1.3
    blocks: int = 4
    color: tuple[int, int, int] = (0, 0, 0)
    image: Path | None = None
    zones: tuple[Zone, ...] = ()
    outline: bool = False


@dataclass(frozen=True, slots=True)
class RecordSettings:
    """How results are written.

    quality: constant rate factor of x264/x265, 0 to 51, lower is better; not used where a bitrate is given.
    bitrate_kbps: aim at so many kilobits a second instead.
    fragment_s: at most this much video is lost on a kill or power cut.
    """

    codec: Codec = "h264"
    quality: float = 23.0
    bitrate_kbps: int | None = None
    keep_audio: bool = False
    keep_metadata: bool = False
    overwrite: bool = False
    sidecar: bool = False
    fragment_s: float = 1.0


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """How live sources are read. duration_s: stop after this much video; None reads to the end.

    stall_timeout_s: a source that gives nothing for this long has failed.
    """

    transport: Transport = "tcp"
    duration_s: float | None = None
    stall_timeout_s: float = 10.0


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Everything one run needs beside its input and output."""

    detect: DetectSettings = field(default_factory=DetectSettings)
    track: TrackSettings = field(default_factory=TrackSettings)
    mask: MaskSettings = field(default_factory=MaskSettings)
    record: RecordSettings = field(default_factory=RecordSettings)
    source: SourceSettings = field(default_factory=SourceSettings)
