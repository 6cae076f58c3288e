"""Which segments go: the too old, those beyond a camera's size, and the oldest of all when the disk is full."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from edge.cameras import CameraSettings, Retention
from edge.recordings.index import Entry, Index
from edge.recordings.names import start_of


@dataclass(frozen=True, slots=True)
class Policies:
    """By camera, and for cameras that are in the configuration no more."""

    cameras: Mapping[str, Retention]
    others: Retention

    @staticmethod
    def of(cameras: tuple[CameraSettings, ...]) -> Policies:
        """Recordings of a camera that was taken out of the configuration get as old as those of any other."""
        all_ = [camera.recording.retention for camera in cameras]
        ages = [retention.max_age_s for retention in all_]
        known = [age for age in ages if age is not None]
        oldest = None if len(known) < len(ages) else max(known, default=None)
        floor = max((retention.min_free_bytes for retention in all_), default=0)
        return Policies({camera.name: camera.recording.retention for camera in cameras}, Retention(oldest, None, floor))

    def of_camera(self, camera: str) -> Retention:
        """What holds for this one."""
        return self.cameras.get(camera, self.others)

    @property
    def floor_bytes(self) -> int:
        """The highest floor of them all."""
        return self.others.min_free_bytes


def maybe_too_old(index: Index, policies: Policies, now_utc_s: float) -> Iterator[Entry]:
    """Entries that began longer ago than their camera's age limit; their sidecars say when they ended."""
    for camera in list(index.cameras):
        age_s = policies.of_camera(camera).max_age_s
        if age_s is None:
            continue
        for entry in index.oldest_first(camera):
            if start_of(camera, entry.stem) > now_utc_s - age_s:
                break
            yield entry


def beyond_size(index: Index, policies: Policies) -> Iterator[Entry]:
    """The oldest entries of each camera that has more bytes than it may."""
    for camera in list(index.cameras):
        limit_bytes = policies.of_camera(camera).max_bytes
        excess = 0 if limit_bytes is None else index.size_of(camera) - limit_bytes
        yield from _oldest(index, excess, camera)


def oldest_worth(index: Index, wanted_bytes: int) -> Iterator[Entry]:
    """The oldest entries of all cameras that together have so many bytes."""
    return _oldest(index, wanted_bytes, None)


def _oldest(index: Index, wanted_bytes: int, camera: str | None) -> Iterator[Entry]:
    if wanted_bytes <= 0:
        return
    for entry in index.oldest_first(camera):
        yield entry
        wanted_bytes -= entry.size_bytes
        if wanted_bytes <= 0:
            return
