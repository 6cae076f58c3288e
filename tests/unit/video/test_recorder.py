"""Only safe frames are written; what has its final name is whole, what is cut off plays to its last fragment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

import edge.video.picture
import edge.video.recorder
from edge.anonymize.gate import Anonymizer
from edge.errors import StorageError, UnavailableError, UnsafeFrameError
from edge.settings import MaskSettings, RecordSettings
from edge.storage import recover
from edge.types import Frame, Picture
from edge.video import encoders, segment
from edge.video.encoders import choose_encoder
from edge.video.gst import exists, load
from edge.video.recorder import Recorder
from tests.harness.frames import noise
from tests.unit.video.clips import H264, copy_clip, make_clip, read_all, simple_clip

SECOND = 1_000_000_000


def made_frame(index: int, picture: Picture | None = None, epoch: int = 0, step_ns: int = SECOND // 30) -> Frame:
    return Frame("test", epoch, index, picture or noise(64, 48, seed=index), 5 * SECOND + index * step_ns, step_ns)


def record(path: Path, frames: list[Frame], settings: RecordSettings | None = None) -> tuple[Path, ...]:
    recorder, anonymizer = Recorder(path, settings or RecordSettings(), live=False), Anonymizer(MaskSettings())
    for frame in frames:
        recorder.write(anonymizer.apply(frame, ()))
    return recorder.close()


def times_of(path: Path) -> tuple[list[Fraction], Fraction]:
    """Presentation times of a file in seconds, and its duration, as another library reads them."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert stream.duration is not None
        assert stream.time_base is not None
        times = [frame.pts * stream.time_base for frame in container.decode(stream)]
        return times, stream.duration * stream.time_base


def test_anything_but_a_safe_frame_is_refused(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "a.mp4", RecordSettings(), live=False)

    class Impostor:
        def take(self) -> Frame:
            return made_frame(0)

    for wrong in (made_frame(0), Impostor(), None, b"", noise(64, 48)):
        with pytest.raises(UnsafeFrameError):
            recorder.write(wrong)  # type: ignore[arg-type]
    assert recorder.close() == ()
    assert list(tmp_path.iterdir()) == []


def test_a_frame_is_given_back_once_it_is_written(tmp_path: Path) -> None:
    released: list[int] = []
    frames = [Frame("test", 0, i, noise(64, 48), i * SECOND, SECOND, release=lambda i=i: released.append(i))  # type: ignore[misc]
              for i in range(3)]  # fmt: skip
    record(tmp_path / "a.mp4", frames)
    assert released == [0, 1, 2]


@pytest.mark.parametrize("steps_ms", [[33] * 20, [10, 200, 33, 1, 900, 40], [2500] * 3, [8] * 50])
def test_times_stay_as_they_were(tmp_path: Path, steps_ms: list[int]) -> None:
    at, frames = 7_000, []
    for index, step in enumerate(steps_ms):
        frames.append(Frame("test", 0, index, noise(64, 48), at * 1_000_000, step * 1_000_000))
        at += step
    (path,) = record(tmp_path / "a.mp4", frames)
    times, duration = times_of(path)
    expected = [sum(steps_ms[:i]) for i in range(len(steps_ms))]
    assert [round(time_s * 1000) for time_s in times] == expected
    assert round(duration * 1000) == sum(steps_ms)       # the last frame's duration counts


def test_a_new_epoch_or_size_is_a_new_file(tmp_path: Path) -> None:
    frames = [made_frame(0), made_frame(1), made_frame(2, epoch=1), made_frame(3, noise(96, 48), epoch=1),
              made_frame(4, noise(96, 48), epoch=2)]  # fmt: skip
    paths = record(tmp_path / "a.mp4", frames)
    assert [path.name for path in paths] == ["a.mp4", "a_002.mp4", "a_003.mp4", "a_004.mp4"]
    assert [len(times_of(path)[0]) for path in paths] == [2, 1, 1, 1]
    assert sorted(each.name for each in tmp_path.iterdir()) == [path.name for path in paths]


