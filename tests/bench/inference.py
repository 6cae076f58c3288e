"""What it costs to run the network in another process: ``python -m tests.bench.inference [--model M] [--size WxH]``.

* overhead of one request, against the same network in this process, in turns;
* requests per second of 1, 4 and 8 cameras, processes with 2 threads each, against the same number of threads on the
  bare runtime in one process as the server has, in turns;
* processor time per request, of server and cameras together, against that of the bare runtime.

Needs neither GStreamer nor OpenCV, so that it runs wherever there is a GPU.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from edge.inference.client import RemoteNetwork
from edge.inference.local_network import LocalNetwork, open_network
from edge.settings import DetectSettings
from edge.types import UInt8
from tests.harness.inference_server import InferenceServer

CAMERAS = (1, 4, 8)
THREADS = 2             # of a camera
MIN_SCORE = 0.5
_TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="auto")
    parser.add_argument("--backend", default="auto", choices=("auto", "onnxruntime", "tensorrt"))
    parser.add_argument("--engine-dir", type=Path)
    parser.add_argument("--size", default="640x384", help="of the detector input")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each turn")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--camera", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    settings = DetectSettings(model=arguments.model, backend=arguments.backend, engine_dir=arguments.engine_dir)
    width_px, height_px = map(int, arguments.size.split("x"))
    picture: UInt8 = np.random.default_rng(0).integers(0, 256, (1, height_px, width_px, 3), np.uint8)
    if arguments.camera:
        camera(arguments.camera, settings, picture)
        return
    with tempfile.TemporaryDirectory() as directory, InferenceServer(Path(directory), (settings,)) as server:
        local = open_network(settings, None, print)
        print(f"{local.model.title} on {local.describe()}, {arguments.size}, {os.cpu_count()} processors")
        overhead(server, settings, local, picture)
        for cameras in CAMERAS:
            throughput(server, local, picture, cameras, arguments.seconds, arguments.turns)
        server.listen()
        print("batches:", server.report.batches)
        local.close()


def overhead(server: InferenceServer, settings: DetectSettings, local: LocalNetwork, picture: UInt8) -> None:
    """One request at a time; a run of the network is timed on the spot, then one through the other process."""
    remote = RemoteNetwork(server.path, settings, "bench", 5.0)
    assert remote.connect(60)
    times: dict[str, list[float]] = {"local": [], "remote": []}
    for turn in range(220):
        for name, network in (("local", local), ("remote", remote)):
            start_s = time.perf_counter()
            network.find(picture, MIN_SCORE)
            if turn >= 20:
                times[name].append(1000 * (time.perf_counter() - start_s))
    pairs = [there - here for here, there in zip(times["local"], times["remote"], strict=True)]
    for name, taken in times.items():
        print(f"{name:7} p50 {statistics.median(taken):7.3f}  p95 {np.percentile(taken, 95):7.3f} ms")
    print(f"differences of neighbours: p50 {statistics.median(pairs):.3f}  p95 {np.percentile(pairs, 95):.3f} ms")
    remote.close()


def throughput(
    server: InferenceServer, local: LocalNetwork, picture: UInt8, cameras: int, seconds: float, turns: int
) -> None:
    """The bare runtime and the cameras in turns, the medians of their rates."""
    started = [Camera(server) for _ in range(cameras)]
    bare, through, bare_ms, through_ms = [], [], [], []
    for _ in range(turns):
        rate, cpu_ms = bare_rate(local, picture, min(cameras * THREADS, local.parallel_runs), seconds)
        bare.append(rate)
        bare_ms.append(cpu_ms)
        rate, cpu_ms = camera_rate(server, started, seconds)
        through.append(rate)
        through_ms.append(cpu_ms)
    for each in started:
        each.close()
    print(
        f"{cameras} cameras: {statistics.median(through):7.1f} runs/s of {statistics.median(bare):7.1f} bare: "
        f"{100 * statistics.median(t / b for t, b in zip(through, bare, strict=True)):.1f} %; "
        f"CPU {statistics.median(through_ms):.2f} ms a run, bare {statistics.median(bare_ms):.2f} ms"
    )


def bare_rate(local: LocalNetwork, picture: UInt8, threads: int, seconds: float) -> tuple[float, float]:
    """Runs per second, and CPU milliseconds of each."""
    cpu_s = time.process_time()
    count, taken_s = keep_busy(lambda: local.find(picture, MIN_SCORE), threads, seconds)
    return count / taken_s, 1000 * (time.process_time() - cpu_s) / count


def camera_rate(server: InferenceServer, cameras: list[Camera], seconds: float) -> tuple[float, float]:
    """The same, through the server."""
    pids = [server.pid, *(camera.pid for camera in cameras)]
    cpu_s = sum(map(used_s, pids))
    for camera in cameras:
        camera.go(seconds)
    results = [camera.result() for camera in cameras]
    count = sum(each for each, _ in results)
    cpu_s = sum(map(used_s, pids)) - cpu_s
    server.listen()
    return sum(each / taken_s for each, taken_s in results), 1000 * cpu_s / count


def keep_busy(work: Callable[[], object], threads: int, seconds: float) -> tuple[int, float]:
    """How often it was done in all, and in which time."""
    counts = [0] * threads
    start_s = time.perf_counter()

    def loop(number: int) -> None:
        while time.perf_counter() - start_s < seconds:
            work()
            counts[number] += 1

    running = [threading.Thread(target=loop, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return sum(counts), time.perf_counter() - start_s


def used_s(pid: int) -> float:
    """CPU time of a process, proc(5)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


class Camera:
    """A process that asks as fast as it is answered."""

    def __init__(self, server: InferenceServer) -> None:
        command = [sys.executable, "-m", "tests.bench.inference", *sys.argv[1:], "--camera", str(server.path)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._said()

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def go(self, seconds: float) -> None:
        """Start a turn."""
        assert self._process.stdin is not None
        print(seconds, file=self._process.stdin, flush=True)

    def result(self) -> tuple[int, float]:
        """Requests answered in the turn, and seconds."""
        count, taken_s = self._said().split()
        return int(count), float(taken_s)

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _said(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


def camera(path: Path, settings: DetectSettings, picture: UInt8) -> None:
    """What a camera process does: a turn for each line that it reads."""
    network = RemoteNetwork(path, settings, f"bench-{os.getpid()}", 5.0)
    assert network.connect(60)
    print("ready", flush=True)
    for line in sys.stdin:
        print(*keep_busy(lambda: network.find(picture, MIN_SCORE), THREADS, float(line)), flush=True)
    network.close()


if __name__ == "__main__":
    main()
