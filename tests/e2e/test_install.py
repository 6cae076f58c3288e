"""make install and uninstall, into a scratch prefix: what lies where, what runs, what stays."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ("Makefile", "setup.cfg", "pyproject.toml", "README.md", "LICENSE", "edge", "calibration", "build_engines",
           "configs", "docs", "systemd")  # fmt: skip

pytestmark = pytest.mark.timeout(300)


class Machine:
    """A checkout of its own, and a folder that stands for the root of a file system."""

    def __init__(self, folder: Path) -> None:
        self.checkout, self.root = folder / "checkout", folder / "root"
        self.checkout.mkdir()
        self.root.mkdir()
        subprocess.run(["cp", "-r", *SOURCES, str(self.checkout)], cwd=ROOT, check=True)
        self.config = self.root / "etc" / "edge" / "edge.yaml"

    def make(self, target: str, **variables: str | Path) -> subprocess.CompletedProcess[str]:
        """Install under the folder itself, not staged; packages are not fetched."""
        places = {"PREFIX": "opt/edge", "LIBDIR": "usr/lib", "SYSCONFDIR": "etc", "BINDIR": "usr/bin"}
        settings = {name: self.root / path for name, path in places.items()}
        settings |= {"PIP_ARGS": "--no-deps --no-build-isolation", **variables}
        words = [f"{name}={value}" for name, value in settings.items()]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
        return subprocess.run(["make", target, *words], cwd=self.checkout, env=environment, capture_output=True,
                              text=True, timeout=240, check=False)  # fmt: skip

    def install(self) -> Path:
        """The release that is current afterwards, able to find the packages of this test's environment."""
        done = self.make("install")
        assert done.returncode == 0, done.stderr
        release = (self.root / "opt" / "edge" / "current").resolve()
        packages = next((release / "lib").glob("python3.*/site-packages"))
        (packages / "of_the_test.pth").write_text(sysconfig.get_path("purelib") + "\n")
        return release

    def runs(self, program: str, *arguments: str) -> str:
        """Output of an installed program."""
        done = subprocess.run([str(self.root / "usr" / "bin" / program), *arguments], cwd="/", capture_output=True,
                              text=True, timeout=60, check=False)  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def files(self) -> set[str]:
        """Everything outside the releases, relative to the root."""
        found = {path.relative_to(self.root).as_posix() for path in self.root.rglob("*")
                 if path.is_symlink() or path.is_file()}  # fmt: skip
        return {name for name in found if "/releases/" not in name}


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return Machine(tmp_path_factory.mktemp("machine"))


def test_what_lies_where_and_runs(machine: Machine) -> None:
    release = machine.install()
    programs = {path.name for path in (release / "bin").glob("edge-*")}
    assert {"edge-run", "edge-models", "edge-build", "edge-doctor"} <= programs
    assert machine.files() == {
        *(f"usr/bin/{program}" for program in programs),
        *(f"usr/lib/systemd/system/{path.name}" for path in (ROOT / "systemd").glob("*.service")),
        "usr/lib/sysusers.d/edge.conf", "usr/lib/tmpfiles.d/edge.conf", "etc/edge/edge.yaml",
        "opt/edge/bin", "opt/edge/current", "opt/edge/share",
    }   # fmt: skip
    assert "yunet_n" in machine.runs("edge-models", "list", "yunet_n")
    assert "usage: edge-run" in machine.runs("edge-run", "--help")
    where = machine.runs("edge-models", "list", "--json")
    assert str(machine.checkout) not in where
    assert (machine.root / "opt/edge/share/doc/edge/privacy.md").is_file()
    unit = (machine.root / "usr/lib/systemd/system/edge.service").read_text()
    assert f"ExecStart={machine.root}/opt/edge/bin/edge-daemon --config {machine.config}" in unit
    assert "=/opt/edge" not in unit


def test_the_installed_daemon_reads_a_configuration(machine: Machine, sample: Path, default_model: Path) -> None:
    machine.install()
    recordings = machine.root / "recordings"
    recordings.mkdir()
    text = (f"service: {{runtime_dir: {machine.root}/run}}\ndefaults: {{recording: {{directory: {recordings}}}, "
            f"detect: {{model: {default_model}}}, retention: {{disk_floor: 100M}}}}\n"
            f"cameras: {{door: {{source: {{file: {{path: {sample}}}}}}}}}\n")  # fmt: skip
    path = machine.root / "trial.yaml"
    path.write_text(text)
    machine.runs("edge-daemon", "--check", "--config", str(path))
    path.unlink()
    recordings.rmdir()