def test_pixels_pass_unchanged_but_for_coding(tmp_path: Path) -> None:
    picture = noise(62, 46, pad=10)
    luma = picture.planes[0].samples
    luma[:] = np.linspace(30, 220, 62)[None, :].astype(np.uint8)
    picture.planes[1].samples[..., 0], picture.planes[1].samples[..., 1] = 90, 160
    (path,) = record(tmp_path / "a.mp4", [made_frame(0, picture)], RecordSettings(quality=1))
    with av.open(str(path)) as container:
        decoded = next(container.decode(video=0)).to_ndarray(format="yuv420p")
    assert np.abs(decoded[:46].astype(int) - luma).max() <= 4
    chroma = decoded[46:].reshape(2, 23, 31).astype(int)
    assert np.abs(chroma - np.array([90, 160])[:, None, None]).max() <= 3


@pytest.mark.parametrize("codec", ["h264", "h265"])
def test_codecs(tmp_path: Path, codec: str) -> None:
    settings = RecordSettings(codec=codec)  # type: ignore[arg-type]
    (path,) = record(tmp_path / "a.mp4", [made_frame(i) for i in range(40)], settings)
    with av.open(str(path)) as container:
        assert container.streams.video[0].codec_context.name == {"h264": "h264", "h265": "hevc"}[codec]
        packets = [packet for packet in container.demux(video=0) if packet.size]
    assert [packet.pts for packet in packets] == [packet.dts for packet in packets]      # no reordering


