"""Which model a run takes, and why."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edge.errors import InputError, StorageError, UnavailableError
from edge.models.description import ModelDescription, descriptions
from edge.models.fetch import NETWORK_TIMEOUT_S, Progress, by_hand, fetch
from edge.models.signature import match, read_signature
from edge.models.store import ModelStore

AUTO = ("yunet_n", "centerface")        # best first
REMEMBER_FAILURE_S = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """A model file that is here. reason: why this one, for people; empty when it is what was asked for."""

    path: Path
    description: ModelDescription
    reason: str


def choose(
    model: str,
    models_dir: Path | None = None,
    progress: Progress = lambda what, done, total: None,
    timeout_s: float = NETWORK_TIMEOUT_S,
) -> ResolvedModel:
    """Find, and if need be fetch, a model.

    model: ``auto``, the name of a description, or the path of an ONNX file.
    Raises UsageError for a name that is unknown, InputError for a path that cannot be read, UnavailableError for a
    graph that is not one of a known detector, or a file that can be had from nowhere.
    """
    known = descriptions()
    store = ModelStore.default(models_dir)
    if model == "auto":
        return _automatic(known, store, progress, timeout_s)
    if model in known:
        description = known[model]
        path = store.installed(description) or fetch(description, store, progress, timeout_s)
        return ResolvedModel(path, description, _licence(description))
    return identify(Path(model), known)


def identify(path: Path, known: Mapping[str, ModelDescription] | None = None) -> ResolvedModel:
    """Recognise a file by its hash, else by its graph.

    Raises InputError when it cannot be read, UnavailableError with what was expected when it is something else.
    """
    known = descriptions() if known is None else known
    try:
        content = path.read_bytes()
    except OSError as error:
        names = ", ".join(("auto", *sorted(known)))
        raise InputError(f"model {path}: {error.strerror}", f"name a file, or one of {names}") from error
    digest = hashlib.sha256(content).hexdigest()
    for model in known.values():
        if model.sha256 == digest:
            return ResolvedModel(path, model, _licence(model))
    signature = read_signature(content, str(path))
    found = match(signature, known)
    if found is None:
        expected = "; ".join(f"{model.title}: {_outputs(model)}" for model in known.values())
        raise UnavailableError(
            f"{path} is not a face detector that can be read here. It has {signature}",
            f"use a graph with one float input (N, 3, H, W) and the outputs of one of: {expected}",
        )
    note = f"recognised as {found.title} by its graph, not by its hash; its licence is for you to know"
    licence = found.licence.model_copy(update={"weights": "not known", "note": found.licence.note})
    found = found.model_copy(update={"licence": licence})
    return ResolvedModel(path, found, "; ".join(filter(None, (note, _licence(found)))))


def _automatic(
    known: Mapping[str, ModelDescription], store: ModelStore, progress: Progress, timeout_s: float
) -> ResolvedModel:
    reasons: list[str] = []
    remedy = ""
    unwritable: StorageError | None = None
    for name in AUTO:
        if name not in known:
            continue
        model = known[name]
        path = store.installed(model)
        if path is None:
            failure = _remembered_failure(store, name)
            if failure:
                reasons.append(failure)
                remedy = remedy or by_hand(model, store.place(model))
                continue
            try:
                path = fetch(model, store, progress, timeout_s)
            except UnavailableError as error:
                _remember_failure(store, name, error.message)
                reasons.append(error.message)
                remedy = remedy or error.remedy
                continue
            except StorageError as error:       # says nothing about the network; another model may be here
                reasons.append(error.message)
                unwritable = unwritable or error
                continue
            forget_failure(store, name)
        reason = f"{'; '.join(reasons)}; took {name}" if reasons else ""
        return ResolvedModel(path, model, "; ".join(filter(None, (reason, _licence(model)))))
    if unwritable is not None:
        raise unwritable
    raise UnavailableError(f"no model can be had: {'; '.join(reasons)}", remedy or "install the package again")


def _licence(model: ModelDescription) -> str:
    return model.licence.note


def _outputs(model: ModelDescription) -> str:
    return " ".join(name for head in model.heads for name in model.output_names(head))


def _failure_file(store: ModelStore, name: str) -> Path:
    return store.target / f"{name}.failed.json"


def _remembered_failure(store: ModelStore, name: str) -> str:
    """What happened when `name` was last tried, if that is less than a day ago; else nothing."""
    try:
        entry = json.loads(_failure_file(store, name).read_text(encoding="utf-8"))
        age_s = time.time() - float(entry["time_s"])
        reason = str(entry["reason"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    if not 0 <= age_s < REMEMBER_FAILURE_S:
        return ""
    return f"{reason}, {age_s / 3600:.0f} h ago; edge-models fetch {name} tries again"


def _remember_failure(store: ModelStore, name: str, reason: str) -> None:
    with contextlib.suppress(OSError):
        store.target.mkdir(parents=True, exist_ok=True)
        _failure_file(store, name).write_text(json.dumps({"time_s": time.time(), "reason": reason}), encoding="utf-8")


def forget_failure(store: ModelStore, name: str) -> None:
    """After a success: nothing is to be remembered."""
    with contextlib.suppress(OSError):
        _failure_file(store, name).unlink(missing_ok=True)
