"""Builds, opens and times candidates with TensorRT on the GPU of this machine."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import onnx

from build_engines.backend import BackendName, Built, Candidate, Tell, Timing
from build_engines.half import out_of_range, to_half
from build_engines.options import DEFAULT_LEVEL
from build_engines.tensorrt_builder import (
    BuildRequest,
    Retrying,
    Said,
    Step,
    build,
    default_workspace_bytes,
)
from build_engines.tensorrt_clocks import clocks_under_load
from build_engines.timing import timing
from edge.device import Device, this_device
from edge.errors import BuildError, UnavailableError
from edge.inference.tensorrt import TensorRtRuntime
from edge.nvidia.tensorrt_api import load_tensorrt

ROUNDS = 5          # candidates take turns, so that clocks and heat are shared
RUNS = 20           # of each candidate per turn
WARM_UP_RUNS = 10
PROFILE_RUNS = 20


def timing_cache_path(directory: Path, device: Device) -> Path:
    """Kernel times are those of one GPU and one TensorRT; TensorRT checks that, too."""
    return directory / f"timing-{device.tensorrt}-sm{device.compute_capability}-cuda{device.cuda}.cache"


class TensorRtBackend:
    """Part of `build_engines.backend.BuildBackend`.

    work: directory for graphs and plans. cache_dir: of the timing cache. workspace_bytes: None chooses by free memory.
    external_kernels, library, target: see `BuildRequest`. timeout_s: for one try of a build.
    Raises UnavailableError where TensorRT cannot be used.
    """

    name: BackendName = "tensorrt"

    def __init__(
        self,
        work: Path,
        cache_dir: Path,
        batches: Sequence[int] = (1, 8),
        workspace_bytes: int | None = None,
        level: int = DEFAULT_LEVEL,
        external_kernels: bool = False,
        timeout_s: float = 3600.0,
        library: str = "tensorrt",
        target: str | None = None,
    ) -> None:
        self._device = this_device()
        if self._device.unsupported:
            raise UnavailableError(self._device.unsupported, "or build for the processor: --backend onnxruntime")
        self._library = load_tensorrt(library)
        self._work, self._batches = work, tuple(sorted(set(batches)))
        self._cache = timing_cache_path(cache_dir, self._device)
        self._workspace_bytes, self._level = workspace_bytes, level
        self._external_kernels, self._timeout_s = external_kernels, timeout_s
        self._module_name, self._target = library, target

    def describe(self) -> Device:
        """This machine."""
        return self._device

    def build_plan(
        self, graph: bytes, name: str, half: bool, int8: bool, progress: Tell, deadline_s: float = float("inf")
    ) -> tuple[Path, float, str]:
        """Build one plan; its path, the seconds that it took and the end of TensorRT's log.

        graph: serialised, in float, batch free, the other sides fixed; FP16 is written into it where this version wants
        that. int8: whether it has Q/DQ nodes. deadline_s: see `Candidate`. Raises BuildError.
        """
        self._work.mkdir(parents=True, exist_ok=True)
        path = self._work / f"{name}.onnx"
        path.write_bytes(_in_half(graph, name, progress) if half and self._library.strongly_typed else graph)
        request = BuildRequest(
            path,
            self._work / f"{name}.plan",
            self._batches,
            half=half,
            int8=int8,
            workspace_bytes=self._workspace_bytes or default_workspace_bytes(),
            level=self._level,
            timing_cache=self._cache,
            external_kernels=self._external_kernels,
            library=self._module_name,
            target=self._target,
        )
        try:
            built = build(request, lambda message: _tell(message, progress), self._timeout_s, deadline_s)
        finally:
            path.unlink(missing_ok=True)
        return request.plan, built.seconds, built.log_tail

    def build(self, candidate: Candidate, half: bool = True, progress: Tell = print) -> Built:
        """See `BuildBackend`."""
        plan, seconds, log_tail = self.build_plan(
            candidate.graph, candidate.name, half and candidate.half, bool(candidate.int8), progress,
            candidate.deadline_s,
        )   # fmt: skip
        return Built(candidate, plan, plan.stat().st_size, log_tail, seconds)

    def open(self, built: Built) -> TensorRtRuntime:
        """See `BuildBackend`."""
        return TensorRtRuntime([built.payload.read_bytes()], built.candidate.name)

    def time(self, built: Sequence[Built], batch: int) -> list[Timing]:
        """Median time of the GPU for one batch, in milliseconds; all are measured in turns."""
        taken: list[list[float]] = [[] for _ in built]
        with contextlib.ExitStack() as stack:
            runtimes = [stack.enter_context(contextlib.closing(self.open(one))) for one in built]
            inputs = runtimes[0].example(batch) if runtimes else {}
            for runtime in runtimes:
                runtime.time(inputs, WARM_UP_RUNS)
            for _ in range(ROUNDS):
                for runtime, times in zip(runtimes, taken, strict=True):
                    times.extend(runtime.time(inputs, RUNS))
            clocks = clocks_under_load(lambda: [runtime.time(inputs, RUNS) for runtime in runtimes])
        return [
            replace(
                timing(one.candidate.name, batch, times), gpu_mhz=clocks.gpu_mhz, memory_mhz=clocks.memory_mhz
            )
            for one, times in zip(built, taken, strict=True)
        ]

    def layer_times(self, built: Built) -> dict[str, float]:
        """Milliseconds per layer of the engine at the smallest batch, reformats among them."""
        with contextlib.closing(self.open(built)) as runtime:
            return runtime.profile(runtime.example(self._batches[0]), PROFILE_RUNS)


def _in_half(graph: bytes, name: str, progress: Tell) -> bytes:
    try:
        model = onnx.load_from_string(graph)
        if cut := out_of_range(model):
            progress(f"{name}: numbers beyond FP16 are cut to its largest in {', '.join(cut)}")
        return bytes(to_half(model).SerializeToString())
    except Exception as error:      # protobuf's and onnx's errors share no base class
        raise BuildError(f"FP16 cannot be written into the graph of {name} ({error})") from error


def _tell(message: Step | Said | Retrying, progress: Tell) -> None:
    if isinstance(message, Step):
        progress(f"{message.phase}{f' {message.step}/{message.steps}' if message.steps else ''}")
    elif isinstance(message, Retrying):
        limits = f"{message.workspace_bytes >> 20} MiB of workspace, level {message.level}"
        progress(f"the build failed ({message.why}); trying again with {limits}")
    elif message.severity.endswith("error"):
        progress(f"TensorRT: {message.text}")
