"""Opens a camera's source in a thread of its own, because drivers and networks take their time in C."""

from __future__ import annotations

import threading
import time
from typing import Protocol

from edge.cameras import CameraSettings, CameraSource, FileSource, RtspSource, SecretRef
from edge.errors import EdgeError, InterruptedJobError
from edge.pipeline import FrameSource
from edge.secrets import Redactor, Secret, resolve
from edge.video.inputs import input_of
from edge.video.paced import PacedFile
from edge.video.source import Source, SourceInfo


class CameraFrames(FrameSource, Protocol):
    """A source of frames as the camera process uses it: see `edge.video.source.Source`."""

    info: SourceInfo

    @property
    def hangs(self) -> bool: ...

    def look_behind(self) -> int: ...

    def close(self) -> None: ...


class Opening:
    """Begins with its construction. Secrets are looked up anew each time.

    clean: takes them out of what GStreamer and the camera said, now and as long as the source is open.
    """

    def __init__(self, camera: CameraSettings) -> None:
        self.clean = Redactor(())
        self._camera = camera
        self._given_up = threading.Event()
        self._lock = threading.Lock()
        self._source: CameraFrames | None = None
        self._error: EdgeError | None = None
        self.started_s = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="open", daemon=True)
        self._thread.start()

    def is_done(self, wait_s: float = 0.0) -> bool:
        """Whether `result` gives one, within `wait_s`."""
        self._thread.join(wait_s)
        return not self._thread.is_alive()

    def result(self) -> CameraFrames:
        """The source. Raises what opening it raised."""
        if self._error is not None:
            raise self._error
        assert self._source is not None
        return self._source

    def give_up(self) -> None:
        """Nobody wants it any more: what is opened yet is closed. Does not wait."""
        with self._lock:
            self._given_up.set()
            source, self._source = self._source, None
        if source is not None:
            source.close()

    def _run(self) -> None:
        try:
            user, password, self.clean = credentials(self._camera.source)
            source = open_camera(self._camera, user, password, self._given_up)
        except EdgeError as error:
            self._error = error
            return
        except Exception as error:
            self._error = EdgeError(f"{type(error).__name__}: {error}")
            return
        with self._lock:
            if not self._given_up.is_set():
                self._source = source
                return
        source.close()


def credentials(source: CameraSource) -> tuple[str, str, Redactor]:
    """User and password of a source, empty where it has none, and what takes them out of texts.

    Raises ConfigError for a secret that is not there.
    """
    if not isinstance(source, RtspSource):
        return "", "", Redactor(())
    given = (source.user, source.password)
    found = [resolve(value) if isinstance(value, SecretRef) else value or "" for value in given]
    user, password = (value.reveal() if isinstance(value, Secret) else value for value in found)
    return user, password, Redactor(value for value in found if isinstance(value, Secret))


def open_camera(camera: CameraSettings, user: str, password: str, given_up: threading.Event) -> CameraFrames:
    """Open the source of a camera and decode its first picture.

    Raises InputError, RetryLater, UnavailableError, InterruptedJobError.
    """
    source, settings = camera.source, camera.run.source
    opened = input_of(source, user, password)
    if given_up.is_set():
        raise InterruptedJobError(f"{opened.name}: opening was given up")
    if isinstance(source, FileSource):
        return PacedFile(opened, settings, source.loop, given_up.is_set)
    return Source(opened, settings, given_up.is_set)
