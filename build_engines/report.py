"""What a build did, for people and as JSON: the same facts."""

from __future__ import annotations

from typing import Any

from build_engines.choice import Trial
from build_engines.job import ModelReport, Report
from build_engines.progress import duration
from build_engines.sensitivity import Group

_HEAD = ("candidate", "INT8 layers", "time", "recall", "loss", "small", "precision", "IoU", "verdict")


def values(report: Report) -> dict[str, Any]:
    """The report as JSON values."""
    pictures = report.pictures
    calibration = None
    if pictures is not None:
        calibration = {
            "kind": pictures.whole.kind,
            "pictures": len(pictures.whole),
            "calibrated_on": len(pictures.calibration),
            "held_out": len(pictures.held_out),
            "faces": pictures.whole.faces,
            "problems": list(pictures.whole.problems),
        }
    return {
        "backend": report.backend,
        "backend_why": report.backend_why,
        "device": report.device,
        "engine_dir": str(report.directory),
        "pictures": calibration,
        "models": [_model_values(model) for model in report.models],
    }


def _model_values(model: ModelReport) -> dict[str, Any]:
    result = model.result
    return {
        "model": model.network.name,
        "size": str(model.size),
        "kept": result.choice.kept,
        "why": result.choice.why,
        "ranges": model.ranges_from,
        "methods": {method: _finite(noise) for method, noise in result.methods.items()},
        "candidates": [_trial_values(trial, result.plans[trial.name].why) for trial in result.trials],
        "noise": [{"layers": list(group.layers), "noise": _finite(group.noise)} for group in result.noise],
        "written": [str(path) for path in model.written],
        "notes": [*result.notes, *model.notes],
        "seconds": round(model.seconds, 1),
    }


def _trial_values(trial: Trial, why: str) -> dict[str, Any]:
    verdict = trial.verdict
    return {
        "name": trial.name,
        "int8_layers": trial.int8_layers,
        "plan": why,
        "failure": trial.failure,
        "timings": [
            {"batch": one.batch, "median_ms": round(one.median_ms, 4), "spread_ms": round(one.spread_ms, 4),
             "runs": one.runs, "gpu_mhz": one.gpu_mhz, "memory_mhz": one.memory_mhz}
            for one in trial.timings
        ],
        "passed": None if verdict is None else trial.usable,
        "why_not": "" if verdict is None else trial.why_not,
        "scores": {} if verdict is None else dict(verdict.scores),
        "claims": [] if verdict is None else list(verdict.notes),
    }   # fmt: skip


def text(report: Report) -> str:
    """The report for people."""
    lines = [f"backend: {report.backend} ({report.backend_why})", f"device: {report.device}"]
    pictures = report.pictures
    if pictures is not None:
        counted = f"{len(pictures.calibration)} to calibrate, {len(pictures.held_out)} held out to judge"
        lines.append(f"pictures: {len(pictures.whole)} ({pictures.whole.kind}), {counted}")
        lines += [f"  warning: {problem}" for problem in pictures.whole.problems]
    for model in report.models:
        lines += ["", *_model_lines(model)]
    return "\n".join(lines)


def _model_lines(model: ModelReport) -> list[str]:
    result = model.result
    lines = [f"{model.network.title} at {model.size}, {duration(model.seconds)}"]
    if model.ranges_from:
        lines.append(f"  {model.ranges_from}")
    if result.methods:
        best = min(result.methods, key=lambda method: result.methods[method])
        lines.append(f"  ranges by {best}: " + ", ".join(f"{m} {n:.2g}" for m, n in result.methods.items()))
    rows = [_HEAD, *(_row(trial, trial.name == result.choice.kept) for trial in result.trials)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines += ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
              for row in rows]      # fmt: skip
    lines += [f"  {said}" for said in [_clocks(result.trials)] if said]
    lines += [f"  {_noisiest(result.noise)}"] if result.noise else []
    lines.append(f"  kept: {result.choice.kept}, {result.choice.why}")
    kept = next(trial for trial in result.trials if trial.name == result.choice.kept)
    lines += [f"  {note}" for note in (kept.verdict.notes if kept.verdict is not None else ())]
    lines += [f"  note: {note}" for note in (*result.notes, *model.notes)]
    return lines + [f"  written: {path}" for path in model.written]


def _row(trial: Trial, kept: bool) -> tuple[str, ...]:
    name = f"{trial.name} *" if kept else trial.name
    if trial.failure:
        return (name, str(trial.int8_layers), "", "", "", "", "", "", f"failed: {_short(trial.failure)}")
    times = " ".join(f"{one.median_ms:.2f}±{one.spread_ms / 2:.2f} ms" + (f" (batch {one.batch})"
                     if len(trial.timings) > 1 else "") for one in trial.timings)      # fmt: skip
    verdict = trial.verdict
    if verdict is None:
        return (name, str(trial.int8_layers), times, "", "", "", "", "", "not judged")
    scores = verdict.scores

    def share(key: str) -> str:
        return f"{scores[key] * 100:.1f} %" if key in scores else ""

    small = f"{share('loss_small')} of {scores['faces_small']:g}" if "faces_small" in scores else ""
    iou = f"{scores['iou']:.3f}" if "iou" in scores else ""
    said = "passed" if trial.usable else f"refused: {_short(trial.why_not)}"
    return (name, str(trial.int8_layers), times, share("recall"), share("loss"), small, share("precision"), iou, said)


def _clocks(trials: tuple[Trial, ...]) -> str:
    """Clocks under load: candidates that were timed in turns share them. Empty where they are not known."""
    said = []
    for batch, one in sorted({one.batch: one for trial in trials for one in trial.timings}.items()):
        memory = f", memory {one.memory_mhz:.0f} MHz" if one.memory_mhz is not None else ""
        if one.gpu_mhz is not None:
            said.append(f"GPU {one.gpu_mhz:.0f} MHz{memory} (batch {batch})")
    return f"clocks while timed: {'; '.join(said)}" if said else ""


def _noisiest(groups: tuple[Group, ...]) -> str:
    worst = max(groups, key=lambda group: group.noise)
    total = sum(group.noise for group in groups) or 1.0
    return f"most noise: {worst.layers[0]} to {worst.layers[-1]}, {worst.noise / total:.0%} of it"


def _short(message: str) -> str:
    return message if len(message) <= 100 else message[:99] + "…"


def _finite(number: float) -> float | None:
    return number if number < float("inf") else None
