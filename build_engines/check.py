"""Is what is there current? And what would a build do, and how long would it take?"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from build_engines.frames import engine_sizes, search_size
from build_engines.options import DEFAULT_BATCHES, BuildOptions
from build_engines.prerequisites import choose_backend
from build_engines.progress import duration
from edge.device import this_device
from edge.engines.manifest import description_hash
from edge.engines.probe import probe_input
from edge.engines.store import default_engine_dir, find_engine, load_engine, rebuild_command
from edge.errors import ConfigError
from edge.inputs import PICTURE_SUFFIXES
from edge.models.choose import ResolvedModel

CANDIDATES = 5
_SEARCH_S = 20.0        # per candidate, beside looking for faces: build, timing


@dataclass(frozen=True, slots=True)
class EngineState:
    """One engine. problem: why it cannot be used, with what to do; empty when it is current."""

    model: str
    size: str
    problem: str
    kind: str = ""


def check(options: BuildOptions, models: Sequence[ResolvedModel]) -> tuple[EngineState, ...]:
    """Every engine that a build with these options would write: is it there, and current? Nothing is run."""
    backend, _ = choose_backend(options.backend)
    directory, device = options.engine_dir or default_engine_dir(), this_device()
    states = []
    for resolved in models:
        model = resolved.description
        sha256 = hashlib.sha256(resolved.path.read_bytes()).hexdigest()
        sizes: list[tuple[int | None, int | None]] = [(None, None)]
        if backend == "tensorrt":
            sizes = [(one.height_px, one.width_px) for one in engine_sizes(options.frames, model.input.stride_multiple)]
        for height, width in sizes:
            size = "any" if height is None else f"{width}x{height}"
            try:
                stored = find_engine(directory, model.name, backend, height, width)
                if stored is None:
                    remedy = f"run: {rebuild_command(directory, model.name, backend)}"
                    raise ConfigError(f"there is no engine of {model.title} for {backend} in {directory}", remedy)
                load_engine(stored, device, sha256, description_hash(model))
                states.append(EngineState(model.name, size, "", stored.manifest.precision.kind))
            except ConfigError as error:
                states.append(EngineState(model.name, size, str(error)))
    return tuple(states)


def check_text(states: Sequence[EngineState]) -> str:
    """For people."""
    return "\n".join(f"{one.model} {one.size}: {one.problem or f'current, {one.kind}'}" for one in states)


def dry_run(options: BuildOptions, models: Sequence[ResolvedModel]) -> dict[str, Any]:
    """What a build would do. The time is estimated from one float run of each network on this machine."""
    from edge.inference.onnx_runtime import OnnxRuntime
    from edge.inference.prepare import prepared_graph

    backend, why = choose_backend(options.backend)
    pictures = count_pictures(options.calibration) if options.precision == "int8" or options.calibration else 0
    plans, total_s = [], 0.0
    for resolved in models:
        model = resolved.description
        sizes = engine_sizes(options.frames, model.input.stride_multiple)
        middle = search_size(sizes)
        runtime = OnnxRuntime(prepared_graph(resolved.path, model), model.title)
        picture = probe_input(middle.height_px, middle.width_px)
        runtime.run(picture)
        started_s = time.monotonic()
        runtime.run(picture)
        run_s = time.monotonic() - started_s
        runtime.close()
        candidates = CANDIDATES if options.precision == "int8" else 1
        held_out = 0.4 * 1.3 * pictures
        seconds = pictures * 4 * run_s + (candidates + 1) * held_out * 2 * run_s + candidates * _SEARCH_S
        if backend == "tensorrt":
            seconds += (len(sizes) - 1) * (_SEARCH_S + held_out * run_s)
        total_s += seconds
        plans.append({
            "model": model.name, "file": str(resolved.path), "bytes": model.bytes,
            "sizes": [str(size) for size in sizes] if backend == "tensorrt" else ["any"],
            "searched_at": str(middle), "candidates": candidates, "float_ms": round(run_s * 1e3, 2),
            "seconds": round(seconds),
        })   # fmt: skip
    return {
        "backend": backend, "backend_why": why, "precision": options.precision,
        "engine_dir": str(options.engine_dir or default_engine_dir()),
        "batches": list((options.batches or DEFAULT_BATCHES) if backend == "tensorrt" else (1,)),
        "calibration": str(options.calibration or "built-in set"), "pictures": pictures,
        "models": plans, "seconds": round(total_s),
    }   # fmt: skip


def dry_run_text(plan: dict[str, Any]) -> str:
    """For people."""
    lines = [
        f"backend: {plan['backend']} ({plan['backend_why']})",
        f"engines go to {plan['engine_dir']}, batches {', '.join(map(str, plan['batches']))}",
        f"pictures: {plan['pictures']} of {plan['calibration']}",
    ]
    lines += [
        f"{one['model']}: {plan['precision']}, sizes {', '.join(one['sizes'])}, about {one['candidates']} candidates "
        f"at {one['searched_at']}, about {duration(one['seconds'])}"
        for one in plan["models"]
    ]
    return "\n".join([*lines, f"about {duration(plan['seconds'])} in all"])


def count_pictures(source: Path | None) -> int:
    """How many pictures a set may have, without reading them."""
    from calibration.default_set import SCENES

    if source is None:
        return SCENES
    if source.is_dir():
        return min(500, sum(path.suffix.lower() in PICTURE_SUFFIXES for path in source.rglob("*")))
    try:
        lines = source.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return 0        # a build says what is wrong
    return min(500, sum(bool(line.strip()) and not line.startswith("#") for line in lines))
