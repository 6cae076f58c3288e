"""One camera, for as long as the service runs: connect, record, lose it, wait, connect again.

The loop runs in the main thread, which decides everything and never waits for long: opening a source has a thread of
its own, and so have detection, encoding and the disk. Whatever it waits for, it looks at its supervisor, at the time
of day and at the recorder five times a second, and reports once a second.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import time
from datetime import datetime

from edge.anonymize.gate import Anonymizer
from edge.camera import CameraProcessSettings
from edge.camera.account import BEHIND, Account
from edge.camera.backoff import Backoff
from edge.camera.opening import CameraFrames, Opening
from edge.camera.schedule import is_on
from edge.channel import ChannelClosedError, ChildEnd, Stop
from edge.detect.detector import Detector
from edge.errors import ConfigError, DetectorError, DeviceLostError, EdgeError, InputError, RetryLater
from edge.inference.client import RemoteNetwork
from edge.inference.wire import Welcome
from edge.live import DETECTOR, LATE, LATE_S, LiveFlow
from edge.messages import Started, Summary
from edge.pipeline import Pipeline
from edge.recordings.ledger import Provenance
from edge.recordings.recorder import CameraRecorder
from edge.reports import CameraState, Event, Fatal, Level
from edge.video.encoders import choose_encoder
from edge.video.inputs import input_of

LOOK_S, REPORT_S = 0.2, 1.0
CLOSE_S = 12.0                  # for the recorder, of the 15 s that a camera has to stop
OPENING_HANGS_S = 90.0          # a source gives up after 20 s, then asks the resolver, and closes within 5 s
SOURCE_LOST, OFF_SCHEDULE, INFERENCE_DOWN = "source lost", "off schedule", "inference down"


class _StopError(Exception):
    """The supervisor wants the end."""


class _AnewError(Exception):
    """Something in this process hangs that a new process would not have."""


def run_camera(channel: ChildEnd) -> int:
    """Serve the supervisor until it says stop; gives the exit code. Raises ChannelClosedError when it is gone."""
    settings = channel.receive(timeout_s=30.0)
    if not isinstance(settings, CameraProcessSettings):
        return ConfigError.exit_code
    try:
        camera = _Camera(channel, settings)
        camera.run()
    except EdgeError as error:
        channel.report(Fatal(str(error), error.exit_code))
        return error.exit_code
    return 0


def _give_memory_back() -> None:
    """After a connection: GStreamer's objects and our callbacks hold each other until then, and each connection has
    new threads, for which glibc keeps heaps that it would hardly ever return (mallopt(3), M_ARENA_MAX)."""
    gc.collect()
    with contextlib.suppress(AttributeError):       # another libc
        ctypes.CDLL(None).malloc_trim(0)


class _Camera:
    """The loop. Also the `edge.messages.Reporter` of its pipelines."""

    def __init__(self, channel: ChildEnd, settings: CameraProcessSettings) -> None:
        camera = settings.camera
        self._channel, self._settings = channel, camera
        try:
            name = input_of(camera.source).name
        except InputError:                  # a file that is not there yet
            name = str(getattr(camera.source, "path", ""))
        self._account = Account(camera.name, name)
        self._live = LiveFlow(camera.on_doubt, explain=self._explain)
        self._anonymizer = Anonymizer(camera.run.mask)
        self._recorder = CameraRecorder(camera, Provenance(source=name), self._emit)
        self._live.on_drop = self._recorder.drop
        self._network = RemoteNetwork(settings.inference_socket, camera.run.detect, camera.name, LATE_S)
        self._welcome: Welcome | None = None
        self._detector: Detector | None = None
        self._backoff = Backoff()
        self._source: CameraFrames | None = None        # while it is recorded, and with it
        self._pipeline: Pipeline | None = None
        self._frames_seen = self._behind_told = 0
        self._stopping = False
        self._reported_s = 0.0
        self._said: dict[str, str] = {}

    def run(self) -> None:
        """Until the supervisor says stop. Raises EdgeError for what only a new process can mend."""
        try:
            self._wait_for_network()
            while True:
                self._wait_for_schedule()
                self._connect_and_record()
        except (_StopError, _AnewError):
            pass
        except ChannelClosedError:
            self._recorder.abort()
            raise
        finally:
            self._finish()

    def _connect_and_record(self) -> None:
        opening = self._open()
        if opening is None:
            return
        try:
            source = opening.result()
        except EdgeError as error:
            self._wait_after(opening.clean(str(error)), 0.0)
            return
        began_s = time.monotonic()
        lost = self._record(source)
        if self._stopping:
            raise _StopError
        if source.hangs:
            self._emit(Event("warning", "restart", "the source does not close; this process is started anew"))
            raise _AnewError
        if lost:
            self._account.report.reconnects += 1
            self._recorder.end_segment()
            self._wait_after(opening.clean(lost), time.monotonic() - began_s)

    def _open(self) -> Opening | None:
        """What opened the source, or failed to; None when it is no longer wanted."""
        if self._account.report.state != "backing_off":     # keeps saying why, until it works
            self._enter("connecting")
        opening = Opening(self._settings)
        try:
            while not opening.is_done(LOOK_S) and self._is_on():
                self._look(0.0)
                if time.monotonic() - opening.started_s > OPENING_HANGS_S:
                    self._emit(Event("warning", "restart", "opening the source hangs; this process is started anew"))
                    raise _AnewError
        except BaseException:
            opening.give_up()
            raise
        if opening.is_done():
            return opening
        opening.give_up()
        return None

    def _record(self, source: CameraFrames) -> str:
        """Record until the source is lost, the schedule ends or the supervisor says stop; why it was lost, or ""."""
        assert self._detector is not None
        report, info = self._account.report, source.info
        report.width_px, report.height_px, report.decoder = info.width_px, info.height_px, info.decoder
        report.encoder = choose_encoder(self._settings.run.record.codec)
        self._say_once("source", "info", f"connected: {info.codec} {info.width_px}x{info.height_px}, {info.decoder}")
        pipeline = Pipeline(source, self._detector, self._anonymizer, self._recorder, self._settings.run, self,
                            self._recorder.observe, self._live)  # fmt: skip
        self._source, self._pipeline, self._frames_seen = source, pipeline, self._live.dropped.total()
        self._behind_told = 0
        self._enter("recording")
        try:
            if pipeline.run().stopped:
                return ""
            return source.ended_early or "the file was played to its end"
        except (RetryLater, InputError) as error:
            if isinstance(error, DeviceLostError) or not source.ended:
                raise       # not the source's
            return str(error)
        finally:
            self._account.connection_ended(pipeline, self._behind())
            self._source = self._pipeline = None
            source.close()

    def _wait_for_network(self) -> None:
        """Nothing is read before the model is known: until then every frame would be hidden whole."""
        self._enter("connecting", "waits for the inference process")
        while not self._network.connect(LOOK_S):
            self._look(0.0)
        self._detector = Detector(self._settings.run.detect, self._network)
        self._learn_model()

    def _learn_model(self) -> None:
        """Who detects, for the report and for sidecars."""
        welcome = self._network.welcome
        if welcome is self._welcome:
            return
        self._welcome = welcome
        title = welcome.model.title
        self._account.report.detector = f"{title} on {welcome.runtime}"
        self._recorder.provenance = Provenance(title, welcome.model_sha256, welcome.engine_sha256, welcome.runtime,
                                               self._account.report.source)  # fmt: skip

    def _wait_for_schedule(self) -> None:
        if self._is_on():
            return
        self._recorder.end_segment()
        self._recorder.gap(OFF_SCHEDULE)
        self._say_once("schedule", "info", "pauses by its schedule")
        self._enter("off_schedule")
        while not self._is_on():
            self._look(LOOK_S)
        self._say_once("schedule", "info", "goes on by its schedule")

    def _wait_after(self, why: str, recorded_s: float) -> None:
        self._say_once("source", "warning", why)
        self._recorder.gap(SOURCE_LOST)
        self._enter("backing_off", why)
        _give_memory_back()
        end_s = time.monotonic() + self._backoff.after(recorded_s)
        while (left_s := end_s - time.monotonic()) > 0 and self._is_on():
            self._look(min(LOOK_S, left_s))

    def _finish(self) -> None:
        """Complete what is open, within the time that a camera has."""
        self._enter("stopping", self._account.report.detail)
        if not self._recorder.close(CLOSE_S):
            self._emit(Event("warning", "unfinished", "the last segment was not finished in time"))
        self._network.close()
        self._report()

    # What the loop looks at.

    def _look(self, wait_s: float) -> None:
        """Wait for the supervisor for so long, and do what is due. Raises _StopError."""
        command = self._channel.receive(wait_s)
        self._recorder.tick()
        if self._pipeline is None:
            self._account.report.progress += 1
        else:
            frames = self._pipeline.summary.frames + self._live.dropped.total()
            self._account.report.progress += frames - self._frames_seen
            self._frames_seen = frames
        if time.monotonic() - self._reported_s >= REPORT_S:
            self._report()
        if isinstance(command, Stop):
            self._stopping = True
        if self._stopping:
            raise _StopError

    def _report(self) -> None:
        self._reported_s = time.monotonic()
        behind = self._behind()
        self._account.update(self._live, self._recorder, self._pipeline, behind)
        if self._pipeline is not None:
            paused = self._recorder.paused
            self._account.enter("disk_paused" if paused else "recording", paused)
        if self._detector is not None:
            self._learn_model()
        self._channel.report(self._account.report)

    def _behind(self) -> int:
        """Frames that the open connection left out; new ones are told to the recorder."""
        if self._source is None:
            return 0
        behind = self._source.look_behind()
        if behind > self._behind_told:
            self._recorder.drop(BEHIND, behind - self._behind_told)
            self._behind_told = behind
        return behind

    def _is_on(self) -> bool:
        return is_on(self._settings.schedule, datetime.now())

    def _enter(self, state: CameraState, detail: str = "") -> None:
        changed = state != self._account.report.state
        self._account.enter(state, detail)
        if changed:
            self._report()

    def _emit(self, event: Event) -> None:
        self._channel.report(Event(event.level, event.key, event.text, self._settings.name))

    def _say_once(self, key: str, level: Level, text: str) -> None:
        """One line per change."""
        if self._said.get(key) != text:
            self._said[key] = text
            self._emit(Event(level, key, text, self._settings.name))

    def _explain(self, error: DetectorError) -> str:
        if not self._network.ready:
            return INFERENCE_DOWN
        return LATE if LATE in error.message else DETECTOR

    # Part of `edge.messages.Reporter`: the pipeline looks for us while it runs.

    def announce(self, started: Started) -> None:
        """Nothing to do: the report has it."""

    def note(self, text: str) -> None:
        """Pass on."""
        self._emit(Event("info", "note", text))

    def progress(self, summary: Summary) -> None:
        """Nothing to do: `stop_requested` is asked with it."""

    def stop_requested(self) -> bool:
        """Whether the supervisor or the schedule wants the end of this connection."""
        try:
            self._look(0.0)
        except _StopError:
            return True
        return not self._is_on()

