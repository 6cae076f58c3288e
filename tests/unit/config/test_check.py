"""What `edge-daemon --check` finds on this machine, and that it contacts no camera."""

from __future__ import annotations

import socket
from pathlib import Path

import cv2
import numpy as np
import pytest

from edge.config import Problem, check_service, load_service

CONFIG = """\
service: {{metrics_port: {port}}}
defaults:
  detect: {{model: {model}, backend: onnxruntime}}
  recording: {{directory: {folder}/recordings}}
  retention: {{disk_floor: 1M}}
cameras:
  trial: {{source: {{file: {{path: {folder}/clip.mp4}}}}}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What a configuration without problems needs, and more."""
    (tmp_path / "recordings").mkdir()
    (tmp_path / "clip.mp4").write_bytes(b"x")
    (tmp_path / "loose").write_text("hunter2")
    (tmp_path / "loose").chmod(0o644)
    assert cv2.imwrite(str(tmp_path / "mask.png"), np.zeros((16, 16, 3), np.uint8))
    return tmp_path


def check(folder: Path, model: Path, more: str = "", port: str = "null") -> list[Problem]:
    """Problems with another camera, `more`, beside one that is right."""
    text = CONFIG.format(folder=folder, model=model, port=port)
    more = more.replace("PICTURE", "source: {file: {path: FOLDER/mask.png}}").replace("FOLDER", str(folder))
    text += f"  more: {{{more}}}\n" if more else ""
    (folder / "edge.yaml").write_text(text)
    problems = check_service(load_service(folder / "edge.yaml"))
    # how fast the disk of the tests is, and of what kind, is not ours
    return [problem for problem in problems if not problem.remedy.endswith(("another disk", "a disk of its own"))]


def test_nothing_is_said_where_nothing_is_wrong(folder: Path, default_model: Path) -> None:
    picture = "PICTURE, mask: {method: image, image: FOLDER/mask.png}"
    assert check(folder, default_model, picture) == []


@pytest.mark.parametrize(
    ("more", "level", "where", "text"),
    [
        ("source: {file: {path: FOLDER/none.mp4}}", "error", "more", "none.mp4: there is no such file"),
        ("source: {file: {path: FOLDER}}", "error", "more", "is not a file"),
        ("source: {v4l2: {device: /dev/v4l/by-id/none}}", "warning", "more", "/dev/v4l/by-id/none is not there now"),
        ("source: {file: {path: FOLDER/clip.mp4}}", "warning", "more", "has the same source as trial"),
        ("PICTURE, mask: {method: image, image: FOLDER/loose}", "error", "more", "loose"),
        ("PICTURE, detect: {model: FOLDER/none.onnx}", "error", "models", "neither known nor"),
        ("PICTURE, detect: {model: FOLDER/loose}", "error", "more", "loose"),
        ("PICTURE, recording: {directory: FOLDER/none}", "error", "recordings", "none"),
        ("PICTURE, retention: {max_age: null}, recording: {directory: FOLDER}",
         "warning", "recordings", "nothing is ever deleted"),
        ("PICTURE, retention: {max_size: 1000T}", "warning", "recordings",
         "the floor decides"),
        ("PICTURE, retention: {disk_floor: 1000T}", "error", "recordings", ""),
        ("source: {rtsp: {url: 'rtsp://h/', user: a, password: {file: FOLDER/loose}}}", "error", "credentials",
         "other users may read it"),
        ("source: {rtsp: {url: 'rtsp://h/', user: {environment: NO_SUCH_VARIABLE_HERE}}}", "error", "credentials",
         "NO_SUCH_VARIABLE_HERE is not set"),
        ("source: {rtsp: {url: 'rtsp://h/', user: a, password: {credential: street}}}", "warning", "credentials",
         "by the service only"),
    ],
)  # fmt: skip
def test_each_problem_is_found_and_nothing_else(
    more: str, level: str, where: str, text: str, folder: Path, default_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    problems = check(folder, default_model, more)
    (problem,) = problems
    assert (problem.level, problem.where) == (level, where)
    assert text in problem.text
    assert problem.remedy
    assert "hunter2" not in str(problem)


def test_a_port_that_is_taken(folder: Path, default_model: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        (problem,) = check(folder, default_model, port=str(taken.getsockname()[1]))
    assert (problem.level, problem.where) == ("warning", "service.metrics_port")


def test_no_camera_is_contacted(folder: Path, default_model: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as camera:
        camera.setblocking(False)
        url = f"rtsp://127.0.0.1:{camera.getsockname()[1]}/a"
        assert check(folder, default_model, f"source: {{rtsp: {{url: '{url}'}}}}") == []
        with pytest.raises(BlockingIOError):
            camera.accept()
