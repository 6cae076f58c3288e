"""Disks for tests: small ones that fill up, ones that become read-only, go away, or hang. Most need root."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts file systems: needs root")


def call(*words: str | Path) -> None:
    """Run a command; skip the test with what it says where that is not possible here."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{words[0]} does not work here: {done.stderr.strip()}")


@contextlib.contextmanager
def memory_disk(place: Path, size_bytes: int) -> Iterator[Path]:
    """A file system in memory at `place`."""
    place.mkdir(exist_ok=True)
    call("mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", place)
    try:
        yield place
    finally:
        unmount(place)


@contextlib.contextmanager
def block_disk(place: Path, size_bytes: int) -> Iterator[Path]:
    """An ext4 file system in a file, which can be frozen."""
    place.mkdir(exist_ok=True)
    image = place.with_name(place.name + ".img")
    with image.open("wb") as file:
        file.truncate(size_bytes)
    call("mkfs.ext4", "-q", "-F", image)
    call("mount", "-o", "loop", image, place)
    try:
        yield place
    finally:
        unmount(place)
        image.unlink()


@contextlib.contextmanager
def frozen(place: Path) -> Iterator[None]:
    """Nothing can be written to this file system meanwhile; who tries waits."""
    call("fsfreeze", "-f", place)
    try:
        yield
    finally:
        subprocess.run(["fsfreeze", "-u", place], check=True)


def remount(place: Path, options: str) -> None:
    """Change how it is mounted, as ``ro``."""
    call("mount", "-o", f"remount,{options}", place)


def unmount(place: Path) -> None:
    """Take it away, also while files in it are open; those can be used on."""
    subprocess.run(["umount", "--lazy", place], check=False)
