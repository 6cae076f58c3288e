"""What a camera costs the daemon, how late its frames are, and how many of them this machine carries.

    python -m tests.bench.cameras [--seconds 30] [--most 8] [--only cost|capacity|record] [--minutes 10]

Real RTSP cameras on this machine show the sample at 15 frames a second; their server needs a few per cent of one
processor. `cost`: processor time of all processes of the daemon for one camera, beside that of the same pipeline
without a detector. `capacity`: one camera more at a time, until frames are hidden whole or dropped; what was written
is then looked at for faces. `record`: four cameras (one H.265, one with a password) for `--minutes`, then every frame
is looked at, gaps are compared with sidecars, and durations with the clock.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from edge.reports import ServiceStatus
from tests.bench.measure import process_tree
from tests.bench.recordings import look_at
from tests.harness import sample
from tests.harness.campaign.oracle import Oracle
from tests.harness.default_model import resolve_default_model
from tests.harness.rtspd import RtspServer
from tests.harness.service import Service

SIZES = ((640, 360), (1920, 1080))
FRAME_RATE = 15
SETTLE_S = 8.0              # until connections, tracks and caches are as they will be
LATE_SHARE = 0.01           # of frames hidden whole or dropped, from which on cameras are too many
PASSWORD = "front/door:1"
CONFIG = """
service: {{runtime_dir: {folder}/run, metrics_port: null}}
defaults:
  detect: {{model: {model}, backend: onnxruntime}}
  recording: {{directory: {folder}/recordings, segment: 60s}}
  retention: {{disk_floor: 50M}}
