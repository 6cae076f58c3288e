"""What README.md and docs/ tell people to do works as written.

Every ```sh block runs, in order, in a folder with: clip.mp4 (a second with a face), photo.jpg, logo.png, and footage/
with a clip and a picture. rtsp://192.168.1.20:554/stream1 is a camera; the one at 192.168.1.21 wants viewer:secret.
Blocks that need root, hardware or minutes are ```console and do not run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.rtspd import RtspServer

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.timeout(300)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.fixture(scope="module")
def workplace(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the examples assume."""
    import cv2

    from tests.harness import sample as clip

    folder = tmp_path_factory.mktemp("workplace")
    pictures = clip.frames(clip.portrait())[70:95]
    clip.encode(pictures, folder / "clip.mp4")
    (folder / "footage" / "monday").mkdir(parents=True)
    clip.encode(pictures[:10], folder / "footage" / "monday" / "door.mp4")
    cv2.imwrite(str(folder / "footage" / "person.png"), pictures[0])
    cv2.imwrite(str(folder / "photo.jpg"), pictures[0])
    cv2.imwrite(str(folder / "logo.png"), pictures[0][:64, :64])
    return folder


@pytest.fixture
def cameras(sample: Path) -> Iterator[dict[str, str]]:
    """Addresses in the pages -> addresses on this machine."""
    shown = "rtsp://192.168.1.{}:554/stream1"
    guarded = RtspServer({"stream1": sample}, user="viewer", password="secret", authentication="digest")
    with RtspServer({"stream1": sample}) as unguarded, guarded:
        yield {shown.format(20): unguarded.url("stream1"), shown.format(21): guarded.url("stream1")}


@pytest.mark.parametrize("page", [page for page in PAGES if BLOCK.search(page.read_text())], ids=name_of)
def test_commands_run_as_written(page: Path, workplace: Path, cameras: dict[str, str]) -> None:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for block in BLOCK.findall(page.read_text()):
        script = block
        for shown, real in cameras.items():
            script = script.replace(shown, real)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=workplace, env=environment, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{name_of(page)}:\n{block}\n{done.stdout}{done.stderr}"
        assert "Traceback" not in done.stdout + done.stderr
        for wanted in re.findall(r"-o (\S+)", block):
            assert (workplace / wanted).exists(), f"{name_of(page)}: nothing was written to {wanted} by\n{block}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    headings = {re.sub(r"[^a-z0-9 -]", "", line.lower()).replace(" ", "-")
                for line in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}  # fmt: skip
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        if target.startswith("http"):
            continue
        if (path and not (page.parent / path).exists()) or (anchor and not path and anchor not in headings):
            broken.append(target)
    assert broken == []


def test_options_named_in_the_pages_exist() -> None:
    """Every `--option` in running text is one of ours."""
    known = set()
    for program in ("edge-run", "edge-models", "edge-build", "edge-daemon", "edge-status", "edge-doctor"):
        command = [str(Path(sys.executable).parent / program), "--help"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        known |= set(re.findall(r"--[a-z][a-z-]+", done.stdout))
    for source in [ROOT / "tests" / "conftest.py", *(ROOT / "tests" / "bench").glob("*.py")]:
        known |= set(re.findall(r"\"(--[a-z][a-z-]+)\"", source.read_text()))
    known |= {"--system-site-packages", "--slow"}
    unknown = {
        f"{name_of(page)}: {option}"
        for page in PAGES
        for option in re.findall(r"`(--[a-z][a-z-]+)", page.read_text())
        if option not in known
    }
    assert unknown == set()


def test_exit_codes_are_those_of_the_program() -> None:
    from edge import errors

    codes = {value.exit_code for value in vars(errors).values()
             if isinstance(value, type) and issubclass(value, errors.EdgeError)}  # fmt: skip
    listed = re.search(r"Exit codes: (.*?)\.\n\n", (ROOT / "README.md").read_text(), re.DOTALL)
    assert listed is not None
    assert {int(code) for code in re.findall(r"\b\d+\b", listed[1])} == codes | {0, 130}
