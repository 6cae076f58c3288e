"""The rules of docs/architecture.md about who may import what, checked on the source."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "edge").rglob("*.py"))

# Each heavy dependency, and the only places that may import it.
ONLY_IN = {
    "gi": ["edge/video/gst.py"],
    "onnxruntime": ["edge/inference/onnx_runtime.py"],
    "onnx": ["edge/graph/", "edge/inference/prepare.py", "edge/models/signature.py"],
    "onnxslim": ["edge/graph/"],
    "tensorrt": ["edge/nvidia/tensorrt_api.py"],
    "pycuda": ["edge/nvidia/cuda.py"],
    "jtop": ["edge/service/"],
    "yaml": ["edge/models/description.py", "edge/config/"],
}
HEAVY = ("numpy", "cv2", "gi", "onnxruntime", "onnx", "rich", "pydantic", "yaml")


def imports(path: Path) -> Iterator[tuple[str, int, bool]]:
    """(module, line, whether it is imported with the file) of every import in a file, also inside functions."""
    tree = ast.parse(path.read_text(), str(path))
    with_file = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno, id(node) in with_file) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "." * node.level, node.lineno, id(node) in with_file


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_the_runtime_does_not_import_the_builders_or_the_tests() -> None:
    wrong = [
        f"{relative(path)}:{line} imports {name}"
        for path in MODULES
        for name, line, _ in imports(path)
        if name.split(".")[0] in ("calibration", "build_engines", "tests")
    ]
    assert wrong == []


@pytest.mark.parametrize(("package", "places"), ONLY_IN.items(), ids=list(ONLY_IN))
def test_a_heavy_package_is_imported_in_one_place(package: str, places: list[str]) -> None:
    users = {relative(path) for path in MODULES for name, _, _ in imports(path) if name.split(".")[0] == package}
    strays = [user for user in users if not user.startswith(tuple(places))]
    assert strays == [], f"{package} belongs in {', '.join(places)}"


def test_packages_depend_on_each_other_in_one_direction() -> None:
    uses: dict[str, set[str]] = defaultdict(set)
    for path in MODULES:
        package = _package(relative(path).removesuffix(".py").replace("/", "."))
        for name, _, _ in imports(path):
            if name.startswith("edge.") and _package(name) != package:
                uses[package].add(_package(name))
    mutual = [(one, other) for one in uses for other in uses[one] if one in uses.get(other, ())]
    circles = sorted({" <-> ".join(sorted(pair)) for pair in mutual})
    assert circles == []


def _package(module: str) -> str:
    parts = module.split(".")
    return ".".join(parts[:2])


def test_names_say_what_is_inside() -> None:
    vague = {"utils", "util", "helpers", "helper", "core", "manager", "common", "misc", "base"}
    folders = [path for path in (ROOT / "edge").rglob("*") if path.is_dir()]
    assert [relative(path) for path in [*MODULES, *folders] if path.stem in vague] == []


def test_no_shell_and_no_pickle_of_foreign_data() -> None:
    wrong = []
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.keyword) and node.arg == "shell":
                wrong.append(f"{relative(path)}:{node.value.lineno} shell=")
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("os.system", "eval", "exec", "yaml.load"):
                wrong.append(f"{relative(path)}:{node.lineno} {ast.unparse(node.func)}")
    assert wrong == []


@pytest.mark.parametrize("command", ["run", "models", "daemon", "status", "doctor"])
def test_help_is_quick(command: str) -> None:
    code = (
        f"import sys, json; sys.argv = ['edge-{command}', '--help']; from edge.cli.{command} import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "usage: edge-" in done.stdout
    loaded = set(json.loads(done.stderr.splitlines()[-1]))
    assert sorted(loaded.intersection(HEAVY)) == []
