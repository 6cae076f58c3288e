"""What a camera and the inference process say to each other: packets on a SOCK_SEQPACKET socket.

Neither side trusts the other: a camera decodes hostile streams, and nothing here is pickled. A camera says hello (JSON)
and gets a welcome or an error (JSON); then it has one request under way at a time, a fixed header of 28 bytes, and gets
one answer for each. Pixels are in shared memory, see `edge.inference.shared_inputs`.
"""

from __future__ import annotations

import json
import math
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
from pydantic import ValidationError

from edge.detect.candidates import Candidates
from edge.errors import ConfigError, DetectorError, EdgeError, InputError, UnavailableError, UsageError
from edge.models.description import ModelDescription
from edge.settings import Backend, DetectSettings
from edge.types import Float32

VERSION = 1
MAX_TEXT_BYTES = 32 << 10           # of a hello, a welcome, an error
MAX_CANDIDATES = 2000               # the detector looks at no more (`edge.detect.detector.MAX_CANDIDATES`)
MAX_SIDE_PX = 8192                  # the largest scale that settings may name
MAX_INPUT_BYTES = 3 * MAX_SIDE_PX * MAX_SIDE_PX

# Little-endian: number of the request, height, width, lowest score, deadline on CLOCK_MONOTONIC in nanoseconds, bytes
# of the shared memory whose descriptor comes along (0: the memory that was sent before).
_REQUEST = struct.Struct("<IHHfQQ")
# Number of the request, status, whether there are landmarks, number of candidates; float32 boxes, scores and landmarks
# follow, or the JSON of an error.
_ANSWER = struct.Struct("<IBBH")
_FOUND, _LATE, _FAILED = range(3)
MAX_ANSWER_BYTES = _ANSWER.size + MAX_CANDIDATES * 4 * (4 + 1 + 10)

_ERRORS: dict[int, type[EdgeError]] = {
    error.exit_code: error for error in (UsageError, InputError, UnavailableError, ConfigError)
}


class WireError(Exception):
    """The other side said something that it may not say."""


class LateError(DetectorError):
    """The time for this request was over before, or during, its run."""


@dataclass(frozen=True, slots=True)
class Hello:
    """Who speaks, and which model it wants. camera: a name for messages."""

    camera: str
    settings: DetectSettings

    def pack(self) -> bytes:
        """As a packet."""
        chosen = self.settings
        return _json({
            "version": VERSION, "camera": self.camera, "model": chosen.model, "backend": chosen.backend,
            "engine_dir": None if chosen.engine_dir is None else str(chosen.engine_dir),
            "require_gpu": chosen.require_gpu,
        })  # fmt: skip

    @staticmethod
    def parse(packet: bytes) -> Hello:
        """Raises WireError."""
        values = _object(packet)
        camera, model, engine_dir = values.get("camera"), values.get("model"), values.get("engine_dir")
        if not isinstance(camera, str) or not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", camera):
            raise WireError("hello without a name")
        if not isinstance(model, str) or "\0" in model or values.get("backend") not in get_args(Backend):
            raise WireError("hello without a model")
        if not isinstance(engine_dir, str | None) or not isinstance(values.get("require_gpu"), bool):
            raise WireError("hello with odd settings")
        directory = None if engine_dir is None else Path(engine_dir)
        wanted = DetectSettings(
            model=model, backend=values["backend"], engine_dir=directory, require_gpu=values["require_gpu"]
        )
        return Hello(camera, wanted)


def runtime_settings(settings: DetectSettings) -> DetectSettings:
    """Only what decides which network is loaded; cameras that agree in this share one."""
    return DetectSettings(
        model=settings.model,
        backend=settings.backend,
        engine_dir=settings.engine_dir,
        require_gpu=settings.require_gpu,
    )


@dataclass(frozen=True, slots=True)
class Welcome:
    """What was loaded. runtime: library, version and device, for people. engine_sha256: empty where there is none."""

    model: ModelDescription
    reason: str
    runtime: str
    model_sha256: str
    engine_sha256: str

    def pack(self) -> bytes:
        """As a packet."""
        return _json({
            "version": VERSION, "model": self.model.model_dump(mode="json"), "reason": self.reason,
            "runtime": self.runtime, "model_sha256": self.model_sha256, "engine_sha256": self.engine_sha256,
        })  # fmt: skip

    @staticmethod
    def parse(packet: bytes) -> Welcome:
        """Raises WireError, or the error that was answered instead."""
        values = _object(packet)
        _raise_error(values)
        texts = [values.get(key) for key in ("reason", "runtime", "model_sha256", "engine_sha256")]
        if not all(isinstance(text, str) for text in texts):
            raise WireError("welcome without its texts")
        try:
            return Welcome(ModelDescription.model_validate(values.get("model")), *texts)  # type: ignore[arg-type]
        except ValidationError as error:
            raise WireError(f"welcome without a model ({error.error_count()} faults)") from None


