"""Constants of tracking and look-ahead that users do not set, each with its unit and its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tuning:
    """How faces move and how detectors err, as numbers.

    A "size" is the geometric mean of a box's width and height. Times are rules of a typical camera rate; each
    has a minimum in frames beside it, so that 1 fps and 120 fps work alike.
    """

    # -- association -------------------------------------------------------------------------------------------
    gate_sizes: float = 0.6
    """Distance between prediction and detection that is always accepted."""
    gate_growth_sizes_per_s: float = 8.0
    """Growth of the gate with the time since the track was last seen, for a track with a known velocity."""
    first_gate_growth_sizes_per_s: float = 36.0
    """The same for a track seen once, whose velocity is unknown: 1.2 face widths per frame at 30 fps."""
    gate_limit_sizes: float = 2.0
    """The gate never grows beyond this."""
    weak_gate_share: float = 0.6
    """The gate of weak detections, as a share of the gate of strong ones."""
    weak_gap_s: float = 0.2
    """Weak detections continue a track, forwards or backwards, over gaps up to this, or as long as its mask holds."""
    lasting_support: float = 0.5
    """A track with this support may be found again after a longer gap: until its hold and the look-ahead are over."""
    overlap_gate_iou: float = 0.3
    """Boxes that overlap this much belong together whatever their sizes."""
    size_ratio_limit: float = 1.8
    """Largest ratio of sizes within one association."""
    same_place_iou: float = 0.5
    """Overlap of boxes before and after a cut from which the cut is taken for a flash of light."""
    duplicate_iou: float = 0.5
    """A detection that overlaps one already used this much is the same face seen twice."""

    # -- motion ------------------------------------------------------------------------------------------------
    velocity_window_s: float = 0.15
    """Velocity is measured over this time: long enough to average the jitter of boxes, short enough to turn."""
    velocity_decay_s: float = 0.35
    """Time constant with which a predicted motion comes to rest."""
    travel_limit_sizes: float = 5.0
    """Predicted motion goes no further than this."""
    smooth_s: float = 0.1
    """Half width of the triangular window in which boxes are averaged."""

    # -- growth of the mask where nothing was detected -----------------------------------------------------------
    drift_sizes_per_s: float = 0.4
    """First-order growth on each side: error of the measured velocity."""
    acceleration_sizes_per_s2: float = 8.0
    """Second-order growth on each side: heads that start, stop or turn."""
    margin_limit_sizes: float = 0.4
    """Growth on each side ends here."""

    # -- how long ----------------------------------------------------------------------------------------------
    hold_frames: int = 2
    """A mask outlives its last detection by at least this many frames."""
    lead_frames: int = 2
    """A mask precedes its first detection by at least this many frames, as far as the look-ahead reaches."""
    lead_share: float = 0.8
    """Lead as a share of the look-ahead; the rest is where a lone detection gets the chance to be confirmed."""
    brief_s: float = 0.07
    """Hold and lead of a track with next to no support; with growing support they grow to the full ones."""
    certain_score_share: float = 0.7
    """A score this far from the threshold to 1 is full support at once; false detections hardly reach it."""
    certain_count: float = 5.0
    """Detections below that support a track by their share of it, and in full when they add up to this."""
    weak_support: float = 0.1
    """Share of a detection below or at the threshold."""
    border_hold_s: float = 0.1
    """Hold of a track whose predicted box has left the picture."""
    border_visible_share: float = 0.15
    """Share of the predicted box inside the picture below which it has left."""
    landmark_hold_s: float = 0.2
    """Landmarks are carried over at most this long without a detection."""
