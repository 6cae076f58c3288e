"""Times stay as the source gives them, and always go forward."""

from __future__ import annotations

from fractions import Fraction

import pytest

from edge.video.timeline import Timeline

MS = 1_000_000


@pytest.mark.parametrize(("given", "expected"), [
    ([(0, 40), (40, 40), (80, 40)], [(0, 40), (40, 40), (80, 40)]),
    ([(500, 40), (513, 40), (777, 40)], [(500, 40), (513, 40), (777, 40)]),         # variable rate
    ([(0, None), (40, None)], [(0, 40), (40, 40)]),
    ([(None, None), (None, None), (None, 20)], [(0, 40), (40, 40), (80, 20)]),
    ([(0, 40), (0, 40), (80, 40)], [(0, 40), (20, 40), (80, 40)]),                  # twice the same
    ([(100, 40), (90, 40)], [(100, 40), (120, 40)]),
    ([(0, 40), (3600_000, 40)], [(0, 40), (3600_000, 40)]),                         # a long still picture
    ([(0, 1)], [(0, 40)]),
])  # fmt: skip
def test_moments(given: list[tuple[int | None, int | None]], expected: list[tuple[int, int]]) -> None:
    timeline = Timeline()
    timeline.set_frame_rate(Fraction(25))
    moments = [timeline.place(*(None if each is None else each * MS for each in pair)) for pair in given]
    assert [(moment.pts_ns // MS, moment.duration_ns // MS) for moment in moments] == expected
    assert not any(moment.jumped for moment in moments)


def test_a_jump_back_begins_anew() -> None:
    timeline = Timeline()
    timeline.place(5000 * MS, 40 * MS)
    moment = timeline.place(0, 40 * MS)
    assert (moment.pts_ns, moment.jumped) == (0, True)
