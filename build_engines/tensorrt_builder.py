"""From an ONNX graph to a TensorRT plan, in a process of its own, with a second try on less memory."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from build_engines.child import ChildDiedError, Tell, call_in_child
from build_engines.options import DEFAULT_LEVEL
from build_engines.tensorrt_cache import TimingCache
from edge.errors import BuildError
from edge.nvidia.tensorrt_api import ShapeRange, TensorRt, load_tensorrt

if TYPE_CHECKING:
    from edge.nvidia.tensorrt_api import BuilderT, ConfigT, NetworkT, ParserT

WORKSPACE_LIMIT_BYTES = 4 << 30
WORKSPACE_SHARE = 0.35          # of MemAvailable: on a Jetson the GPU's memory is the system's
SMALLEST_WORKSPACE_BYTES = 64 << 20
TELL_EVERY_S = 0.2
OUT_OF_TIME = "give a longer --max-time, or a lower --level"
# As TensorRT 8.6 and 10 and the kernel driver of Jetson word it.
MEMORY_TEXT = re.compile(r"out of memory|outofmemory|insufficient.{0,20}memory|nvmapmemalloc|bad_alloc", re.IGNORECASE)
WORKSPACE_TEXT = re.compile(r"workspace|could not find any implementation", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """What to build.

    graph: ONNX file; every axis fixed but the batch, which may be free. plan: file to write.
    batches: each gets an optimisation profile of its own, best at that batch.
    int8: whether the graph has Q/DQ nodes. half: whether FP16 kernels may be used (weakly typed TensorRT only).
    level: 0 to 5, how hard to search for quick kernels. timing_cache: file with kernel times of earlier builds, read
    and rewritten. external_kernels: also consider those of cuDNN and cuBLAS; off by
    default in TensorRT 10, and gone in 11. target: compute capability, where it is
    not this machine's (TensorRT-RTX only). library: Python module.
    """

    graph: Path
    plan: Path
    batches: tuple[int, ...] = (1,)
    half: bool = True
    int8: bool = False
    workspace_bytes: int = WORKSPACE_LIMIT_BYTES
    level: int = DEFAULT_LEVEL
    timing_cache: Path | None = None
    external_kernels: bool = False
    target: str | None = None
    library: str = "tensorrt"


@dataclass(frozen=True, slots=True)
class BuildResult:
    """seconds: of the build that worked. log_tail: what TensorRT said last. request: as it was after retries."""

    request: BuildRequest
    seconds: float
    bytes: int
    log_tail: str


@dataclass(frozen=True, slots=True)
class Step:
    """Progress of a build. steps: 0 when unknown."""

    phase: str
    step: int
    steps: int


@dataclass(frozen=True, slots=True)
class Said:
    """A line of TensorRT's log. severity: ``warning``, ``error`` or ``internal_error``."""

    severity: str
    text: str


@dataclass(frozen=True, slots=True)
class Retrying:
    """A build failed and is tried again with less."""

    why: str
    workspace_bytes: int
    level: int


def build(
    request: BuildRequest, on_message: Callable[[Step | Said | Retrying], None], timeout_s: float = 3600.0,
    deadline_s: float = float("inf"),
) -> BuildResult:   # fmt: skip
    """Build in a child process; on failures that less memory or a shorter search may cure, try again with less.

    timeout_s: for one try. deadline_s: for all, on the monotonic clock. Raises BuildError with all tries and what
    TensorRT said last; `plan` is not there then.
    """
    failures: list[str] = []
    for attempt in ladder(request):
        if failures:
            on_message(Retrying(failures[-1], attempt.workspace_bytes, attempt.level))
        errors: list[str] = []

        def listen(message: object, errors: list[str] = errors) -> None:
            if isinstance(message, Said) and message.severity.endswith("error"):
                errors.append(message.text)
            if isinstance(message, Step | Said):
                on_message(message)

        memory_mib = available_memory_bytes() >> 20
        left_s = deadline_s - time.monotonic()
        try:
            return _in_child(attempt, listen, max(0.0, min(timeout_s, left_s)))
        except ChildDiedError as death:
            if death.how == "timeout" and left_s < timeout_s:
                why = f"the build of {request.graph.name} was stopped: the time was up"
                raise BuildError(why, OUT_OF_TIME) from None
            said = f"; TensorRT's last errors: {' | '.join(errors[-3:])}" if errors else ""
            failures.append(f"{_limits(attempt)} {death}, {memory_mib} MiB were free at its start{said}")
        except BuildError as error:
            failures.append(f"{_limits(attempt)} {error.message}")
            if not MEMORY_TEXT.search(error.message):
                raise
    raise BuildError(
        f"the build of {request.graph.name} failed {len(failures)} times: {'; '.join(failures)}",
        "stop other programs that use memory (edge-daemon too), or give a smaller --workspace or a single --batch",
    )


def _in_child(request: BuildRequest, listen: Tell, timeout_s: float) -> BuildResult:
    try:
        return call_in_child(build_here, request, listen, timeout_s)
    except BaseException:
        _remove(request.plan)
        raise


