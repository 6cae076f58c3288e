"""Safe frames to MP4 files: accepts nothing else (promise P1), and what has its final name is complete (P3)."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from edge.anonymize.gate import SafeFrame
from edge.errors import StorageError, UnsafeFrameError
from edge.settings import RecordSettings
from edge.types import Frame, Picture, UInt8
from edge.video.audio import AudioPlan, plan_audio
from edge.video.encoders import choose_encoder
from edge.video.format import PictureFormat
from edge.video.gst import load
from edge.video.mapping import MappedBuffer, Nv12Layout, plane
from edge.video.picture import FrameStorage
from edge.video.segment import Segment, SegmentSpec
from edge.video.source import Source


class Recorder:
    """Writes one source's frames: `path`, then `<stem>_002.mp4` and so on, one for each epoch. Used by one thread.

    live: frames come in real time. audio_from: the source whose audio and metadata are kept, if the settings say so.
    encoder: name of the encoder element. notes: what could not be done as asked, for the user.
    Raises UnavailableError without an encoder, StorageError if `path` exists and may not be overwritten.
    """

    def __init__(
        self, path: Path, settings: RecordSettings, live: bool, audio_from: Source | None = None, comment: str = ""
    ) -> None:
        self._path, self._settings, self._live = path, settings, live
        self._audio_from, self._comment = audio_from, comment
        self.notes: list[str] = []
        self._audio = self._plan_audio() if settings.keep_audio else None
        self.encoder = choose_encoder(settings.codec)
        self._tags = audio_from.tags if settings.keep_metadata and audio_from is not None else None
        self._segment: Segment | None = None
        self._epoch: int | None = None
        self._format: PictureFormat | None = None
        self._number = 0
        self._finished: list[Path] = []
        if not settings.overwrite and path.exists():
            raise StorageError(f"{path}: exists already", "give another name, or --overwrite")

    def write(self, safe: SafeFrame) -> None:
        """Encode a safe frame and give its memory back. Blocks while the encoder is behind.

        Raises UnsafeFrameError for anything else, StorageError when the disk is full or fails, EdgeError when encoding
        fails.
        """
        if type(safe) is not SafeFrame:
            raise UnsafeFrameError(f"a recorder takes safe frames only, not {type(safe).__name__}")
        frame = safe.take()
        try:
            format_, rate = format_of_frame(frame)
            if self._segment is None or frame.epoch != self._epoch or format_ != self._format:
                self._next_segment(frame, format_, rate)
            assert self._segment is not None
            self._segment.write(buffer_of_frame(frame), frame.pts_ns, frame.duration_ns)
        finally:
            frame.release()

    @property
    def has_written(self) -> bool:
        """Whether there is a file to complete, or one that is complete."""
        return self._segment is not None or bool(self._finished)

    def close(self) -> tuple[Path, ...]:
        """Complete the last file and give all of them, in order; empty if nothing was written."""
        source = self._audio_from
        self._finish_segment(whole_audio=source is not None and source.complete)
        return tuple(self._finished)

    def abort(self) -> None:
        """Stop at once. Finished segments stay; the open one keeps its `.part` name. Nothing after `close`."""
        segment, self._segment = self._segment, None
        if segment is not None:
            segment.abandon()

    def _next_segment(self, frame: Frame, format_: PictureFormat, rate: Fraction | None) -> None:
        self._finish_segment(whole_audio=False)
        self._number += 1
        final = self._path
        if self._number > 1:
            final = final.with_name(f"{final.stem}_{self._number:03d}{final.suffix}")
        self._epoch, self._format = frame.epoch, format_
        # With audio, what leads in before the first picture is kept: the file starts where the source does.
        base_ns = 0 if self._audio and self._number == 1 else frame.pts_ns
        start_ns = 0 if self._number == 1 else frame.pts_ns
        self._segment = Segment(SegmentSpec(final, self._settings, self.encoder, format_, rate, base_ns, start_ns,
                                            self._audio, self._tags, self._comment))

    def _finish_segment(self, whole_audio: bool) -> None:
        segment, self._segment = self._segment, None
        if segment is not None:
            self._finished.append(segment.finish(whole_audio))

    def _plan_audio(self) -> AudioPlan | None:
        if self._audio_from is None or not self._audio_from.info.has_audio:
            return None
        stream = self._audio_from.audio
        if stream is None:
            self.notes.append("audio of live sources is not kept")
            return None
        plan = plan_audio(stream)
        if plan is None:
            self.notes.append("the audio is left out: MP4 cannot carry it and it cannot be converted to AAC here; "
                              "install gstreamer1.0-libav")
        elif len(plan.elements) > 1:
            self.notes.append("the audio is converted to AAC, as MP4 cannot carry it")
        return plan


def format_of_frame(frame: Frame) -> tuple[PictureFormat, Fraction | None]:
    """The format to declare for a frame, and its nominal frame rate where known."""
    if isinstance(frame.storage, FrameStorage):
        return frame.storage.format, frame.storage.frame_rate
    picture = frame.picture
    matrix = {"bt601": "4:16:4", "bt709": "3:5:1", "bt2020": "6:13:7"}[picture.matrix]
    colorimetry = f"{1 if picture.full_range else 2}:{matrix}"
    return PictureFormat(picture.width_px, picture.height_px, picture.pixel_aspect, colorimetry), None


def buffer_of_frame(frame: Frame) -> Any:
    """The frame's own buffer, or a copy of its planes where the frame does not come from GStreamer."""
    if isinstance(frame.storage, FrameStorage):
        buffer = frame.storage.detach()
        if buffer is None:
            raise UnsafeFrameError("this frame's memory was given back already")
        return buffer
    return _copy_of(frame.picture)


def _copy_of(picture: Picture) -> Any:
    if picture.layout != "nv12" or picture.width_px % 2 or picture.height_px % 2:
        raise UnsafeFrameError("a recorder takes NV12 pictures of even size")
    layout = Nv12Layout.default(picture.width_px, picture.height_px)
    buffer = load().Gst.Buffer.new_allocate(None, layout.size(picture.height_px), None)
    mapped = MappedBuffer(buffer)
    luma, chroma = (np.asarray(each.samples, np.uint8) for each in picture.planes)
    _plane(mapped.data, layout, 0, luma.shape)[:] = luma
    _plane(mapped.data, layout, 1, (chroma.shape[0], picture.width_px))[:] = chroma.reshape(chroma.shape[0], -1)
    mapped.unmap()
    return buffer


def _plane(data: UInt8, layout: Nv12Layout, index: int, shape: tuple[int, ...]) -> UInt8:
    return plane(data, layout.offsets[index], layout.strides[index], shape[0], shape[1])
