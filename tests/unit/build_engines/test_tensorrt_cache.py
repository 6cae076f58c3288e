"""Kernel times that one build leaves to the next; a passing stand-in for TensorRT's part, which needs a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from build_engines.tensorrt_cache import TimingCache

# As TensorRT 8.6.0 said them on an H200.
SAID = (
    "1: [myelinCache.h::deserializeFromBuffer::52] Error Code 1: Myelin (Myelin error from unknown graph)",
    "4: The timing cache will not be used!",
)


class Cache:
    def __init__(self, content: bytes) -> None:
        self._content = content

    def serialize(self) -> bytes:
        return self._content + b"+"


class Config:
    """refuses: contents that `set_timing_cache` does not take."""

    def __init__(self, refuses: tuple[bytes, ...] = ()) -> None:
        self._refuses, self.given = refuses, b""
        self._cache: Cache | None = None

    def create_timing_cache(self, content: bytes) -> Cache:
        self.given = content
        return Cache(content)

    def set_timing_cache(self, cache: Cache, ignore_mismatch: bool) -> bool:
        assert not ignore_mismatch
        self._cache = cache
        return self.given not in self._refuses

    def get_timing_cache(self) -> Cache | None:
        return self._cache


def build(file: Path, said: str = "", refuses: tuple[bytes, ...] = ()) -> bytes:
    """What TensorRT was given."""
    config: Any = Config(refuses)
    cache = TimingCache(file)
    cache.open(config)
    cache.was_refused_by(said)
    cache.keep(config)
    return bytes(config.given)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "timing.cache"


def test_each_build_adds_to_those_before(file: Path) -> None:
    assert build(file) == b""
    assert build(file) == b"+"
    assert file.read_bytes() == b"++"
    assert list(file.parent.iterdir()) == [file]


def test_times_of_another_gpu_are_begun_anew(file: Path) -> None:
    file.write_bytes(b"other")
    assert build(file, refuses=(b"other",)) == b""
    assert file.read_bytes() == b"+"


@pytest.mark.parametrize("said", SAID)
def test_one_that_was_refused_is_not_tried_again(file: Path, said: str) -> None:
    build(file)
    build(file, said)
    assert build(file) == b""
    assert file.read_bytes() == b""


def test_other_errors_are_not_about_it() -> None:
    cache = TimingCache(None)
    assert [cache.was_refused_by(line) for line in SAID] == [True, True]
    assert not cache.was_refused_by("10: Could not find any implementation for node Resize_79 [profile 1].")


def test_none_where_nothing_is_to_be_kept() -> None:
    config: Any = Config(refuses=(b"",))
    cache = TimingCache(None)
    cache.open(config)
    cache.keep(config)
    assert config.get_timing_cache() is None


def test_a_disk_that_refuses_leaves_the_old_one(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(file)

    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        build(file)
    assert file.read_bytes() == b"+"
    assert list(file.parent.iterdir()) == [file]
