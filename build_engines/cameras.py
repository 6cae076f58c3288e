"""What to build for the cameras of the daemon's configuration."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from build_engines.options import DEFAULT_FRAME, BuildOptions
from edge.cameras import CameraSource, CsiSource, V4l2Source
from edge.config import load_service
from edge.errors import ConfigError


def options_for_cameras(config: Path, options: BuildOptions) -> BuildOptions | None:
    """`options` with the models, picture sizes and directories of all cameras that may use an engine.

    A size that only the camera knows is taken to be 1920x1080. None: no camera may use one. Raises ConfigError: the
    configuration is wrong, or its cameras keep their engines in different directories.
    """
    settings = load_service(config)
    cameras = [camera for camera in settings.cameras if camera.run.detect.backend != "onnxruntime"]
    if not cameras:
        return None
    directories = {camera.run.detect.engine_dir for camera in cameras}
    if len(directories) > 1:
        raise ConfigError(f"{config}: engine_dir differs between cameras", "build with --model and --engine-dir")
    return replace(
        options,
        models=tuple(dict.fromkeys(camera.run.detect.model for camera in cameras)),
        frames=tuple(dict.fromkeys(_frame(camera.source) for camera in cameras)),
        models_dir=options.models_dir or settings.models_dir,
        engine_dir=options.engine_dir or directories.pop(),
    )


def _frame(source: CameraSource) -> tuple[int, int]:
    if isinstance(source, (V4l2Source, CsiSource)) and source.width_px and source.height_px:
        return source.width_px, source.height_px
    return DEFAULT_FRAME
