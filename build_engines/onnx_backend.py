"""Builds, opens and times candidates with ONNX Runtime on the processor: the same search where there is no GPU."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import onnx

from build_engines.backend import BackendName, Built, Candidate, Tell, Timing
from build_engines.network import Feed
from build_engines.timing import time_in_turns
from edge.device import Device, this_device
from edge.engines.probe import probe_input
from edge.errors import BuildError, EdgeError
from edge.inference.onnx_runtime import OnnxRuntime, load_onnxruntime

PROFILE_RUNS = 4


class OnnxBackend:
    """Part of `build_engines.backend.BuildBackend`. Building is checking: the payload is the graph itself.

    work: directory for graphs. height_px, width_px: input size to time detectors at.
    example: input of a network that is no detector.
    """

    name: BackendName = "onnxruntime"

    def __init__(self, work: Path, height_px: int, width_px: int, example: Feed | None = None) -> None:
        self._work, self._size, self._example = work, (height_px, width_px), example

    def describe(self) -> Device:
        """This machine."""
        return this_device()

    def build(self, candidate: Candidate, half: bool = True, progress: Tell = print) -> Built:
        """See `BuildBackend`; `half` has no meaning on a processor."""
        started_s = time.monotonic()
        try:
            onnx.checker.check_model(onnx.load_from_string(candidate.graph))
            OnnxRuntime(candidate.graph, candidate.name).close()
        except Exception as error:      # protobuf's, onnx's and ONNX Runtime's errors share no base class
            why = error.message if isinstance(error, EdgeError) else str(error)
            raise BuildError(f"ONNX Runtime cannot run {candidate.name} ({why})") from error
        self._work.mkdir(parents=True, exist_ok=True)
        payload = self._work / f"{candidate.name}.onnx"
        payload.write_bytes(candidate.graph)
        return Built(candidate, payload, len(candidate.graph), "", time.monotonic() - started_s)

    def open(self, built: Built) -> OnnxRuntime:
        """See `BuildBackend`."""
        return OnnxRuntime(built.payload.read_bytes(), built.candidate.name)

    def time(self, built: Sequence[Built], batch: int) -> list[Timing]:
        """One thread each, in turns. batch: 1, as the processor gains nothing from more."""
        if batch != 1:
            raise ValueError("ONNX Runtime runs one picture at a time")
        with contextlib.ExitStack() as stack:
            sessions = [_Session(one.payload) for one in built]
            for session in sessions:
                stack.callback(session.close)
            feed = self._feed()
            runs = [lambda session=session: session.run(feed) for session in sessions]
            return time_in_turns([one.candidate.name for one in built], runs, batch)

    def layer_times(self, built: Built) -> dict[str, float]:
        """Milliseconds per node, from the profile of ONNX Runtime."""
        with tempfile.TemporaryDirectory(dir=self._work) as directory:
            session = _Session(built.payload, Path(directory) / "profile")
            feed = self._feed()
            for _ in range(PROFILE_RUNS + 1):
                session.run(feed)
            events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
            session.close()
        times: dict[str, list[float]] = {}
        for event in events:
            if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
                times.setdefault(event["name"].removesuffix("_kernel_time"), []).append(event["dur"] / 1e3)
        return {name: sum(each[len(each) // (PROFILE_RUNS + 1) :]) / PROFILE_RUNS for name, each in times.items()}

    def _feed(self) -> Feed:
        return self._example or {"picture": probe_input(*self._size)}


class _Session:
    """One thread, as in `OnnxRuntime`, for any inputs; profile: prefix of the file to write a profile to."""

    def __init__(self, payload: Path, profile: Path | None = None) -> None:
        onnxruntime = load_onnxruntime()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.enable_mem_pattern = False
        options.add_session_config_entry("session.set_denormal_as_zero", "1")
        if profile is not None:
            options.enable_profiling = True
            options.profile_file_prefix = os.fspath(profile)
        self._session = onnxruntime.InferenceSession(os.fspath(payload), options, providers=["CPUExecutionProvider"])

    def run(self, feed: Feed) -> None:
        self._session.run(None, dict(feed))

    def end_profiling(self) -> str:
        return str(self._session.end_profiling())

    def close(self) -> None:
        self._session = None
