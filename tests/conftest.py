"""Fixtures for all tests, and the checks that every test passes: it leaves nothing behind and shows no secret."""

from __future__ import annotations

import ctypes
import gc
import os
import re
import time
import urllib.parse
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.leftovers import Leftovers

ROOT = Path(__file__).parents[1]
SETTLE_S = 10.0
MINUTES_S = 300
# Used wherever a test needs a password; found in any output, it fails that test (P8).
PASSWORD = "correct/horse@battery:staple"
FAILED = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also run tests marked slow")


def pytest_configure() -> None:
    """Give C++ exceptions of all libraries the same unwinder.

    GStreamer loads libunwind, which has functions of the same names as libgcc's. When PyAV was loaded before it and
    ONNX Runtime after it, an exception that ONNX Runtime means to catch ends the process. The product never loads PyAV.
    """
    ctypes.CDLL("libgcc_s.so.1", ctypes.RTLD_GLOBAL)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    def takes_minutes(item: pytest.Item) -> bool:
        limit = item.get_closest_marker("timeout")
        return limit is not None and limit.args[0] >= MINUTES_S

    items.sort(key=lambda item: not takes_minutes(item))        # so that none of them is the last to run
    if not config.getoption("--slow"):
        skip = pytest.mark.skip(reason="slow; run with --slow")
        for item in items:
            if item.get_closest_marker("slow"):
                item.add_marker(skip)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, Any]:
    """Fail a test whose output shows the password, plain or as it stands in an address."""
    report: Any = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    quoted = urllib.parse.quote(PASSWORD, safe="")
    for title, text in report.sections:
        if re.search(f"{re.escape(PASSWORD)}|{re.escape(quoted)}", text, re.IGNORECASE):
            report.outcome = "failed"
            report.longrepr = f"{item.nodeid}: the password stands in '{title}'"
    return report


@pytest.fixture(autouse=True)
def nothing_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves a thread, a child process or an open file."""
    before = Leftovers.now()
    yield
    if request.node.stash.get(FAILED, False):       # its traceback keeps things alive, and one failure is enough
        return
    deadline_s = time.monotonic() + SETTLE_S
    while left := Leftovers.now().since(before):
        gc.collect()
        if time.monotonic() > deadline_s:
            pytest.fail("left behind: " + "; ".join(left))
        time.sleep(0.05)


@pytest.fixture(autouse=True)
def plain_floating_point() -> Iterator[None]:
    """ONNX Runtime leaves the calling thread with denormals flushed to zero, which later tests should not inherit."""
    yield
    fe_dfl_env = ctypes.c_void_p(-1)                # fenv.h of glibc, on x86-64 and arm64
    ctypes.CDLL("libm.so.6").fesetenv(fe_dfl_env)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of real models, photos and clips, or a skip where it is absent. $EDGE_TEST_DATA says where it is."""
    path = Path(os.environ.get("EDGE_TEST_DATA") or ROOT.parent / "shared" / "data")
    if not (path / "MANIFEST.tsv").is_file():
        pytest.skip(f"no test data at {path}; set EDGE_TEST_DATA to the folder that holds it")
    return path


@pytest.fixture(scope="session")
def default_model() -> Path:
    """A small real detector: YuNet from the test data, else whatever model is installed, else a skip."""
    from edge.errors import EdgeError
    from tests.harness.default_model import resolve_default_model

    try:
        return resolve_default_model().path
    except EdgeError as error:
        pytest.skip(f"no detector model: {error}")


@pytest.fixture(scope="session")
def sample() -> Path:
    """A 12 s clip of 640x360 with one face whose place is known: `tests.harness.sample.face_box`."""
    from tests.harness import sample as clip

    try:
        return clip.ensure()
    except clip.SampleUnavailable as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def short_sample(sample: Path) -> Path:
    """Its first 5 s, 125 frames: the face enters the picture and comes near."""
    from tests.harness import sample as clip

    return clip.ensure(count=125)


@pytest.fixture
def password() -> str:
    """The password to use in a test; it must not turn up in any output."""
    return PASSWORD


@pytest.fixture
def rtsp_sample(sample: Path) -> Iterator[Any]:
    """A running RTSP server whose mount "sample" plays the sample over and over."""
    from tests.harness.rtspd import RtspServer

    with RtspServer({"sample": sample}) as server:
        yield server


