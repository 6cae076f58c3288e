"""Faces replaced from the command line: none is left, and file and sidecar say so."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import av
import cv2

from tests.harness.oracle import sights
from tests.harness.sample import face_box, frames, portrait


def run(*words: str | Path) -> None:
    done = subprocess.run([sys.executable, "-m", "edge.cli.run", *map(str, words)], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_video_says_that_its_faces_are_nobodys(short_sample: Path, default_model: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.mp4"
    run(short_sample, "-o", output, "--replacewith", "swap", "--sidecar", "--model", default_model)
    seen = sights(short_sample, output, face_box)
    assert len(seen) > 60 and not any(sight.visible for sight in seen)
    with av.open(str(output)) as container:
        assert "replaced" in container.metadata["comment"]
    head, *lines = [json.loads(line) for line in (tmp_path / "out.mp4.jsonl").read_text().splitlines()]
    assert head["mask"] == "swap" and "mannequin" in head["comment"]
    assert sum(len(line.get("swapped", ())) for line in lines) > 60
    for line in lines:
        assert set(line.get("swapped", ())) <= {region["track"] for region in line["regions"]}


def test_a_picture(sample: Path, default_model: Path, tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "in.png"), frames(portrait())[120])
    run(tmp_path / "in.png", "-o", tmp_path / "out.png", "--replacewith", "swap", "--model", default_model)
    before, after = (cv2.imread(str(tmp_path / name)) for name in ("in.png", "out.png"))
    assert before is not None and after is not None
    assert (before != after).any(axis=-1)[40:300, 250:400].mean() > 0.3
