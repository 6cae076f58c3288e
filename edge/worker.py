"""The worker process: decodes, detects, masks and encodes one job after another.

It is a process of its own because a decoder that crashes on a hostile file must be an error message, not the end of
the run (docs/architecture.md). Started by `edge.jobs`; talks over one socket with the messages of `edge.messages`.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

from edge.errors import DeviceLostError, EdgeError, StorageError
from edge.messages import Failed, Finished, Job, Message, Note, Progress, Started, Stop, Summary
from edge.settings import DetectSettings
from edge.storage import make_parent

if TYPE_CHECKING:
    from edge.detect.detector import Detector

PR_SET_PDEATHSIG = 1    # prctl(2)


class Worker:
    """Runs jobs in this process; the detector is kept from one job to the next."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._detector: Detector | None = None
        self._detector_key: tuple[DetectSettings, Path | None] | None = None

    def serve(self) -> None:
        """Take jobs until the other side closes the connection."""
        while True:
            try:
                job = self._connection.recv()
            except EOFError:
                return
            if isinstance(job, Job):
                answer = self._answer(job)
                self._send(answer)
                if isinstance(answer, Failed) and answer.worker_ends:
                    return

    def _answer(self, job: Job) -> Message:
        try:
            return self._run(job)
        except EdgeError as error:
            # A CUDA context that is broken stays so for the life of the process.
            return Failed(str(error), error.exit_code, worker_ends=isinstance(error, DeviceLostError))
        except OSError as error:
            return Failed(f"{job.output}: {error.strerror or error}; check the disk", StorageError.exit_code)
        except MemoryError:
            return Failed(f"{job.source}: out of memory; use a smaller picture or a shorter --look-ahead", 1)

    def _run(self, job: Job) -> Finished:
        make_parent(job.output)
        if job.kind == "picture":
            from edge.picture_job import anonymize_picture

            return anonymize_picture(job, self._detector_for(job), self)
        from edge.video_job import anonymize_video

        return anonymize_video(job, self._detector_for(job), self)

    def _detector_for(self, job: Job) -> Detector:
        from edge.inference.local_network import open_detector

        key = (job.settings.detect, job.models_dir)
        if self._detector is None or self._detector_key != key:
            self._detector = open_detector(job.settings.detect, job.models_dir)
            self._detector_key = key
        return self._detector

    def announce(self, started: Started) -> None:
        """Part of `edge.messages.Reporter`."""
        self._send(started)

    def note(self, text: str) -> None:
        """Part of `edge.messages.Reporter`."""
        self._send(Note(text))

    def progress(self, summary: Summary) -> None:
        """Part of `edge.messages.Reporter`."""
        self._send(Progress(summary))

    def stop_requested(self) -> bool:
        """Part of `edge.messages.Reporter`."""
        while self._connection.poll():
            if isinstance(self._connection.recv(), Stop):
                return True
        return False

    def _send(self, message: Message) -> None:
        self._connection.send(message)


def main() -> int:
    """Entry point: ``python -m edge.worker FD``, FD being one end of a socket pair."""
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:      # it died before prctl took effect
        return 1
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # A core dump would hold unmasked frames.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        Worker(Connection(int(sys.argv[1]))).serve()
    except (BrokenPipeError, ConnectionResetError):
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
