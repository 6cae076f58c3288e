"""From a published model file to the graph that runs: all passes, remembered on disk."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from edge.errors import UnavailableError
from edge.models.description import ModelDescription

if TYPE_CHECKING:
    import onnx

# Part of the cache key: raise it whenever a pass changes what it produces.
PASSES_VERSION = 2
_DIGEST_BYTES = 32


def cache_directory() -> Path:
    """``$XDG_CACHE_HOME/edge/graphs``, or the same under ``~/.cache``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "edge" / "graphs"


def prepared_graph(path: Path, model: ModelDescription) -> bytes:
    """The serialised graph: uint8 ``picture`` (1, height, width, 3) RGB in, ``stride_N`` maps out, of any size.

    Taken from the cache when it is there and whole; made, and written to the cache, otherwise. A cache that cannot be
    written costs time, not the run. Raises UnavailableError when the file cannot be used.
    """
    published = read_model(path)
    key = hashlib.sha256(published + model.model_dump_json().encode()).hexdigest()[:24]
    entry = cache_directory() / f"{model.name}-{key}-v{PASSES_VERSION}.onnx"
    cached = _read_entry(entry)
    if cached is not None:
        return cached
    graph = build_graph(published, model)
    with contextlib.suppress(OSError):
        _write_entry(entry, graph)
    return graph


def build_graph(published: bytes, model: ModelDescription) -> bytes:
    """Run all passes. Raises UnavailableError when the graph is not what `model` describes."""
    from edge.graph.strips import split_into_strips

    graph = reference_graph(published, model)
    with _refused_as_unavailable(model):
        graph = split_into_strips(graph, model.input.stride_multiple)
        _check(graph)
    return bytes(graph.SerializeToString())


def reference_graph(published: bytes, model: ModelDescription) -> onnx.ModelProto:
    """Run all passes but the cut into strips, which only ONNX Runtime on a CPU gains from.

    uint8 ``picture`` (1, height, width, 3) RGB in, float32 ``stride_N`` maps out, opset 13, any size. What ranges are
    collected on and INT8 graphs are made from. Raises UnavailableError when the graph is not what `model` describes.
    """
    import onnx

    from edge.graph.clean import free_size, simplify
    from edge.graph.fold import fold_linear_pairs
    from edge.graph.heads import expose_heads
    from edge.graph.preprocess import fuse_input

    with _refused_as_unavailable(model):
        graph = simplify(onnx.load_from_string(published))
        graph = expose_heads(graph, [model.output_names(head) for head in model.heads], model.strides)
        graph = fold_linear_pairs(graph)
        graph = fuse_input(graph, model.input.colour, model.input.mean, model.input.scale)
        graph = free_size(graph)
        _check(graph)
    return graph


def _check(graph: onnx.ModelProto) -> None:
    import onnx

    onnx.checker.check_model(graph, full_check=True)


@contextlib.contextmanager
def _refused_as_unavailable(model: ModelDescription) -> Iterator[None]:
    try:
        yield
    except Exception as error:      # onnx and onnxslim raise anything from KeyError to their own types
        why = error.message if isinstance(error, UnavailableError) else f"{type(error).__name__}: {error}"
        raise UnavailableError(
            f"the graph of {model.title} cannot be prepared ({why})", "check the file with: edge-models check FILE"
        ) from error


def read_model(path: Path) -> bytes:
    """The bytes of a model file. Raises UnavailableError when it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise UnavailableError(f"{path}: {error.strerror}", "name an ONNX file that can be read") from error


def _read_entry(entry: Path) -> bytes | None:
    """An entry is the digest of the graph, then the graph; anything else counts as absent."""
    try:
        content = entry.read_bytes()
    except OSError:
        return None
    digest, graph = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    return graph if hashlib.sha256(graph).digest() == digest else None


def _write_entry(entry: Path, graph: bytes) -> None:
    entry.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=entry.parent, prefix=".", suffix=".part")
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(graph).digest())
            file.write(graph)
        part.replace(entry)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
