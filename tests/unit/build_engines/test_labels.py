"""Recall and average precision against labels."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from build_engines.labels import average_precision, read_labels, score_labels
from edge.errors import InputError
from edge.types import Detections


def write(path: Path, rows: object) -> Path:
    path.write_text(json.dumps(rows))
    return path


def test_reading(tmp_path: Path) -> None:
    rows = [{"file": "a.jpg", "boxes": [[10, 20, 30, 40]], "ignore": []}, {"file": "b.jpg", "boxes": []}]
    one, other = read_labels(write(tmp_path / "labels.json", rows), tmp_path)
    assert one.path == tmp_path / "a.jpg"
    assert one.faces.tolist() == [[10, 20, 40, 60]]
    assert other.faces.shape == other.ignored.shape == (0, 4)


@pytest.mark.parametrize("rows", [{"file": 1}, [{"boxes": []}], [{"file": "a", "boxes": [["x", 1, 2, 3]]}], 3])
def test_what_is_no_label_file(tmp_path: Path, rows: object) -> None:
    with pytest.raises(InputError, match="not a file with labels"):
        read_labels(write(tmp_path / "labels.json", rows), tmp_path)
    with pytest.raises(InputError, match="No such file"):
        read_labels(tmp_path / "none.json", tmp_path)


def test_sizes_ignored_and_false(tmp_path: Path) -> None:
    rows = [{"file": "a", "boxes": [[0, 0, 20, 20], [100, 0, 120, 120]], "ignore": [[300, 0, 50, 50]]}]
    labels = read_labels(write(tmp_path / "labels.json", rows), tmp_path)
    found = Detections(
        np.array([[0, 0, 20, 20], [300, 0, 350, 50], [500, 0, 520, 20], [100, 0, 220, 120]], np.float32),
        np.array([0.9, 0.8, 0.7, 0.4], np.float32),
    )
    scores = score_labels(labels, [found], 0.5)
    assert (scores[None].faces, scores[None].found, scores[None].false) == (2, 1, 1)
    assert (scores["small"].faces, scores["small"].recall, scores["small"].false) == (1, 1, 1)
    assert (scores["large"].faces, scores["large"].recall, scores["large"].false) == (1, 0, 0)
    assert scores["small"].ap == 1
    assert scores["large"].ap == 1          # AP looks at all scores
    assert scores[None].ap == pytest.approx((1 + 2 / 3) / 2)
    assert math.isnan(scores["medium"].ap)


def test_average_precision_by_hand() -> None:
    scores = np.array([0.9, 0.8, 0.7, 0.6], np.float32)
    hits = np.array([True, False, True, False])
    assert average_precision(scores, hits, 3) == pytest.approx((1 + 2 / 3) / 3)
    assert average_precision(scores[:0], hits[:0], 3) == 0
