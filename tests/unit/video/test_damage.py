"""Damage lasts from a break to the next key frame, and anything doubtful counts as damaged."""

from __future__ import annotations

import pytest

from edge.video.damage import MAX_KEY_FRAMES, DamageTracker

KEY, DELTA, GAP, BAD = "key", "delta", "gap", "bad"


def judged(
    coded: list[tuple[int, str]], shown: list[int], slack: int = 0, corrupted: tuple[int, ...] = ()
) -> list[int]:
    tracker = DamageTracker()
    tracker.slack_ns = slack
    for pts, kind in coded:
        tracker.on_encoded(pts, kind == KEY, kind == GAP, kind == BAD)
    return [pts for pts in shown if tracker.judge(pts, pts in corrupted)]


@pytest.mark.parametrize(("coded", "damaged"), [
    ([(0, KEY), (1, DELTA), (2, DELTA), (3, KEY)], []),
    ([(0, DELTA), (1, DELTA), (2, KEY), (3, DELTA)], [0, 1]),               # starts in the middle
    ([(0, KEY), (1, DELTA), (2, GAP), (3, DELTA), (4, KEY), (5, DELTA)], [2, 3]),
    ([(0, KEY), (1, BAD), (2, DELTA), (3, KEY)], [1, 2]),
    ([(0, KEY), (1, DELTA), (2, GAP), (3, DELTA)], [2, 3]),                 # no key frame any more
    ([(0, KEY), (1, GAP), (4, KEY), (3, DELTA), (5, DELTA)], [1, 3]),       # 3 leads the key frame: refers to before it
])  # fmt: skip
def test_damage_lasts_to_the_next_key_frame(coded: list[tuple[int, str]], damaged: list[int]) -> None:
    assert judged(coded, sorted(pts for pts, _ in coded)) == damaged


def test_pictures_that_are_coded_later_but_shown_earlier_are_damaged_too() -> None:
    assert judged([(0, KEY), (4, GAP), (2, DELTA), (3, DELTA)], [0, 2, 3, 4], slack=2) == [2, 3, 4]


def test_the_decoders_own_flag_counts() -> None:
    coded = [(0, KEY), (1, DELTA), (2, DELTA), (3, KEY), (4, DELTA)]
    assert judged(coded, [0, 1, 2, 3, 4], corrupted=(1,)) == [1, 2]


def test_a_complaint_covers_all_that_the_decoder_holds() -> None:
    tracker = DamageTracker()
    for pts in range(6):
        tracker.on_encoded(pts, pts in (0, 3), False, False)
    assert not tracker.judge(0, False)
    tracker.on_decoder_complaint()                 # about any of 1 to 5: key frame 3 may be the bad one
    tracker.on_encoded(6, True, False, False)
    assert [tracker.judge(pts, False) for pts in (1, 2, 3, 4, 5, 6)] == [True] * 5 + [False]


def test_pictures_without_times_do_not_hide_a_break() -> None:
    tracker = DamageTracker()
    tracker.on_encoded(None, False, False, False)
    assert tracker.judge(0, False)


def test_a_long_stream_of_key_frames_needs_no_more_memory() -> None:
    tracker = DamageTracker()
    for pts in range(3 * MAX_KEY_FRAMES):
        tracker.on_encoded(pts, True, False, False)
        assert not tracker.judge(pts, False)
    assert len(tracker._keys) <= 2


@pytest.mark.parametrize("kinds", [(BAD,), (GAP, DELTA), (KEY, BAD)])
def test_breaks_do_not_pile_up(kinds: tuple[str, ...]) -> None:
    """A camera that sends no good key frame, with a decoder that gives nothing, for hours."""
    tracker = DamageTracker()
    for pts in range(5000):
        kind = kinds[pts % len(kinds)]
        tracker.on_encoded(pts, kind == KEY, kind == GAP, kind == BAD)
        tracker.on_decoder_complaint()
    assert len(tracker._breaks) <= MAX_KEY_FRAMES
    assert tracker.judge(4999, False)


def test_a_break_behind_a_key_frame_does_not_reach_back() -> None:
    tracker = DamageTracker()
    for pts in range(7):
        tracker.on_encoded(pts, pts in (0, 3), False, False)
    assert tracker.judge(1, True)
    tracker.on_encoded(7, False, False, True)
    assert [tracker.judge(pts, False) for pts in (2, 3, 4, 7)] == [True, False, False, True]
