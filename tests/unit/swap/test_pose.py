"""Poses from landmarks, and where a head is put for them."""

from __future__ import annotations

import numpy as np
import pytest

from edge.swap.head import BUILDS, HEIGHT_PX, WIDTH_PX, landmarks_of, view
from edge.swap.pose import front_in_box, pose_of, similarity


def turned(points: np.ndarray, degrees: float, scale: float = 1.0, shift: tuple[float, float] = (0, 0)) -> np.ndarray:
    angle = np.radians(degrees)
    return points @ np.array(((np.cos(angle), np.sin(angle)), (-np.sin(angle), np.cos(angle)))) * scale + shift


@pytest.mark.parametrize("roll", [0, 90, -45, 180])
@pytest.mark.parametrize(("yaw", "pitch"), [(0, 0), (40, 0), (-60, 10), (10, -25), (0, 30)])
def test_a_pose_is_found_again_at_any_roll_size_and_place(yaw: int, pitch: int, roll: int) -> None:
    pose = pose_of(turned(landmarks_of(yaw, pitch), roll, 0.13, (700, -20)))
    assert pose is not None
    assert (pose.yaw_deg, pose.pitch_deg) == (pytest.approx(yaw, abs=0.01), pytest.approx(pitch, abs=0.01))


def test_a_pose_does_not_jump_when_a_detector_trembles() -> None:
    random = np.random.default_rng(1)
    spread = landmarks_of(0, 0)[1, 0] - landmarks_of(0, 0)[0, 0]
    poses = [pose_of(landmarks_of(20, 5) + random.normal(0, 0.03 * spread, (5, 2))) for _ in range(200)]
    assert None not in poses
    assert np.std([pose.yaw_deg for pose in poses if pose]) < 6


@pytest.mark.parametrize(
    "points",
    [np.zeros((5, 2)), np.full((5, 2), np.nan), np.full((5, 2), np.inf), np.zeros((4, 2)),
     np.array([[0, 0], [1, 0], [2, 0], [3, 0], [4, 0]]), landmarks_of(0, 0)[::-1] * (3, 0.2),
     landmarks_of(0, 0)[[2, 0, 4, 1, 3]]],
)  # fmt: skip
def test_points_that_cannot_be_a_face(points: np.ndarray) -> None:
    assert pose_of(points.astype(np.float64)) is None


def test_similarity_is_exact_and_never_mirrors() -> None:
    points = landmarks_of(15, 5)
    matrix = similarity(points, turned(points, 70, 2.5, (10, 20)))
    np.testing.assert_allclose(points @ matrix[:, :2].T + matrix[:, 2], turned(points, 70, 2.5, (10, 20)), atol=1e-9)
    assert np.linalg.det(similarity(points, points * (-1, 1))[:, :2]) > 0
    with pytest.raises(ValueError, match="the same"):
        similarity(np.ones((5, 2)), points)


def test_a_head_without_landmarks_lies_in_its_box() -> None:
    points = front_in_box((100, 50, 200, 190))
    assert (points[:, 0] > 110).all() and (points[:, 0] < 190).all()
    assert points[0, 1] < 120 < points[3, 1] < 190
    assert pose_of(points) is not None


@pytest.mark.parametrize("build", range(len(BUILDS)))
def test_every_view_is_one_solid_head(build: int) -> None:
    import cv2

    for yaw, pitch in ((0, 0), (64, 0), (-64, 32), (20, -32)):
        head = view(build, yaw, pitch)
        assert head.surface.shape == (HEIGHT_PX, WIDTH_PX, 4)
        solid = (head.surface[..., 3] > 128).astype(np.uint8)
        assert cv2.connectedComponents(solid)[0] == 2                   # the ground and the head
        assert cv2.connectedComponents(1 - solid)[0] == 2, (yaw, pitch)     # no holes
        assert not (solid[[0, -1]].any() or solid[:, [0, -1]].any()), (yaw, pitch)
        assert 0.2 < solid.mean() < 0.6
        assert all(solid[int(y), min(int(x), WIDTH_PX - 1)] for x, y in landmarks_of(yaw // 2, pitch // 2)[:3]
                   if abs(yaw) < 60)  # fmt: skip


def test_views_are_kept_and_near_angles_share_one() -> None:
    assert view(0, 10.5, 0.0) is view(0, 13.5, 1.0)
    assert view(0, 500.0, -500.0) is view(0, 64.0, -32.0)
    assert view(7, 0, 0) is view(1, 0, 0)