def test_key_frames_come_by_time(tmp_path: Path) -> None:
    (path,) = record(tmp_path / "a.mp4", [made_frame(i, step_ns=SECOND // 10) for i in range(65)])
    with av.open(str(path)) as container:
        keys = [float(packet.pts * packet.time_base) for packet in container.demux(video=0) if packet.is_keyframe]
    gaps = np.diff([*keys, 6.5])
    assert keys[0] == 0
    assert max(gaps) <= 2.01


def test_another_encoder_stands_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not exists("openh264enc"):
        pytest.skip("openh264enc is not installed")
    monkeypatch.setitem(encoders._ENCODERS, "h264", ("nvv4l2h264enc", "openh264enc"))
    choose_encoder.cache_clear()
    try:
        (path,) = record(tmp_path / "a.mp4", [made_frame(i) for i in range(30)])
        monkeypatch.setitem(encoders._ENCODERS, "h264", ("none",))
        choose_encoder.cache_clear()
        with pytest.raises(UnavailableError, match="install"):
            Recorder(tmp_path / "b.mp4", RecordSettings(), live=False)
    finally:
        choose_encoder.cache_clear()
    assert len(times_of(path)[0]) == 30


def test_nothing_is_overwritten_unless_asked(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    path.write_bytes(b"precious")
    with pytest.raises(StorageError, match="exists already"):
        Recorder(path, RecordSettings(), live=False)
    assert path.read_bytes() == b"precious"
    record(path, [made_frame(0)], RecordSettings(overwrite=True))
    assert len(times_of(path)[0]) == 1


def test_an_aborted_file_keeps_its_part_name(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "a.mp4", RecordSettings(fragment_s=0.2), live=False)
    anonymizer = Anonymizer(MaskSettings())
    for index in range(60):
        recorder.write(anonymizer.apply(made_frame(index), ()))
    time.sleep(0.5)
    recorder.abort()
    recorder.abort()
    assert [each.name for each in tmp_path.iterdir()] == ["a.mp4.part"]
    (found,) = recover(tmp_path)
    assert found.outcome == "playable"
    assert len(times_of(found.path)[0]) > 20


def test_source_tags_are_left_out_unless_asked(tmp_path: Path) -> None:
    tagged = make_clip(tmp_path / "tagged.mp4", "videotestsrc num-buffers=5 ! video/x-raw,width=64,height=48 ! "
                       f"{H264} ! taginject tags=title=holiday,comment=mine ! mp4mux")  # fmt: skip
    assert b"holiday" in tagged.read_bytes()
    copy_clip(tagged, tmp_path / "without.mp4")
    copy_clip(tagged, tmp_path / "with.mp4", RecordSettings(keep_metadata=True))
    assert b"holiday" not in (tmp_path / "without.mp4").read_bytes()
    assert b"holiday" in (tmp_path / "with.mp4").read_bytes()


@pytest.mark.parametrize(("audio", "mux", "codec", "notes"), [
    ("avenc_aac ! aacparse", "mp4mux", "aac", 0),
    ("avenc_aac ! aacparse", "mpegtsmux", "aac", 0),
    ("opusenc", "matroskamux", "opus", 0),
    ("vorbisenc", "matroskamux", "aac", 1),
    ("identity", "matroskamux", "aac", 1),
])  # fmt: skip
def test_audio_is_kept_in_step(tmp_path: Path, audio: str, mux: str, codec: str, notes: int) -> None:
    """A tick of the input is at the same moment of the output, and only there when it was asked for."""
    if not exists(audio.partition(" ")[0]):
        pytest.skip(f"{audio} is not installed")
    sound = ("audiotestsrc wave=ticks tick-interval=500000000 samplesperbuffer=1600 num-buffers=55 ! "
             f"audio/x-raw,rate=48000,channels=1 ! audioconvert ! {audio} ! queue ! m.")  # fmt: skip
    clip = make_clip(tmp_path / "clip", "videotestsrc pattern=blink num-buffers=60 ! video/x-raw,width=64,height=48,"
                     f"framerate=30/1 ! {H264} ! queue ! {mux} name=m {sound} m.")  # fmt: skip
    found, written = copy_clip(clip, tmp_path / "kept.mp4", RecordSettings(keep_audio=True))
    assert len(found) == notes
    for path, name in ((clip, None), (written[0], codec)):
        with av.open(str(path)) as container:
            stream, start_s = container.streams.audio[0], (container.start_time or 0) / av.time_base
            assert name is None or stream.codec_context.name.startswith(name)
            sounds = [(float(frame.pts * frame.time_base) - start_s, np.abs(1.0 * frame.to_ndarray()).max(axis=0))
                      for frame in container.decode(stream)]  # fmt: skip
        loud = [at_s + level.argmax() / 48000 for at_s, level in sounds if level.max() > 0.3]
        ticks = [moment for moment in loud if not any(0 < moment - other < 0.2 for other in loud)]
        if name is None:
            expected = ticks
        else:
            assert np.allclose(ticks[1:3], expected[1:3], atol=0.03)
    _, (silent,) = copy_clip(clip, tmp_path / "silent.mp4")
    with av.open(str(silent)) as container:
        assert not container.streams.audio


def test_a_killed_process_leaves_a_file_that_plays(tmp_path: Path) -> None:
    program = """
import sys, time
from pathlib import Path
from tests.unit.video.test_recorder import Anonymizer, MaskSettings, Recorder, RecordSettings, made_frame
recorder, anonymizer = Recorder(Path(sys.argv[1]), RecordSettings(), live=True), Anonymizer(MaskSettings())
for index in range(100000):
    recorder.write(anonymizer.apply(made_frame(index), ()))
    time.sleep(1 / 60)
    print(index, flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path / "a.mp4")], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        written = 0
        while written < 150:                             # 5 s of video
            written = int(writer.stdout.readline())
        os.kill(writer.pid, signal.SIGKILL)
    assert not (tmp_path / "a.mp4").exists()
    (found,) = recover(tmp_path)
    times, _ = times_of(found.path)
    assert len(times) >= written - 30 - 15               # one fragment, and what the encoder looks ahead


def test_every_frame_of_a_clip_arrives_with_a_delay_line(tmp_path: Path) -> None:
    clip = simple_clip(tmp_path / "clip.mp4", frames=60)
    _, (path,) = copy_clip(clip, tmp_path / "out.mp4", held=30)
    assert [pts for _, pts, _ in read_all(path)] == pytest.approx([pts for _, pts, _ in read_all(clip)], abs=20_000)


def test_a_full_disk_is_said_and_finished_segments_stay(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small tmpfs")
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)], check=True)
    try:
        recorder = Recorder(disk / "a.mp4", RecordSettings(quality=20, fragment_s=0.2), live=False)
        anonymizer = Anonymizer(MaskSettings())
        recorder.write(anonymizer.apply(made_frame(0), ()))
        with pytest.raises(StorageError, match="disk full") as caught:
            for index in range(1, 3000):
                recorder.write(anonymizer.apply(made_frame(index, noise(160, 120, seed=index), epoch=1), ()))
        recorder.abort()
        assert caught.value.exit_code == 74
        assert sorted(each.name for each in disk.iterdir()) == ["a.mp4", "a_002.mp4.part"]
        assert len(times_of(disk / "a.mp4")[0]) == 1
        (found,) = recover(disk)
        assert found.outcome == "playable"
        assert len(times_of(found.path)[0]) >= 1
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_memory_stays_flat(tmp_path: Path) -> None:
    """Mapping, wrapping and giving back 100 000 buffers."""
    from edge.video.format import PictureFormat
    from edge.video.picture import wrap_buffer

    gst = load().Gst
    format_ = PictureFormat(64, 48, Fraction(1))

    def churn(count: int) -> int:
        for _ in range(count):
            buffer = gst.Buffer.new_allocate(None, 64 * 48 * 3 // 2, None)
            picture, storage = wrap_buffer(buffer, format_, None, False)
            picture.planes[0].samples[0, 0] = 1
            storage.release()
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before = churn(10_000)
    assert churn(100_000) - before < 4 << 20


def test_frames_of_a_file_are_not_copied_on_their_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[object] = []
    for module, name in ((edge.video.picture, "_copied"), (edge.video.recorder, "_copy_of")):
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given, real=real: copied.append(given) or real(*given))
    copy_clip(simple_clip(tmp_path / "clip.mp4", frames=60), tmp_path / "out.mp4", held=5)
    assert len(copied) < 10                                   # only where a thread was interrupted as it let go
    copied.clear()
    record(tmp_path / "other.mp4", [made_frame(0)])           # a frame of another make has to be
    assert len(copied) == 1


def test_a_segment_that_cannot_be_built_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last step fails, when the pipeline runs already."""
    stopped: list[bool] = []
    stop = segment.Segment._stop

    def fail(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(segment, "_Syncer", fail)
    def noted(self: segment.Segment) -> None:
        stopped.append(True)
        stop(self)

    monkeypatch.setattr(segment.Segment, "_stop", noted)
    with pytest.raises(RuntimeError, match="new thread"):
        record(tmp_path / "out.mp4", [made_frame(0)])
    assert stopped
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["x264enc", "x265enc"])
def test_a_bit_rate_is_aimed_at(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not exists(name):
        pytest.skip(f"{name} is not installed")
    monkeypatch.setattr(edge.video.recorder, "choose_encoder", lambda codec: name)
    pictures = [made_frame(index, noise(320, 240, seed=index % 7)) for index in range(120)]     # 4 s
    codec = "h265" if "265" in name else "h264"
    sizes = []
    for kbps in (300, 1200):
        path = tmp_path / f"{kbps}.mp4"
        record(path, pictures, RecordSettings(codec=codec, bitrate_kbps=kbps))
        sizes.append(path.stat().st_size * 8 / 4 / 1000)
    assert 100 < sizes[0] < 900 and sizes[1] < 3000, sizes
    assert sizes[1] > 1.8 * sizes[0], sizes


def test_a_comment_is_written_into_the_file(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "a.mp4", RecordSettings(), live=False, comment="Faces were replaced")
    recorder.write(Anonymizer(MaskSettings()).apply(made_frame(0), ()))
    recorder.close()
    with av.open(str(tmp_path / "a.mp4")) as container:
        assert container.metadata["comment"] == "Faces were replaced"
