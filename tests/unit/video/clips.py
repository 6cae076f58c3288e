"""Clips made on the spot, and what to do with them; everything goes through the real elements."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from edge.anonymize.gate import Anonymizer
from edge.settings import MaskSettings, RecordSettings, SourceSettings
from edge.types import Frame
from edge.video.gst import load
from edge.video.recorder import Recorder
from edge.video.source import Source, open_source

H264 = "x264enc speed-preset=ultrafast key-int-max=15 bframes=0 ! h264parse"


def make_clip(path: Path, launch: str) -> Path:
    """Run a launch line whose last element is a muxer or parser, into `path`."""
    gst = load().Gst
    pipeline = gst.parse_launch(f"{launch} ! filesink name=out")
    pipeline.get_by_name("out").set_property("location", str(path))
    pipeline.set_state(gst.State.PLAYING)
    message = pipeline.get_bus().timed_pop_filtered(30 * gst.SECOND, gst.MessageType.EOS | gst.MessageType.ERROR)
    pipeline.set_state(gst.State.NULL)
    assert message is not None, launch
    assert message.type == gst.MessageType.EOS, message.parse_error()
    return path


def simple_clip(path: Path, frames: int = 30, size: str = "width=160,height=120", mux: str = "mp4mux") -> Path:
    """A moving ball at 30 frames per second in H.264."""
    return make_clip(path, f"videotestsrc pattern=ball num-buffers={frames} ! "
                     f"video/x-raw,format=I420,{size},framerate=30/1 ! {H264} ! {mux}")  # fmt: skip


def frames_of(source: Source) -> Iterator[Frame]:
    """All frames up to the end; the caller releases them."""
    while not source.ended:
        frame = source.read(5.0)
        if frame is not None:
            yield frame


def read_all(path: Path, settings: SourceSettings | None = None) -> list[tuple[int, int, int]]:
    """Epoch, PTS and duration in nanoseconds of every frame of a file."""
    source = open_source(str(path), settings or SourceSettings())
    found = []
    for frame in frames_of(source):
        found.append((frame.epoch, frame.pts_ns, frame.duration_ns))
        frame.release()
    source.close()
    return found


def copy_clip(path: Path, output: Path, settings: RecordSettings | None = None, held: int = 0) -> Any:
    """Read `path` and record it without any mask, `held` frames late; gives the recorder's notes and files."""
    source = open_source(str(path), SourceSettings())
    recorder = Recorder(output, settings or RecordSettings(), live=False, audio_from=source)
    anonymizer, delayed = Anonymizer(MaskSettings()), deque[Frame]()
    for frame in frames_of(source):
        delayed.append(frame)
        if len(delayed) > held:
            recorder.write(anonymizer.apply(delayed.popleft(), ()))
    for frame in delayed:
        recorder.write(anonymizer.apply(frame, ()))
    written = recorder.close()
    source.close()
    return recorder.notes, written