cameras:
{cameras}
"""


@dataclass(frozen=True)
class Camera:
    """more: further lines of YAML for its source."""

    name: str
    url: str
    more: str = ""

    def text(self) -> str:
        """In the configuration."""
        return f"  {self.name}: {{source: {{rtsp: {{url: '{self.url}'{self.more}}}}}}}"


@contextmanager
def recording(folder: Path, cameras: Sequence[Camera]) -> Iterator[Service]:
    """The daemon, once all of them record; asked to end afterwards."""
    (folder / "recordings").mkdir(parents=True)
    lines = "\n".join(camera.text() for camera in cameras)
    (folder / "edge.yaml").write_text(CONFIG.format(folder=folder, model=resolve_default_model().path, cameras=lines))
    command = [sys.executable, "-m", "edge.cli.daemon", "--config", str(folder / "edge.yaml")]
    with Service(command, folder / "run") as service:
        service.wait(lambda status: sum(each.frames_out > 0 for each in status.cameras) == len(cameras), 60)
        yield service
        code = service.end(signal.SIGTERM, 30)
        assert code == 0, service.log


def clip(folder: Path, width_px: int, height_px: int, encoder: str = "x264enc", parser: str = "h264parse") -> Path:
    """The sample in this size at 15 frames a second, as cameras send it."""
    import gi

    gi.require_version("Gst", "1.0")
    from gi.repository import Gst

    Gst.init(None)
    path = folder / f"{encoder}-{height_px}.mp4"
    options = "bframes=0 bitrate=4000 speed-preset=veryfast" if encoder == "x264enc" else "speed-preset=veryfast"
    pipeline = Gst.parse_launch(
        f"filesrc location={sample.ensure()} ! decodebin ! videorate ! videoconvert ! videoscale ! "
        f"video/x-raw,format=I420,width={width_px},height={height_px},framerate={FRAME_RATE}/1 ! "
        f"{encoder} key-int-max={FRAME_RATE} {options} ! {parser} ! mp4mux ! filesink location={path}")
    pipeline.set_state(Gst.State.PLAYING)
    wanted = Gst.MessageType.EOS | Gst.MessageType.ERROR
    message = pipeline.get_bus().timed_pop_filtered(300 * Gst.SECOND, wanted)
    pipeline.set_state(Gst.State.NULL)
    assert message is not None and message.type == Gst.MessageType.EOS, path
    return path


def processor_s(pid: int) -> float:
    """User and system time so far of a process and its descendants that are alive."""
    ticks = 0
    for each in process_tree(pid):
        fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def measured(
    service: Service, seconds: float, progress: Progress, title: str
) -> tuple[float, list[float], ServiceStatus, ServiceStatus]:
    """Processor seconds per second, delays in seconds, and the status before and after."""
    time.sleep(SETTLE_S)
    task = progress.add_task(title, total=seconds)
    before, used_s, started_s = service.status(), processor_s(service.pid), time.monotonic()
    delays = []
    while (elapsed_s := time.monotonic() - started_s) < seconds:
        time.sleep(0.5)
        status = service.status()
        assert status is not None
        delays += [camera.delay_s for camera in status.cameras]
        progress.update(task, completed=elapsed_s)
    used_s = processor_s(service.pid) - used_s
    progress.remove_task(task)
    assert before is not None and status is not None
    return used_s / (time.monotonic() - started_s), delays, before, status


def cost(folder: Path, seconds: float, progress: Progress) -> Table:
    """One camera of each size, and the floor."""
    table = Table("one camera, 15 fps", "% of a CPU", "ms per frame", "floor, ms", "ratio", "delay p50 s", "p95 s",
                  title="CPU time of the whole daemon; floor: same pipeline, no detector; delay beyond look-ahead")
    for width_px, height_px in SIZES:
        place = folder / f"cost-{height_px}"
        place.mkdir()
        with RtspServer({"clip": clip(place, width_px, height_px)}) as server:
            with recording(place / "daemon", [Camera("one", server.url("clip"))]) as service:
                load, delays, _, _ = measured(service, seconds, progress, f"{width_px}x{height_px}")
            floor_s = _floor(server.url("clip"), place / "floor.mp4", seconds)
        beyond = sorted(delay - 0.5 for delay in delays)
        table.add_row(f"{width_px}x{height_px}", f"{load * 100:.0f}", f"{load / FRAME_RATE * 1e3:.1f}",
                      f"{floor_s * 1e3:.1f}", f"{load / FRAME_RATE / floor_s:.2f}", f"{statistics.median(beyond):.3f}",
                      f"{beyond[int(0.95 * (len(beyond) - 1))]:.3f}")
    return table


def _floor(url: str, output: Path, seconds: float) -> float:
    """Processor seconds per frame of decoding and encoding alone, without start-up."""
    times = []
    for length_s in (5, 5 + seconds):
        before = os.times()
        subprocess.run([sys.executable, "-m", "tests.bench.passthrough", url, str(output), str(length_s)], check=True)
        after = os.times()
        times.append(after.children_user + after.children_system - before.children_user - before.children_system)
        output.unlink()
    return (times[1] - times[0]) / (seconds * FRAME_RATE)


def capacity(folder: Path, seconds: float, most: int, progress: Progress) -> Table:
    """More and more cameras, two steps beyond what is carried."""
    table = Table("640x360, 15 fps", "% of a processor", "hidden whole", "dropped", "reasons", "faces in frames",
                  title="cameras at once")
    beyond, oracle = 0, Oracle(sample.ensure())
    with RtspServer({"clip": clip(folder, *SIZES[0])}) as server:
        for number in range(1, most + 1):
            place = folder / f"capacity-{number}"
            cameras = [Camera(f"c{index}", server.url("clip")) for index in range(number)]
            with recording(place, cameras) as service:
                load, _, before, after = measured(service, seconds, progress, f"{number} cameras")
            whole, dropped, reasons = _lost(before, after)
            frames = number * seconds * FRAME_RATE
            lost = whole + dropped
            looks = [look_at(place / "recordings", each.name, oracle) for each in cameras] if lost else []
            faces, looked = sum(each.faces for each in looks), sum(each.frames for each in looks)
            table.add_row(str(number), f"{load * 100:.0f}", f"{whole / frames:.1%}", f"{dropped / frames:.1%}", reasons,
                          f"{faces} of {looked}" if looked else "")
            beyond += (whole + dropped) / frames > LATE_SHARE
            if beyond == 2:
                break
    return table


def _lost(before: ServiceStatus, after: ServiceStatus) -> tuple[int, int, str]:
    counts: dict[str, int] = {}
    totals = [0, 0]
    for old, new in zip(before.cameras, after.cameras, strict=True):
        for place, field in enumerate(("whole_frames", "dropped")):
            for reason, count in getattr(new, field).items():
                more = count - getattr(old, field).get(reason, 0)
                totals[place] += more
                if more:
                    counts[reason] = counts.get(reason, 0) + more
    return totals[0], totals[1], ", ".join(f"{reason} {count}" for reason, count in sorted(counts.items()))


def record(folder: Path, minutes: float, progress: Progress) -> tuple[Table, bool]:
    """Four cameras for as long; whether all is well."""
    (folder / "password").write_text(PASSWORD)
    (folder / "password").chmod(0o600)
    plain, other = clip(folder, *SIZES[0]), clip(folder, *SIZES[0], "x265enc", "h265parse")
    with ExitStack() as stack:
        open_server = stack.enter_context(RtspServer({"plain": plain, "other": other}))
        guarded = stack.enter_context(RtspServer({"clip": plain}, user="viewer", password=PASSWORD))
        secret = f", user: viewer, password: {{file: {folder}/password}}"
        cameras = [Camera("h264", open_server.url("plain")), Camera("h264-too", open_server.url("plain")),
                   Camera("h265", open_server.url("other")), Camera("guarded", guarded.url("clip"), secret)]
        with recording(folder / "record", cameras) as service:
            task = progress.add_task("recording four cameras", total=minutes * 60)
            for second in range(int(minutes * 60)):
                time.sleep(1)
                progress.update(task, completed=second)
            status = service.status()
        progress.remove_task(task)
    assert status is not None
    table = Table("camera", "frames", "hidden whole", "dropped", "reconnects", "segments", "recorded s", "gaps s",
                  "unexplained s", "frames with a face", "wrong", title=f"four cameras, {minutes:g} minutes")
    good, oracle = True, Oracle(sample.ensure())
    for camera in status.cameras:
        found = look_at(folder / "record" / "recordings", camera.camera, oracle)
        whole, dropped = sum(camera.whole_frames.values()), sum(camera.dropped.values())
        table.add_row(camera.camera, str(found.frames), str(whole), str(dropped), str(camera.reconnects),
                      str(found.segments), f"{found.recorded_s:.1f}", f"{found.gaps_s:.1f}",
                      f"{found.unexplained_s:.2f}", str(found.faces), "; ".join(found.wrong))
        good = good and found.faces == 0 and abs(found.unexplained_s) < 1.0 and not found.wrong
    return table, good


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--most", type=int, default=8)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--only", choices=("cost", "capacity", "record"))
    parser.add_argument("--keep", type=Path, help="work in this folder and leave it")
    arguments = parser.parse_args()
    console, good = Console(width=150), True
    bar = Progress(console=Console(stderr=True))
    with tempfile.TemporaryDirectory(prefix="edge-cameras-") as name, bar as progress:
        folder = arguments.keep or Path(name)
        if arguments.only in (None, "cost"):
            console.print(cost(folder, arguments.seconds, progress))
        if arguments.only in (None, "capacity"):
            console.print(capacity(folder, arguments.seconds, arguments.most, progress))
        if arguments.only in (None, "record"):
            table, good = record(folder, arguments.minutes, progress)
            console.print(table)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
