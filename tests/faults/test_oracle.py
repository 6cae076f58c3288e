"""The oracle of the fault tests can fail: it sees a face that is not masked, whatever the codec made of it."""

from __future__ import annotations

from pathlib import Path

import av
import cv2
import numpy as np

from tests.harness.oracle import frames, sights, visible
from tests.harness.sample import face_box


def encode(pictures: list[np.ndarray], path: Path, crf: int) -> Path:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25, options={"crf": str(crf)})
        stream.height, stream.width = pictures[0].shape
        stream.pix_fmt = "yuv420p"
        for picture in pictures:
            frame = av.VideoFrame.from_ndarray(picture, format="gray")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def test_an_unmasked_copy_is_seen(sample: Path, tmp_path: Path) -> None:
    copy = encode([picture for _, picture in frames(sample)], tmp_path / "copy.mp4", crf=32)
    seen = sights(sample, copy, face_box)
    assert len(seen) > 150
    assert all(sight.visible for sight in seen)


def test_one_unmasked_frame_among_masked_ones_is_seen(sample: Path, tmp_path: Path) -> None:
    pictures = []
    for time_s, picture in frames(sample):
        box = face_box(time_s)
        if box is not None and not (4.0 <= time_s < 4.04):
            x1, y1, x2, y2 = (max(0, round(v)) for v in box)
            face = picture[y1:y2, x1:x2]
            if face.size:
                small = cv2.resize(face, (6, 6), interpolation=cv2.INTER_AREA)
                picture[y1:y2, x1:x2] = cv2.resize(small, face.shape[::-1], interpolation=cv2.INTER_NEAREST)
        pictures.append(picture)
    output = encode(pictures, tmp_path / "masked.mp4", crf=23)
    assert [round(sight.time_s, 2) for sight in visible(sample, output, face_box)] == [4.0]