@dataclass(frozen=True, slots=True)
class Request:
    """Find candidates in the RGB picture (1, height_px, width_px, 3) at the start of the shared memory."""

    number: int
    height_px: int
    width_px: int
    min_score: float
    deadline_ns: int
    new_memory_bytes: int = 0

    def pack(self) -> bytes:
        """As a packet."""
        return _REQUEST.pack(
            self.number, self.height_px, self.width_px, self.min_score, self.deadline_ns, self.new_memory_bytes
        )

    @staticmethod
    def parse(packet: bytes) -> Request:
        """Raises WireError."""
        if len(packet) != _REQUEST.size:
            raise WireError(f"request of {len(packet)} bytes")
        request = Request(*_REQUEST.unpack(packet))
        if not 0 < request.height_px <= MAX_SIDE_PX or not 0 < request.width_px <= MAX_SIDE_PX:
            raise WireError(f"request of {request.width_px}x{request.height_px} pixels")
        if not (math.isfinite(request.min_score) and 0 <= request.min_score <= 1):
            raise WireError(f"request for scores from {request.min_score}")
        if request.new_memory_bytes > MAX_INPUT_BYTES:
            raise WireError(f"request with {request.new_memory_bytes} bytes of memory")
        return request

    @property
    def input_bytes(self) -> int:
        """Size of its picture."""
        return 3 * self.height_px * self.width_px


def pack_found(number: int, found: Candidates) -> bytes:
    """The best of `found`. Raises DetectorError for what no reader may give."""
    count, points = len(found.scores), found.landmarks
    arrays = [found.boxes, found.scores] if points is None else [found.boxes, found.scores, points]
    shapes = [(count, 4), (count,), (count, 5, 2)]
    if any(array.shape != shape for array, shape in zip(arrays, shapes, strict=False)):
        raise DetectorError(f"the detector gave arrays of {[array.shape for array in arrays]}")
    if count > MAX_CANDIDATES:
        best = np.argpartition(-found.scores, MAX_CANDIDATES)[:MAX_CANDIDATES]
        arrays, count = [array[best] for array in arrays], MAX_CANDIDATES
    header = _ANSWER.pack(number, _FOUND, points is not None, count)
    return b"".join([header, *(np.ascontiguousarray(array, np.float32).tobytes() for array in arrays)])


def pack_late(number: int) -> bytes:
    """No time is left for this request."""
    return _ANSWER.pack(number, _LATE, 0, 0)


def pack_failed(number: int, error: EdgeError) -> bytes:
    """This request failed."""
    return _ANSWER.pack(number, _FAILED, 0, 0) + pack_error(error)


def pack_error(error: EdgeError) -> bytes:
    """An error, each text on one line; also the answer to a hello."""
    message, remedy = (" ".join(text.split())[:2000] for text in (error.message, error.remedy))
    return _json({"version": VERSION, "error": message, "remedy": remedy, "exit_code": error.exit_code})


def parse_answer(packet: bytes | memoryview, number: int, landmarks: bool) -> Candidates:
    """What was found for the request `number`; arrays of its own.

    landmarks: whether the model gives any. Raises LateError, the error that was answered, or WireError.
    """
    if len(packet) < _ANSWER.size:
        raise WireError(f"answer of {len(packet)} bytes")
    given, status, has_landmarks, count = _ANSWER.unpack_from(packet)
    if given != number:
        raise WireError(f"answer {given} to request {number}")
    body = packet[_ANSWER.size :]
    if status == _LATE:
        raise LateError("the inference process had no time for this picture")
    if status == _FAILED:
        _raise_error(_object(bytes(body)))
    if status != _FOUND or count > MAX_CANDIDATES or bool(has_landmarks) != landmarks:
        raise WireError(f"answer with status {status}, {count} candidates")
    width = 4 + 1 + (10 if landmarks else 0)
    if len(body) != 4 * count * width:
        raise WireError(f"answer with {len(body)} bytes for {count} candidates")
    values: Float32 = np.frombuffer(body, "<f4").astype(np.float32)
    if not np.isfinite(values).all():
        raise DetectorError("the detector gave boxes that are not finite")
    boxes, scores, points = np.split(values, [4 * count, 5 * count])
    return Candidates(boxes.reshape(count, 4), scores, points.reshape(count, 5, 2) if landmarks else None)


def _raise_error(values: dict[str, Any]) -> None:
    if "error" in values:
        texts = values["error"], values.get("remedy", "")
        if not all(isinstance(text, str) for text in texts):
            raise WireError("an error without text")
        code = values.get("exit_code")
        raise (_ERRORS.get(code, DetectorError) if isinstance(code, int) else DetectorError)(*texts)


def _json(values: dict[str, Any]) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode()


def _object(packet: bytes) -> dict[str, Any]:
    if len(packet) > MAX_TEXT_BYTES:
        raise WireError(f"{len(packet)} bytes of text")
    try:
        values = json.loads(packet)
    except (ValueError, RecursionError):
        raise WireError("not JSON") from None
    if not isinstance(values, dict) or values.get("version") != VERSION:
        raise WireError("another version of the protocol")
    return values
