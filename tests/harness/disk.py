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


def free_bytes(disk: Path) -> int:
    """What others than root may still write."""
    facts = os.statvfs(disk)
    return facts.f_bavail * facts.f_frsize


def take_all_but(disk: Path, left_bytes: int) -> Path:
    """Another program's file, which takes the rest."""
    ballast = disk / "ballast"
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, free_bytes(disk) - left_bytes)
    return ballast


class FailingDisk:
    """A file system whose device takes no new data while `fails`: writes succeed, and are lost when the kernel gets to
    them. Its image has holes, and lies in a memory disk that is filled up meanwhile."""

    def __init__(self, root: Path, store: Path) -> None:
        self.root, self._ballast = root, store / "ballast"

    def fail(self) -> None:
        """From now on."""
        take_all_but(self._ballast.parent, 0)

    def heal(self) -> None:
        """As before."""
        self._ballast.unlink()


@contextlib.contextmanager
def failing_disk(place: Path, size_bytes: int) -> Iterator[FailingDisk]:
    """An ext4 file system without a journal (which would become read-only for good) at `place`."""
    place.mkdir(exist_ok=True)
    with memory_disk(place.with_name(place.name + "-store"), size_bytes) as store:
        image = store / "image"
        with image.open("wb") as file:
            file.truncate(size_bytes)
        call("mkfs.ext4", "-q", "-F", "-O", "^has_journal", "-E", "lazy_itable_init=0", image)
        call("mount", "-o", "loop,errors=continue", image, place)
        try:
            yield FailingDisk(place, store)
        finally:
            unmount(place)


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
