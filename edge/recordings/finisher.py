"""The thread that completes segments and does whatever else waits for the disk, so that frames need not."""

from __future__ import annotations

import json
import logging
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

from edge.errors import EdgeError
from edge.recordings.chain import Chain
from edge.recordings.ledger import Ledger
from edge.recordings.mp4 import length_of
from edge.recordings.names import draft_of
from edge.recordings.publishing import publish_segment
from edge.recordings.recovery import describe, recover_camera
from edge.reports import Event, Level
from edge.storage import part_path, replace_file
from edge.video.segment import Segment

_log = logging.getLogger(__name__)


class Finisher:
    """Does one job after the other for one camera. Its methods may be called by any thread and never wait for the disk.

    folder: ``<root>/<camera>``. tell: gets events, from this thread.
    """

    def __init__(self, folder: Path, tell: Callable[[Event], None]) -> None:
        self._folder, self._tell = folder, tell
        self._jobs: deque[Callable[[], None]] = deque()
        self._ready = threading.Condition()
        self._closed = self._recovering = False
        self.unfinished = 0             # segments that were handed over and are not done yet
        self.segments = 0
        self.bytes_written = 0
        self._thread = threading.Thread(target=self._run, name="finish", daemon=True)
        self._thread.start()

    def finish(self, segment: Segment, final: Path, ledger: Ledger) -> None:
        """Complete a segment that gets no more frames, and give it its name."""
        with self._ready:
            self.unfinished += 1
        self.do(lambda: self._finish(segment, final, ledger))

    def abandon(self, segment: Segment) -> None:
        """Stop a segment that cannot be completed; recover what is on disk."""
        with self._ready:
            self.unfinished += 1
        self.do(lambda: self._abandon(segment))

    def recover(self) -> None:
        """Recover what this camera left unfinished."""
        with self._ready:
            if self._recovering:
                return
            self._recovering = True
        self.do(self._recover)

    def note_draft(self, final: Path, ledger: Ledger, sync: bool = False) -> None:
        """Write down what is known about the segment that is open, should this process not live to finish it."""
        content = json.dumps(ledger.fields()).encode()
        self.do(lambda: self._note_draft(final, content, sync))

    def do(self, job: Callable[[], None]) -> None:
        """Do this after what waits already. The caller sees to it that not too much does."""
        with self._ready:
            self._jobs.append(job)
            self._ready.notify()

    def answers(self, timeout_s: float) -> bool:
        """Whether everything that waits now gets done within this time: if so, the disk does not hang."""
        done = threading.Event()
        self.do(done.set)
        return done.wait(timeout_s)

    def close(self, timeout_s: float) -> bool:
        """Do what waits and end; False when that takes longer, and is then left to go on alone."""
        with self._ready:
            self._closed = True
            self._ready.notify()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            with self._ready:
                while not self._jobs:
                    if self._closed:
                        return
                    self._ready.wait()
                job = self._jobs.popleft()
            try:
                job()
            except (EdgeError, OSError) as error:
                self._say("error", "recording-unfinished", f"{error}; what was written is recovered later")
            except Exception as error:      # a defect; other segments must still get done
                _log.exception("finishing failed")
                self._say("error", "recording-unfinished", f"{type(error).__name__}: {error}")

    def _finish(self, segment: Segment, final: Path, ledger: Ledger) -> None:
        try:
            segment.complete()
            with open(segment.descriptor, "rb", closefd=False) as file:
                length = length_of(file)
            if length.frames != ledger.frames:
                self._say("warning", "frames-lost", f"{final.name}: {ledger.frames} frames went into the encoder, "
                          f"{length.frames} came out")
            fields = ledger.fields() | {"frames": length.frames}
            size = publish_segment(part_path(final), final, segment.descriptor, fields, Chain(self._folder))
            self.segments += 1
            self.bytes_written += size
        except ValueError as error:
            self._say("error", "recording-unfinished", f"{final.name}: {error}")
        finally:
            segment.close()
            with self._ready:
                self.unfinished -= 1

    def _abandon(self, segment: Segment) -> None:
        try:
            segment.abandon()
        finally:
            with self._ready:
                self.unfinished -= 1
        self.recover()

    def _note_draft(self, final: Path, content: bytes, sync: bool) -> None:
        if part_path(final).exists():       # else it was finished meanwhile
            replace_file(draft_of(final), content, sync)

    def _recover(self) -> None:
        with self._ready:
            self._recovering = False
        for outcome in recover_camera(self._folder) if self._folder.is_dir() else ():
            self._say(*describe(outcome))

    def _say(self, level: Level, key: str, text: str) -> None:
        self._tell(Event(level, key, text, self._folder.name))
