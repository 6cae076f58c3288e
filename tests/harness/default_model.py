"""The detector that tests use: YuNet from the test data, else whatever `--model auto` takes on this machine."""

from __future__ import annotations

import functools
import os
from pathlib import Path

from edge.models.choose import ResolvedModel, choose
from edge.models.description import ModelDescription, description

ROOT = Path(__file__).parents[2]


@functools.cache
def resolve_default_model() -> ResolvedModel:
    """Its file and description. Raises EdgeError when there is none and none can be fetched."""
    data = Path(os.environ.get("EDGE_TEST_DATA") or ROOT.parent / "shared" / "data")
    yunet = data / "models" / "detectors" / "yunet_n_dynamic.onnx"
    return choose(str(yunet) if yunet.is_file() else "auto")


def default_description() -> ModelDescription:
    """Its description; YuNet's where there is no model, and tests that need one skip."""
    from edge.errors import EdgeError

    try:
        return resolve_default_model().description
    except EdgeError:
        return description("yunet_n")
