"""The seam between a detector and what runs its network: in this process, or in the inference process."""

from __future__ import annotations

from typing import Protocol

from edge.detect.candidates import Candidates
from edge.models.description import ModelDescription
from edge.types import UInt8


class Network(Protocol):
    """A face network, ready to run. `find` may be called from several threads at once.

    """

    @property
    def model(self) -> ModelDescription:
        """How its inputs and outputs are read. Raises DetectorError while that is not known yet."""

    @property
    def reason(self) -> str:
        """Why this model, when that is not obvious."""

    def find(self, pixels: UInt8, min_score: float) -> Candidates:
        """Candidates in one RGB picture, uint8 (1, height, width, 3), in its pixels, before overlaps are merged.

        Raises DetectorError when this run failed or was too late, DeviceLostError when no run will work any more in
        this process.
        """

    def describe(self) -> str:
        """Library, version and device, for people."""

    def close(self) -> None:
        """Give memory back; it cannot be used afterwards."""
