"""What edge-build --config builds follows from the cameras."""

from __future__ import annotations

from pathlib import Path

import pytest

from build_engines.cameras import options_for_cameras
from build_engines.cli import main
from build_engines.options import BuildOptions, build_options, build_parser
from edge.errors import ConfigError, UsageError


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "edge.yaml"
    path.write_text(text)
    return path


def test_models_and_sizes_of_all_cameras_that_may_use_an_engine(tmp_path: Path) -> None:
    config = written(tmp_path, """
cameras:
  door: {source: {rtsp: {url: 'rtsp://192.0.2.1/x'}}}
  hall: {source: {csi: {sensor_id: 0, width: 1280, height: 720}}, detect: {model: centerface}}
  yard: {source: {file: {path: /clip.mp4}}, detect: {backend: onnxruntime, model: scrfd_500m}}
""")
    options = options_for_cameras(config, BuildOptions(engine_dir=Path("/engines")))
    assert options is not None
    assert options.models == ("auto", "centerface")
    assert options.frames == ((1920, 1080), (1280, 720))
    assert options.engine_dir == Path("/engines")


def test_nothing_to_build_is_no_failure(tmp_path: Path) -> None:
    config = written(tmp_path, "cameras: {a: {source: {file: {path: /c.mp4}}, detect: {backend: onnxruntime}}}\n")
    assert options_for_cameras(config, BuildOptions()) is None
    assert main(["--check", "--config", str(config)]) == 0


def test_what_cannot_be_built_together(tmp_path: Path) -> None:
    engines = "detect: {engine_dir: %s}, source: {file: {path: /c.mp4}}"
    config = written(tmp_path, f"cameras: {{a: {{{engines % '/a'}}}, b: {{{engines % '/b'}}}}}\n")
    with pytest.raises(ConfigError, match="differs between cameras"):
        options_for_cameras(config, BuildOptions())
    with pytest.raises(UsageError, match="exclude each other"):
        build_options(build_parser().parse_args(["--config", str(config), "--model", "yunet_n"]))