def test_again_does_nothing_and_a_changed_configuration_stays(machine: Machine) -> None:
    release = machine.install()
    before = (release / "complete").stat().st_mtime_ns
    machine.config.write_text("cameras: []\n")
    assert machine.install() == release
    assert (release / "complete").stat().st_mtime_ns == before
    assert machine.config.read_text() == "cameras: []\n"


def test_an_upgrade_keeps_the_release_before_and_a_failed_one_changes_nothing(machine: Machine) -> None:
    first = machine.install()
    version = machine.checkout / "edge" / "__init__.py"
    original = version.read_text()
    version.write_text(original.replace('__version__ = "', '__version__ = "9.'))
    broken = machine.make("install", PIP_ARGS="--no-such-option")
    assert broken.returncode != 0
    assert "pip could not install" in broken.stderr
    assert (machine.root / "opt/edge/current").resolve() == first
    assert [path.name for path in first.parent.iterdir()] == [first.name]

    second = machine.install()
    assert second.name.startswith("9.")
    assert "9." in machine.runs("edge-run", "--version")
    old = subprocess.run([str(first / "bin" / "edge-run"), "--version"], capture_output=True, text=True, check=True)
    assert "9." not in old.stdout                       # what a running daemon starts its children from

    version.write_text(original.replace('__version__ = "', '__version__ = "10.'))
    third = machine.install()
    assert {path.name for path in first.parent.iterdir()} == {second.name, third.name}


def test_uninstall_leaves_the_configuration_only(machine: Machine) -> None:
    machine.install()
    foreign = machine.root / "usr" / "bin" / "edge-of-others"
    foreign.symlink_to("/bin/true")
    done = machine.make("uninstall")
    assert done.returncode == 0, done.stderr
    assert machine.files() == {"etc/edge/edge.yaml", "usr/bin/edge-of-others"}
    assert not (machine.root / "opt" / "edge").exists()


def test_staging_leaves_no_trace_of_the_staging_directory(tmp_path: Path) -> None:
    long = tmp_path / ("staging-" * 15)             # too long for a first line: pip writes another one then
    long.mkdir()
    machine = Machine(long)
    done = machine.make("install", DESTDIR=machine.root, PREFIX="/opt/edge", LIBDIR="/usr/lib", SYSCONFDIR="/etc",
                        BINDIR="/usr/bin")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (machine.root / "usr/bin/edge-run").readlink() == Path("/opt/edge/bin/edge-run")
    texts = [path for path in machine.root.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert [path for path in texts if str(tmp_path).encode() in path.read_bytes()] == []


@pytest.mark.parametrize(
    ("variables", "says"),
    [({"PREFIX": "opt"}, "not absolute"), ({"PREFIX": "/usr"}, "belongs to others"),
     ({"PREFIX": "/a b"}, "cannot hold"), ({"PREFIX": "/opt/../usr"}, "has .."),
     ({"PYTHON": "/bin/false"}, "does not start")],
)  # fmt: skip
def test_senseless_places_are_refused(machine: Machine, variables: dict[str, str], says: str) -> None:
    done = machine.make("install", **variables)
    assert done.returncode != 0
    assert says in done.stderr


def test_a_directory_of_others_is_left_alone(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    (machine.root / "opt" / "edge" / "bin").mkdir(parents=True)
    done = machine.make("install")
    assert done.returncode != 0
    assert "not from make install" in done.stderr


@pytest.mark.slow
def test_with_all_packages_from_the_index(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    done = machine.make("install", PIP_ARGS="")
    assert done.returncode == 0, done.stderr
    assert "usage: edge-run" in machine.runs("edge-run", "--help")
    release = (machine.root / "opt/edge/current").resolve()
    check = [str(release / "bin" / "python3"), "-c", "import cv2, numpy, onnxruntime, pydantic, rich, yaml, gi"]
    subprocess.run(check, cwd="/", check=True)
    shutil.rmtree(machine.root)
