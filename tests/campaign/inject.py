"""How each kind of fault is made: every function does it to the world, for the episode's time, and undoes it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable

from tests.campaign.plan import Episode
from tests.campaign.world import World

Injector = Callable[[World, Episode], int]
# How the faulty inference process calls what the plan calls detector_...
_DETECTOR = {"detector_raises": "raise", "detector_nan": "nan_boxes", "detector_wrong_shape": "wrong_shape",
             "detector_late": "slow", "detector_crashes": "crash", "detector_hangs": "hang"}
LATE_S = 1.5                # more than a camera waits
HANG_NOTICED_S = 30.0


def inject(world: World, episode: Episode) -> int:
    """Do it; how many faults that were (1 for what happens once). 0 when there was nothing to do it to."""
    kind = episode.kind
    if kind in _DETECTOR:
        return _detector(world, episode)
    return _INJECTORS[kind](world, episode)


def _detector(world: World, episode: Episode) -> int:
    before = _injected(world)
    kind = _DETECTOR[episode.kind]
    once = kind in ("crash", "hang")
    fault = {"kind": kind, "probability": 1.0 if once else episode.rate, "seconds": LATE_S}
    _write(world.faults_file, {"seed": episode.seed, "faults": [fault]})
    if once:
        deadline_s = time.monotonic() + HANG_NOTICED_S
        while _injected(world) == before and time.monotonic() < deadline_s:
            time.sleep(0.01)
    else:
        time.sleep(episode.seconds)
    _write(world.faults_file, {"seed": 0, "faults": []})
    if kind == "hang":
        _wait_for_new(world, "inference", HANG_NOTICED_S)
    return _injected(world) - before


def _injected(world: World) -> int:
    """Faults that inference processes noted so far: one byte each."""
    try:
        return world.faults_file.with_suffix(".count").stat().st_size
    except OSError:
        return 0


def _wait_for_new(world: World, name: str, limit_s: float) -> None:
    old, deadline_s = world.child(name), time.monotonic() + limit_s
    while world.child(name) == old and time.monotonic() < deadline_s:
        time.sleep(0.2)


def _stream(world: World, episode: Episode) -> int:
    proxy = world.proxies[episode.camera]
    before = proxy.hits
    mode = episode.kind.removeprefix("stream_")
    proxy.set(mode, min(episode.rate, 0.3))  # type: ignore[arg-type]
    time.sleep(episode.seconds)
    proxy.set("none")
    return proxy.hits - before


def _strike(world: World, episode: Episode) -> int:
    proxy = world.proxies[episode.camera]
    before = proxy.hits
    proxy.strike(episode.kind.removeprefix("stream_"))  # type: ignore[arg-type]
    return proxy.hits - before


def _server_dies(world: World, episode: Episode) -> int:
    server = world.servers[episode.camera]
    server.stop()
    time.sleep(episode.seconds)
    server.start()
    return 1


def _server_freezes(world: World, episode: Episode) -> int:
    server = world.servers[episode.camera]
    server.freeze()
    time.sleep(episode.seconds)
    server.thaw()
    return 1


def _signal(number: signal.Signals) -> Injector:
    def send(world: World, episode: Episode) -> int:
        target = episode.kind.partition("_")[2]
        child = world.child(world.cameras[episode.camera] if target == "camera" else target)
        if child is None:
            return 0
        with contextlib.suppress(ProcessLookupError):
            os.kill(child.pid, number)
            if number == signal.SIGSTOP:
                _wait_for_new(world, child.name, 60.0)
            return 1
        return 0

    return send


def _on_disk(do: Callable[[World, Episode], None]) -> Injector:
    def run(world: World, episode: Episode) -> int:
        if not world.disk.real:
            return 0
        do(world, episode)
        time.sleep(episode.seconds)
        world.disk.heal()
        return 1

    return run


def _clock(step_s: float) -> Injector:
    def step(world: World, _: Episode) -> int:
        with contextlib.suppress(OSError, ValueError):
            before = json.loads(world.clock_file.read_text())["offset_s"]
            _write(world.clock_file, {"offset_s": before + step_s})
            return 1
        _write(world.clock_file, {"offset_s": step_s})
        return 1

    return step


def _reload(world: World, episode: Episode) -> int:
    if episode.kind == "reload_broken":
        world.write_config(broken=True)
    elif episode.kind == "reload_changed":
        world.write_config(changed_camera=episode.camera)
    world.reload()
    time.sleep(0.5)
    if episode.kind == "reload_broken":
        world.write_config()
    return 1


def _terminate(world: World, _: Episode) -> int:
    world.terminate()
    world.start()
    return 1


def _kill_supervisor(world: World, _: Episode) -> int:
    left = world.kill()
    if left:
        raise AssertionError(f"{len(left)} processes outlive the supervisor")
    world.start()
    return 1


def _write(path, values) -> None:  # type: ignore[no-untyped-def]
    part = path.with_suffix(".new")
    part.write_text(json.dumps(values))
    part.replace(path)


_INJECTORS: dict[str, Injector] = {
    "stream_corrupt": _stream,
    "stream_drop": _stream,
    "stream_stall": _stream,
    "stream_garbage": _strike,
    "stream_reset": _strike,
    "stream_close": _strike,
    "server_dies": _server_dies,
    "server_freezes": _server_freezes,
    "kill_camera": _signal(signal.SIGKILL),
    "stop_camera": _signal(signal.SIGSTOP),
    "kill_inference": _signal(signal.SIGKILL),
    "stop_inference": _signal(signal.SIGSTOP),
    "kill_keeper": _signal(signal.SIGKILL),
    "disk_full": _on_disk(lambda world, _: world.disk.fill()),
    "disk_read_only": _on_disk(lambda world, _: world.disk.make_read_only()),
    "disk_missing": _on_disk(lambda world, _: world.disk.hide()),
    "disk_hangs": _on_disk(lambda world, episode: world.disk.freeze(episode.seconds)),
    "clock_forward": _clock(3600.0),
    "clock_back": _clock(-1800.0),
    "reload_same": _reload,
    "reload_changed": _reload,
    "reload_broken": _reload,
    "terminate": _terminate,
    "kill_supervisor": _kill_supervisor,
}
