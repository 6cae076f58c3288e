"""A camera for tests: settings, frames with a number in them, a clock set by hand, and a recorder that is fed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import av
import numpy as np

from edge.anonymize.gate import Anonymizer, SafeFrame
from edge.cameras import CameraSettings, FileSource, RecordingSettings, Retention
from edge.recordings.ledger import Provenance
from edge.recordings.recorder import CameraRecorder
from edge.reports import Event
from edge.settings import MaskSettings, RecordSettings, RunSettings
from edge.types import Frame, Picture, Plane

FPS = 25
STEP_NS = 1_000_000_000 // FPS
WIDTH, HEIGHT = 160, 96
BITS = 14
ORIGIN = Provenance("yunet", "ab" * 32, "", "onnxruntime", "rtsp://camera/1")


class ManualClock:
    """Goes by itself like the real ones; UTC can be set."""

    def __init__(self, utc_s: float = 1_780_000_000.0) -> None:
        self.offset_s = utc_s - time.monotonic()

    def utc_s(self) -> float:
        return time.monotonic() + self.offset_s

    def monotonic_s(self) -> float:
        return time.monotonic()

    def is_synchronised(self) -> bool | None:
        return True


def camera(root: Path, segment_s: float = 1.0, name: str = "door", snapshot_s: float | None = None,
           retention: Retention | None = None, record: RecordSettings | None = None) -> CameraSettings:  # fmt: skip
    recording = RecordingSettings(root, segment_s, snapshot_s, retention or Retention(min_free_bytes=0))
    run = RunSettings(record=record or RecordSettings())
    return CameraSettings(name, FileSource(Path("unused")), run, recording, config_sha256="cd" * 32)


def numbered(number: int, width: int = WIDTH, height: int = HEIGHT, noisy: bool = False) -> Picture:
    """A grey picture that shows its number as bars of black and white. noisy: its lower half needs many bytes."""
    luma = np.full((height, width), 128, np.uint8)
    if noisy:
        luma = np.random.default_rng(number).integers(0, 255, (height, width), np.uint8, endpoint=True)
    bar = width // BITS
    for bit in range(BITS):
        luma[: height // 2, bit * bar : (bit + 1) * bar] = 220 if number >> bit & 1 else 30
    chroma = np.full((height // 2, width // 2, 2), 128, np.uint8)
    return Picture(width, height, "nv12", (Plane(luma), Plane(chroma, 2, 2)))


def number_in(luma: np.ndarray[Any, Any]) -> int:
    """The number that `numbered` drew."""
    bar, half = luma.shape[1] // BITS, luma.shape[0] // 2
    return sum(int(luma[4 : half - 4, bit * bar + 2 : (bit + 1) * bar - 2].mean() > 125) << bit for bit in range(BITS))


def safe(index: int, epoch: int = 0, pts_ns: int | None = None, width: int = WIDTH, whole: str = "",
         release: Any = None, noisy: bool = False) -> tuple[Frame, SafeFrame]:  # fmt: skip
    """A frame with its index as number, and the safe frame of it (plain, or one hidden whole)."""
    at_ns, picture = index * STEP_NS if pts_ns is None else pts_ns, numbered(index, width, noisy=noisy)
    frame = Frame("door", epoch, index, picture, at_ns, STEP_NS, release=release or (lambda: None))
    anonymizer = Anonymizer(MaskSettings())
    return frame, anonymizer.redact(frame, whole) if whole else anonymizer.apply(frame, ())


@dataclass
class Feed:
    """A recorder that gets frames in real time (or as fast as it takes them), and what it said."""

    recorder: CameraRecorder
    events: list[Event]
    index: int = 0
    slowest_s: float = 0.0
    accepted: list[int] = field(default_factory=list)

    def frames(self, count: int, pace: float = 1.0, **more: Any) -> None:
        """Write `count` frames. pace: 1 is real time, 0 as fast as the queue has room."""
        for _ in range(count):
            frame, hidden = safe(self.index, **more)
            began_s, lost = time.monotonic(), self.recorder.dropped
            self.recorder.observe(frame, (), hidden)
            self.recorder.write(hidden)
            self.recorder.tick()
            took_s = time.monotonic() - began_s
            self.slowest_s = max(self.slowest_s, took_s)
            if self.recorder.dropped == lost:
                self.accepted.append(self.index)
            self.index += 1
            time.sleep(max(0.0, pace / FPS - took_s) if pace else 0.002)

    def frames_until(self, is_so: Callable[[], bool], timeout_s: float = 40.0, **more: Any) -> None:
        """Write frames until it is so; fail when it does not come true."""
        deadline_s = time.monotonic() + timeout_s
        while not is_so():
            assert time.monotonic() < deadline_s, f"it did not come true; {self.keys}, paused: {self.recorder.paused}"
            self.frames(1, **more)

    def wait_for(self, key: str, timeout_s: float = 10.0) -> Event:
        """Tick until there is an event of this key."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            self.recorder.tick()
            for event in self.events:
                if event.key == key:
                    return event
            assert time.monotonic() < deadline_s, f"no {key} in {[event.key for event in self.events]}"
            time.sleep(0.02)

    @property
    def keys(self) -> list[str]:
        return [event.key for event in self.events]


@contextmanager
def feed(settings: CameraSettings, clock: ManualClock | None = None) -> Iterator[Feed]:
    """A running recorder, closed at the end."""
    events: list[Event] = []
    recorder = CameraRecorder(settings, ORIGIN, events.append, clock)
    try:
        yield Feed(recorder, events)
    except BaseException:
        recorder.abort()
        raise
    assert recorder.close(20.0)


def segments(root: Path, name: str = "door") -> list[Path]:
    """Finished segments by their number in the chain."""
    return sorted((root / name).glob("*/*.mp4"), key=lambda path: sidecar(path)["sequence"])


def sidecar(segment: Path) -> dict[str, Any]:
    """What the sidecar of a segment says."""
    values: dict[str, Any] = json.loads(segment.with_suffix(".json").read_text())
    return values


def content(segment: Path) -> tuple[list[int], float]:
    """Numbers in the frames of a segment, and its duration in seconds, as another library reads them."""
    with av.open(str(segment)) as container:
        stream = container.streams.video[0]
        assert stream.duration is not None
        assert stream.time_base is not None
        numbers = [number_in(frame.to_ndarray(format="gray")) for frame in container.decode(stream)]
        return numbers, float(stream.duration * stream.time_base)


def wait_until(is_so: Callable[[], bool], timeout_s: float = 30.0) -> None:
    """Fail when this does not come true."""
    deadline_s = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < deadline_s, "it did not come true"
        time.sleep(0.02)
