"""Ranges of tensors as a file: made once, reusable, refused where they do not belong."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import time
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

import edge
from calibration.face_set import FaceSet
from calibration.histogram import BINS, Histogram
from calibration.observers import METHODS, PERCENTILE, Method, TensorHistograms, amax_of
from edge.errors import ConfigError, InputError, StorageError
from edge.storage import create_part, make_parent, part_path, publish

SCHEMA_VERSION = 1
MAX_FILE_BYTES = 64 << 20

_AGAIN = "calibrate again: edge-build --int8 without --ranges"
_SHA256 = r"^[0-9a-f]{64}$"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class TensorRange(_Strict):
    """One tensor. amax: by method, positive. The rest is its `calibration.histogram.Histogram`.

    counts: base64 of the zlib stream of BINS little-endian 64-bit integers.
    """

    amax: dict[Method, float]
    minimum: float
    maximum: float
    values: int = Field(ge=0)
    zeros: int = Field(ge=0)
    exponent: int | None = Field(ge=-100, le=128)
    counts: str

    @staticmethod
    def of(histogram: Histogram, percentile: float) -> TensorRange:
        """Everything about one tensor."""
        packed = zlib.compress(histogram.counts.astype("<i8").tobytes(), 9)
        return TensorRange(
            amax={method: amax_of(histogram, method, percentile) for method in METHODS},
            minimum=histogram.minimum,
            maximum=histogram.maximum,
            values=histogram.values,
            zeros=histogram.zeros,
            exponent=histogram.exponent,
            counts=base64.b64encode(packed).decode("ascii"),
        )

    def histogram(self) -> Histogram:
        """What was counted. Raises ValueError when `counts` is damaged."""
        size = 8 * BINS
        try:
            raw = zlib.decompressobj().decompress(base64.b64decode(self.counts, validate=True), size + 1)
        except zlib.error as error:
            raise ValueError(f"counts cannot be read ({error})") from error
        counts = np.frombuffer(raw, "<i8") if len(raw) == size else np.zeros(0)
        if len(counts) != BINS or counts.min() < 0 or counts.sum() != self.values or counts[0] < self.zeros:
            raise ValueError("counts do not add up")
        return Histogram(
            counts.astype(np.int64), self.exponent, self.minimum, self.maximum, self.values, self.zeros
        )


class Ranges(_Strict):
    """The ranges of one model over one face set.

    model: its name, for people. model_sha256: of the model file as it was published. set_sha256, set_kind, pictures:
    the calibration set. inputs: network inputs run; more than one per picture. toolkit: version that made it.
    tensors: by name in the reference graph.
    """

    schema_version: Literal[1] = 1
    model: str
    model_sha256: str = Field(pattern=_SHA256)
    set_sha256: str = Field(pattern=_SHA256)
    set_kind: Literal["folder", "list", "default"]
    pictures: int = Field(gt=0)
    inputs: int = Field(gt=0)
    percentile: float = Field(gt=0, le=100)
    toolkit: str
    created_utc: str
    tensors: dict[str, TensorRange]

    @staticmethod
    def of(
        histograms: TensorHistograms,
        face_set: FaceSet,
        model: str,
        model_sha256: str,
        percentile: float = PERCENTILE,
    ) -> Ranges:
        """Ranges by every method, from what `calibration.collect.collect` counted."""
        return Ranges(
            model=model,
            model_sha256=model_sha256,
            set_sha256=face_set.sha256,
            set_kind=face_set.kind,
            pictures=len(face_set.files),
            inputs=histograms.inputs,
            percentile=percentile,
            toolkit=edge.__version__,
            created_utc=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            tensors={name: TensorRange.of(each, percentile) for name, each in histograms.tensors.items()},
        )

    @property
    def sha256(self) -> str:
        """Of everything in it; what the file ends with and manifests refer to."""
        return _digest(self.model_dump(mode="json"))

    def amax(self, method: Method) -> dict[str, float]:
        """amax of every tensor, finite and positive."""
        return {name: tensor.amax[method] for name, tensor in self.tensors.items()}

    def histograms(self) -> TensorHistograms:
        """What was counted, for other methods or other percentiles. Raises ConfigError when it is damaged."""
        try:
            return TensorHistograms({name: each.histogram() for name, each in self.tensors.items()}, self.inputs)
        except ValueError as error:
            raise ConfigError(f"ranges of {self.model}: {error}", _AGAIN) from error


def save(ranges: Ranges, path: Path) -> None:
    """Write JSON; a file of that name is replaced in one step when the new one is complete. Raises StorageError."""
    body = ranges.model_dump(mode="json")
    text = json.dumps({**body, "sha256": _digest(body)}, indent=1, allow_nan=False) + "\n"
    make_parent(path)
    descriptor = create_part(path, overwrite=True)
    try:
        with os.fdopen(os.dup(descriptor), "w", encoding="utf-8") as file:
            file.write(text)
        publish(part_path(path), path, overwrite=True)
    except BaseException as error:
        with contextlib.suppress(OSError):
            part_path(path).unlink(missing_ok=True)
        if isinstance(error, OSError) and not isinstance(error, StorageError):
            raise StorageError(f"{path}: {error.strerror or error}", "free some space or write elsewhere") from error
        raise
    finally:
        os.close(descriptor)


def load(path: Path, model_sha256: str, tensors: Collection[str] = ()) -> Ranges:
    """Read a range file that belongs to the model file with this hash and has all of `tensors`.

    Raises InputError when it cannot be read; ConfigError, each with its own message, when it is not a range file, was
    cut short or changed, was written by a newer version, belongs to another model, or lacks a tensor.
    """
    content = _content(path)
    version = content.get("schema_version")
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise ConfigError(
            f"{path}: schema {version}, this version of the toolkit reads up to {SCHEMA_VERSION}",
            f"install the version that wrote it, or {_AGAIN}",
        )
    digest = content.pop("sha256", None)
    if version is None or digest is None:
        raise ConfigError(f"{path}: not a range file", f"name one that edge-build wrote, or {_AGAIN}")
    if digest != _digest(content):
        raise ConfigError(f"{path}: was changed or damaged, its hash is wrong", f"restore it, or {_AGAIN}")
    try:
        ranges = Ranges.model_validate(content)
    except ValidationError as error:
        reasons = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()[:3])
        raise ConfigError(f"{path}: {reasons}", _AGAIN) from error
    if ranges.model_sha256 != model_sha256:
        raise ConfigError(
            f"{path}: made for {ranges.model} (sha256 {ranges.model_sha256[:12]}…), not for the model with "
            f"sha256 {model_sha256[:12]}…",
            f"name the ranges of that model, or {_AGAIN}",
        )
    _check(ranges, path, tensors)
    return ranges


def _check(ranges: Ranges, path: Path, tensors: Collection[str]) -> None:
    for name, tensor in ranges.tensors.items():
        if set(tensor.amax) != set(METHODS) or min(tensor.amax.values()) <= 0:
            raise ConfigError(f"{path}: tensor {name} lacks a method, or has a range that is not positive", _AGAIN)
    missing = [name for name in tensors if name not in ranges.tensors]
    if missing:
        names = ", ".join(missing[:3]) + (" …" if len(missing) > 3 else "")
        raise ConfigError(
            f"{path}: lacks {len(missing)} of {len(tensors)} tensors ({names}), as ranges of a graph that was prepared "
            "by another version do",
            _AGAIN,
        )


def _content(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ConfigError(f"{path}: larger than {MAX_FILE_BYTES >> 20} MiB, not a range file", _AGAIN)
        data = path.read_bytes()
    except OSError as error:
        remedy = f"name a range file that can be read, or {_AGAIN}"
        raise InputError(f"{path}: {error.strerror or error}", remedy) from error
    try:
        content = json.loads(data.decode("utf-8"), parse_constant=_not_a_number)
    except _NotFiniteNumberError as error:
        raise ConfigError(f"{path}: holds {error}, which is no range", _AGAIN) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: cut short, or not a range file ({error})", f"restore it, or {_AGAIN}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: not a range file", f"name one that edge-build wrote, or {_AGAIN}")
    return content


class _NotFiniteNumberError(Exception):
    """NaN or Infinity, which JSON does not have and Python reads."""


def _not_a_number(text: str) -> float:
    raise _NotFiniteNumberError(text)


def _digest(body: dict[str, Any]) -> str:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