def ladder(request: BuildRequest) -> Iterator[BuildRequest]:
    """The request as asked, then with a smaller memory pool, then with a shorter search, each at most once."""
    quarter = max(SMALLEST_WORKSPACE_BYTES, request.workspace_bytes // 4)
    sixteenth = max(SMALLEST_WORKSPACE_BYTES, request.workspace_bytes // 16)
    steps = [
        request,
        replace(request, workspace_bytes=min(quarter, request.workspace_bytes)),
        replace(request, workspace_bytes=min(quarter, request.workspace_bytes), level=min(request.level, 2)),
        replace(request, workspace_bytes=min(sixteenth, request.workspace_bytes), level=min(request.level, 1)),
    ]
    yield from dict.fromkeys(steps)


def default_workspace_bytes() -> int:
    """The smaller of 4 GiB and 35 % of what memory is available."""
    return max(SMALLEST_WORKSPACE_BYTES, min(WORKSPACE_LIMIT_BYTES, int(WORKSPACE_SHARE * available_memory_bytes())))


def available_memory_bytes() -> int:
    """MemAvailable of /proc/meminfo."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(encoding="ascii"), re.MULTILINE)
    return int(found[1]) << 10 if found else WORKSPACE_LIMIT_BYTES


def build_here(request: BuildRequest, tell: Tell) -> BuildResult:
    """Build in this process. Raises BuildError with what TensorRT said, UnavailableError when it is not there."""
    started_s = time.monotonic()
    library = load_tensorrt(request.library)
    cache = TimingCache(None if library.is_rtx else request.timing_cache)       # RTX has none that works
    library.log.on_line = lambda severity, text: _hear(Said(severity, text), tell, cache)
    builder = library.builder()
    network = library.network(builder)
    parser = library.parser(network)
    if not parser.parse_from_file(str(request.graph)):
        raise BuildError(_parser_errors(library, parser, request.graph), "see docs/int8.md for what can be built")
    config = builder.create_builder_config()
    _configure(library, config, request)
    _add_profiles(library, builder, network, config, request)
    library.set_progress(config, _paced(tell))
    cache.open(config)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        why = library.log.last_errors() or "no reason given"
        remedy = "give a larger --workspace" if WORKSPACE_TEXT.search(why) else "see docs/int8.md for what can be built"
        raise BuildError(f"{library.title} cannot build {request.graph.name} ({why})", remedy)
    request.plan.parent.mkdir(parents=True, exist_ok=True)
    with request.plan.open("wb") as file:
        file.write(plan)
    cache.keep(config)
    size_bytes = request.plan.stat().st_size
    return BuildResult(request, time.monotonic() - started_s, size_bytes, library.log.tail())


def _hear(line: Said, tell: Tell, cache: TimingCache) -> None:
    if line.severity != "info" and not cache.was_refused_by(line.text):
        tell(line)


def _configure(library: TensorRt, config: ConfigT, request: BuildRequest) -> None:
    library.set_precision(config, request.half, request.int8)
    library.set_workspace(config, request.workspace_bytes)
    library.set_level(config, request.level)
    library.set_detailed(config)
    if not request.external_kernels:
        library.refuse_external_kernels(config)
    if request.target is not None and not library.set_target(config, request.target):
        raise BuildError(f"{library.title} builds for the GPU of this machine only", "build on the device")


def _add_profiles(
    library: TensorRt, builder: BuilderT, network: NetworkT, config: ConfigT, request: BuildRequest
) -> None:
    """One profile per batch, from one more than the batch before; none where the network's batch is fixed."""
    shapes = library.network_inputs(network)
    for name, shape in shapes.items():
        if any(side < 1 for side in shape[1:]):
            raise BuildError(f"{request.graph.name}: the input {name} {shape} has more than its batch free")
    if all(shape[0] > 0 for shape in shapes.values()):
        return
    least = 1
    for batch in sorted(set(request.batches)):
        ranges: dict[str, ShapeRange] = {}
        for name, (own, *sides) in shapes.items():
            low, best = (least, batch) if own < 1 else (own, own)
            ranges[name] = ((low, *sides), (best, *sides), (best, *sides))
        library.add_profile(builder, config, ranges)
        least = batch + 1


def _parser_errors(library: TensorRt, parser: ParserT, graph: Path) -> str:
    errors = [parser.get_error(index) for index in range(parser.num_errors)]
    reasons = " | ".join(f"node {error.node()}: {error.desc()}" for error in errors) or library.log.last_errors()
    return f"{library.title} cannot read {graph.name} ({reasons})"


def _paced(tell: Tell) -> Callable[[str, int, int], bool]:
    """Not more often than every TELL_EVERY_S; TensorRT reports from several threads."""
    lock, last_s = threading.Lock(), 0.0

    def sink(phase: str, step: int, steps: int) -> bool:
        nonlocal last_s
        with lock:
            now_s = time.monotonic()
            due = now_s - last_s >= TELL_EVERY_S
            last_s = now_s if due else last_s
        if due:
            tell(Step(phase, step, steps))
        return True

    return sink


def _limits(request: BuildRequest) -> str:
    return f"(workspace {request.workspace_bytes >> 20} MiB, level {request.level})"


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
