"""The segment that frames go into now, its ledger, and when the next one has to begin."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from edge.anonymize.mark import comment_on
from edge.cameras import CameraSettings
from edge.recordings.clock import Clock
from edge.recordings.ledger import Head, Ledger, Provenance
from edge.recordings.names import segment_name
from edge.recordings.queue import FrameItem
from edge.recordings.root import Root
from edge.types import Frame
from edge.video.encoders import LIVE_LOOK_AHEAD_FRAMES, choose_encoder
from edge.video.format import PictureFormat
from edge.video.recorder import buffer_of_frame
from edge.video.segment import Segment, SegmentSpec

# A jump in the source's time makes a new segment, so that no frame seems to last for minutes.
MAX_JUMP_S, MAX_STEP_BACK_S = 2.0, 0.5


@dataclass(slots=True)
class OpenSegment:
    """An open file and what is known about it. draft_is_old: more is known than its draft says."""

    file: Segment
    final: Path
    ledger: Ledger
    epoch: int
    format: PictureFormat
    start_pts_ns: int
    end_pts_ns: int
    draft_is_old: bool = True

    @staticmethod
    def begin(camera: CameraSettings, root: Root, clock: Clock, provenance: Provenance, frame: Frame,
              format_: PictureFormat, rate: Fraction | None) -> OpenSegment:  # fmt: skip
        """Make the file for a segment that begins with `frame`. Raises StorageError, or EdgeError for the encoder."""
        root.check()
        record, start_utc_s = camera.run.record, clock.utc_s()
        encoder = choose_encoder(record.codec)
        final = segment_name(root.path, camera.name, start_utc_s)
        root.make_folder(final.parent)
        file = Segment(SegmentSpec(final, record, encoder, format_, rate, frame.pts_ns, frame.pts_ns,
                                   comment=comment_on(camera.run.mask), look_ahead_frames=LIVE_LOOK_AHEAD_FRAMES))
        head = Head(camera.name, start_utc_s, clock.is_synchronised(), format_.stored_width_px,
                    format_.stored_height_px, record.codec, encoder, camera.config_sha256,
                    comment_on(camera.run.mask))
        return OpenSegment(file, final, Ledger(head, provenance), frame.epoch, format_, frame.pts_ns, frame.pts_ns)

    def silent_s(self, frame: Frame) -> float:
        """From the end of the last frame to the start of this one, by the source's time."""
        return (frame.pts_ns - self.end_pts_ns) / 1e9

    def length_s(self, frame: Frame) -> float:
        """From the start of the segment to this frame."""
        return (frame.pts_ns - self.start_pts_ns) / 1e9

    def fits(self, frame: Frame, format_: PictureFormat, provenance: Provenance) -> bool:
        """Whether this frame can go into the same file: same stream, same format, same model, going on in time."""
        if frame.epoch != self.epoch or format_ != self.format:
            return False
        known = self.ledger.provenance.model_sha256
        if known and known != provenance.model_sha256:
            return False
        duration_s, silent_s = frame.duration_ns / 1e9, self.silent_s(frame)
        return self.length_s(frame) >= 0 and (
            -max(MAX_STEP_BACK_S, duration_s) <= silent_s <= max(MAX_JUMP_S, 3 * duration_s)
        )

    def write(self, frame: Frame, item: FrameItem, provenance: Provenance) -> None:
        """Append a frame. Raises StorageError, or EdgeError for the encoder."""
        self.file.write(buffer_of_frame(frame), frame.pts_ns, frame.duration_ns)
        self.end_pts_ns = frame.pts_ns + frame.duration_ns
        ledger, safe = self.ledger, item.safe
        ledger.duration_s = (self.end_pts_ns - self.start_pts_ns) / 1e9
        ledger.provenance = provenance
        ledger.swapped += len(safe.swapped)
        ledger.count(item.faces, safe.masked_share, item.tracks, safe.reason if safe.redaction == "whole" else None)
