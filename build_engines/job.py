"""One edge-build from end to end: pictures, ranges, search, the engine of every size, manifests, what to report."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from build_engines.backend import BackendName, BuildBackend, Built, Candidate
from build_engines.calibrate import Pictures, find_ranges, read_pictures, samples
from build_engines.choice import Choice, Verdict
from build_engines.engine import EngineFacts, write
from build_engines.fidelity import compare_embeddings
from build_engines.frames import EngineSize, engine_sizes, search_size
from build_engines.judge import DetectorJudge, FidelityJudge, Judge
from build_engines.network import Network, detector_network
from build_engines.options import DEFAULT_BATCHES, BuildOptions
from build_engines.prerequisites import build_directory, choose_backend
from build_engines.progress import Display
from build_engines.search import Search, SearchOptions, SearchResult
from build_engines.sensitivity import AmaxOf, outputs
from calibration.observers import Method
from calibration.ranges import Ranges
from edge.engines.probe import probe_input
from edge.engines.store import default_engine_dir
from edge.errors import BuildError, UsageError
from edge.graph.names import INPUT
from edge.inference.onnx_runtime import OnnxRuntime
from edge.inference.prepare import prepared_graph
from edge.models.choose import ResolvedModel, choose

JUDGED_PROBES = 1


@dataclass(frozen=True, slots=True, eq=False)
class ModelReport:
    """What became of one model. written: payloads. ranges_from: for people; empty without INT8."""

    network: Network
    size: EngineSize
    result: SearchResult
    written: tuple[Path, ...]
    ranges_from: str
    ranges: Ranges | None
    seconds: float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Report:
    """Everything that one edge-build did."""

    backend: BackendName
    backend_why: str
    device: str
    directory: Path
    pictures: Pictures | None
    models: tuple[ModelReport, ...]


def build(options: BuildOptions, display: Display) -> Report:
    """Build all models. Raises EdgeError; engines that were written before stay."""
    deadline_s = float("inf") if options.max_time_s is None else time.monotonic() + options.max_time_s
    name, why = choose_backend(options.backend)
    display.stage(f"building for {name}: {why}")
    resolved = resolve(options)
    directory = options.engine_dir or default_engine_dir()
    pictures: Pictures | None = None
    done: list[ModelReport] = []
    with build_directory(directory) as work:
        for each in resolved:
            model = _ModelBuild(each, name, options, directory, work, display, deadline_s)
            with closing(model):
                if pictures is None:
                    pictures = model.read_pictures()
                done.append(model.run(pictures))
    return Report(name, why, str(model.device), directory, pictures, tuple(done))


def resolve(options: BuildOptions) -> list[ResolvedModel]:
    """The models asked for, fetched where they are not here. Raises what `choose` raises."""
    found = [choose(name, options.models_dir) for name in options.models]
    unique = {each.description.name: each for each in found}
    if len(unique) < len(found):
        raise UsageError("two of the models have the same name, so their engines would, too", "build one of them")
    return list(unique.values())


class _ModelBuild:
    """One model. `close` gives the float runtime back."""

    def __init__(
        self, resolved: ResolvedModel, backend: BackendName, options: BuildOptions, directory: Path, work: Path,
        display: Display, deadline_s: float,
    ) -> None:      # fmt: skip
        self._resolved, self._options, self._directory = resolved, options, directory
        self._display, self._deadline_s = display, deadline_s
        model = resolved.description
        self._sizes = engine_sizes(options.frames, model.input.stride_multiple)
        self._size = search_size(self._sizes)
        self._batches = (1,) if backend == "onnxruntime" else options.batches or DEFAULT_BATCHES
        self._backend = self._open_backend(backend, work)
        self.device = self._backend.describe()
        self._reference = OnnxRuntime(prepared_graph(resolved.path, model), model.title)
        self._notes: list[str] = []

    def _open_backend(self, name: BackendName, work: Path) -> BuildBackend:
        if name == "onnxruntime":
            from build_engines.onnx_backend import OnnxBackend

            return OnnxBackend(work, self._size.height_px, self._size.width_px)
        from build_engines.tensorrt_backend import TensorRtBackend

        return TensorRtBackend(work, self._directory, self._batches, self._options.workspace_bytes, self._options.level)

    def close(self) -> None:
        """Give memory back."""
        self._reference.close()

    def read_pictures(self) -> Pictures | None:
        """The set; None where there is nothing to calibrate and no set was given."""
        if self._options.precision != "int8" and self._options.calibration is None:
            return None
        return read_pictures(self._options.calibration, self._resolved, self._reference, self._display)

    def run(self, pictures: Pictures | None) -> ModelReport:
        """Calibrate, search, build every size, write."""
        started_s = time.monotonic()
        model, display = self._resolved.description, self._display
        chosen = samples(pictures.calibration.files, self._size, model.input.stride_multiple) if pictures else ()
        network = detector_network(self._resolved, self._size.height_px, self._size.width_px, chosen)
        ranges, ranges_from = None, ""
        if self._options.precision == "int8" and pictures is not None:
            own = self._directory / f"{network.name}-ranges.json"
            ranges, ranges_from = find_ranges(network, model, pictures, self._options.ranges, own, display)
            display.note(f"{network.name}: {ranges_from}")
        judge = self._judge(network, pictures, self._size)

        def amax_of(method: Method) -> Mapping[str, float]:
            return ranges.amax(method) if ranges is not None else {}

        options = SearchOptions(
            self._options.precision, self._batches, self._options.force_int8, self._deadline_s
        )
        result = Search(network, self._backend, judge, amax_of, options, display).run()
        result = self._verified(network, result, pictures)
        facts = EngineFacts(
            network, self._resolved, self._backend, self._batches, ranges if result.plans[_kept(result)].int8 else None
        )
        written = self._write(network, result, facts, pictures, amax_of)
        return ModelReport(
            network, self._size, result, tuple(written), ranges_from, ranges, time.monotonic() - started_s,
            tuple(self._notes),
        )   # fmt: skip

    def _judge(self, network: Network, pictures: Pictures | None, size: EngineSize) -> Judge:
        if pictures is not None:
            judge = DetectorJudge(
                self._resolved, pictures.held_out.files, size, self._options.max_loss, self._reference
            )
            self._display.stage(f"{network.name}: finding faces with the float model at {size}")
            judge.prepare(self._display.step)
            return judge
        feeds = [{INPUT: probe_input(size.height_px, size.width_px, seed)} for seed in range(1, JUDGED_PROBES + 1)]
        self._note("without --calibration, outputs are compared on a made-up picture only")
        return FidelityJudge(feeds, outputs(network.reference, feeds), compare_embeddings)

    def _verified(self, network: Network, result: SearchResult, pictures: Pictures | None) -> SearchResult:
        """ONNX Runtime has one engine for all sizes: with INT8 it has to pass at each, or the base is kept."""
        kept = _kept(result)
        if self._backend.name != "onnxruntime" or not result.plans[kept].int8:
            return result
        for size in self._sizes:
            if size == self._size:
                continue
            verdict = self._verdict(network, result.built[kept], size, pictures)
            if not verdict.passed:
                why = f"{kept} passed at {self._size} but not at {size}: {verdict.why}"
                self._note(why)
                return replace(result, choice=Choice(result.base, why))
        return result

    def _verdict(self, network: Network, built: Built, size: EngineSize, pictures: Pictures | None) -> Verdict:
        judge = self._judge(network, pictures, size)
        self._display.stage(f"{network.name}: looking for faces with {built.candidate.name} at {size}")
        with closing(self._backend.open(built)) as runtime:
            return judge(runtime, self._display.step)

    def _write(
        self, network: Network, result: SearchResult, facts: EngineFacts, pictures: Pictures | None, amax_of: AmaxOf
    ) -> list[Path]:
        kept = _kept(result)
        trial = next(each for each in result.trials if each.name == kept)
        if self._backend.name == "onnxruntime":
            self._display.stage(f"{network.name}: writing {kept}")
            return [write(self._directory, facts, result.built[kept], None, trial.timings, trial.verdict)]
        written = []
        for size in self._sizes:
            if size == self._size:
                written.append(write(self._directory, facts, result.built[kept], size, trial.timings, trial.verdict))
                continue
            names = dict.fromkeys((kept, result.base))
            for number, name in enumerate(names):
                built, verdict = self._other_size(network, result.built[name], size, pictures, amax_of)
                if verdict.passed:
                    break
                text = f"{name} does not pass at {size}: {verdict.why}"
                if number == len(names) - 1:
                    raise BuildError(f"{network.title}: {text}", "give other --frame sizes, or build with --fp32")
                self._note(f"{text}; {result.base} is taken there")
            timings = [one for batch in self._batches for one in self._backend.time([built], batch)]
            mine = facts if built.candidate.int8 else replace(facts, ranges=None)
            written.append(write(self._directory, mine, built, size, timings, verdict))
        return written

    def _other_size(
        self, network: Network, like: Built, size: EngineSize, pictures: Pictures | None, amax_of: AmaxOf
    ) -> tuple[Built, Verdict]:
        """The plan of `like` at another size, built and judged."""
        candidate = like.candidate
        amax = amax_of(candidate.method) if candidate.int8 and candidate.method else {}
        self._display.stage(f"{network.name}: building {candidate.name} at {size}")
        graph = network.final("tensorrt", amax, candidate.int8, (size.height_px, size.width_px))
        same = Candidate(
            f"{candidate.name}-{size}", candidate.int8, graph, candidate.why, candidate.half, candidate.method
        )
        built = self._backend.build(same, candidate.half, self._display.stage)
        return built, self._verdict(network, built, size, pictures)

    def _note(self, text: str) -> None:
        self._notes.append(text)
        self._display.note(f"{self._resolved.description.name}: {text}")


def _kept(result: SearchResult) -> str:
    assert result.choice.kept is not None       # Search.run raises otherwise
    return result.choice.kept

