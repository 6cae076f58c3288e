"""The status as tables for people. All text in it may come from a hostile stream, and is escaped."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from edge.recordings.clock import utc_of
from edge.recordings.names import split_name, start_of
from edge.reports import BoardReport, CameraReport, InferenceReport, ProcessReport, RootReport, ServiceStatus
from edge.status.text import by_reason, duration, number, size
from edge.text import one_line

MIDDLE, WIDE, WIDEST = 78, 96, 120      # columns of a terminal from which more is shown
PIPE_WIDTH = 160
FACT_WIDTH = 24
# Words of all states; what is not here is wrong.
_GOOD = ("running", "recording", "ready", "ok", "watching", "off_schedule")
_COMING = ("starting", "connecting", "loading", "recovering", "stopping", "degraded")


def make_console() -> Console:
    """For stdout: colours and width of the terminal, or none and enough width for a pipe."""
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = PIPE_WIDTH
    return console


def view(status: ServiceStatus, width: int) -> RenderableType:
    """Everything, in at most `width` columns where the names allow it."""
    parts: list[RenderableType] = [_headline(status)]
    if status.cameras:
        parts += [Text(), _cameras(status.cameras, width), *_losses(status, width)]
    facts = _facts()
    if status.inference is not None:
        facts.add_row("inference", _inference(status.inference))
    facts.add_row("processes", _processes(status.processes))
    if status.board is not None and (text := _board(status.board)):
        facts.add_row("board", text)
    parts += [Text(), facts]
    if status.keeper is not None and status.keeper.roots:
        parts += [Text(), _disks(status.keeper.roots, width)]
    if status.problems:
        problems = _facts()
        for problem in status.problems:
            problems.add_row(Text("problem", "bold red"), one_line(problem))
        parts += [Text(), problems]
    return Group(*parts)


def _headline(status: ServiceStatus) -> Text:
    text = Text.assemble(f"edge {one_line(status.version)}  ", _state(status.state))
    with contextlib.suppress(ValueError):
        text.append(f"  up {duration(max(0.0, time.time() - utc_of(status.started_utc)))}")
    text.append(f"  {one_line(status.config_path)}")
    if status.last_reload:
        text.append(f"  {one_line(status.last_reload)}")
    return text


def _cameras(cameras: list[CameraReport], width: int) -> Table:
    table = _table()
    table.add_column("camera", overflow="fold")
    table.add_column("state", no_wrap=True)
    names = ["fps in/out", "faces"]
    names += ["delay", "whole", "dropped"] if width >= MIDDLE else []
    names += ["lost", "segment"] if width >= WIDE else []
    names += ["picture"] if width >= WIDEST else []
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for camera in cameras:
        running = camera.state == "recording"
        cells = {
            "fps in/out": f"{camera.fps_in:.1f}/{camera.fps_out:.1f}", "faces": number(camera.faces),
            "delay": f"{camera.delay_s:.2f} s" if running else "-",
            "whole": number(sum(camera.whole_frames.values())), "dropped": number(sum(camera.dropped.values())),
            "lost": number(camera.reconnects), "segment": _segment_age(camera),
            "picture": f"{camera.width_px}x{camera.height_px}" if camera.width_px else "-",
        }  # fmt: skip
        table.add_row(one_line(camera.camera), _state(camera.state), *(cells[name] for name in names))
    return table


def _losses(status: ServiceStatus, width: int) -> Iterator[RenderableType]:
    """Why frames were masked whole or dropped, and what a camera waits for unless that is among the problems."""
    facts = _facts()
    for camera in status.cameras:
        told = any(camera.detail in problem for problem in status.problems)
        about = [one_line(camera.detail)] if camera.state != "recording" and camera.detail and not told else []
        about += [f"masked whole: {text}"] if (text := by_reason(camera.whole_frames)) else []
        about += [f"dropped: {text}"] if (text := by_reason(camera.dropped)) else []
        if width < WIDE and camera.reconnects:
            about.append(f"source lost {number(camera.reconnects)} times")
        if about:
            facts.add_row(one_line(camera.camera), "\n".join(about))
    if facts.row_count:
        yield from (Text(), facts)


def _inference(report: InferenceReport) -> Text:
    text = Text.assemble(_state(report.state))
    text.append(f"  {one_line(', '.join(report.models) or report.detail)}")
    if report.run_ms.count:
        text.append(f"  {report.run_ms.sum_ms / report.run_ms.count:.1f} ms a run")
    runs = sum(report.batches.values())
    if runs and report.requests:
        text.append(f"  {report.requests / runs:.1f} inputs a batch")
    text.append(f"  {report.clients} cameras  {number(report.requests)} requests")
    text.append(f"  {number(report.failures)} failed  {number(report.late)} late")
    return text


def _processes(processes: list[ProcessReport]) -> str:
    """Only those worth a word: what does not run, was restarted or killed."""
    parts = []
    for each in processes:
        about = [each.state.replace("_", " ")] if each.state != "running" else []
        about += [f"restarted {number(each.restarts)} times"] if each.restarts else []
        about += [f"killed {number(each.killed_hung)} times while hung"] if each.killed_hung else []
        if about:
            parts.append(f"{one_line(each.name)}: {', '.join(about)}" + (f" ({error})" if (
                error := one_line(each.last_error)) else ""))  # fmt: skip
    running = sum(each.state == "running" for each in processes)
    return "; ".join([f"{running} of {len(processes)} run", *parts])


def _board(board: BoardReport) -> str:
    parts = [f"{one_line(zone)} {value:.0f} °C" for zone, value in sorted(board.temperatures_c.items())]
    if board.gpu_load is not None:
        parts.append(f"GPU {board.gpu_load:.0%}")
    if board.gpu_memory_bytes is not None:
        parts.append(f"GPU memory {size(board.gpu_memory_bytes)}")
    if board.memory_available_bytes is not None:
        parts.append(f"memory available {size(board.memory_available_bytes)}")
    parts += [f"{board.power_w:.1f} W"] if board.power_w is not None else []
    parts += [f"mode {one_line(board.power_mode)}"] if board.power_mode else []
    parts += [f"fan {board.fan_rpm} rpm"] if board.fan_rpm is not None else []
    if text := by_reason(board.throttled):
        parts.append(f"throttled {text}")
    return ", ".join(parts)


def _disks(roots: list[RootReport], width: int) -> Table:
    table = _table()
    table.add_column("recordings", overflow="fold")
    table.add_column("state", no_wrap=True)
    names = ["free", "floor"]
    names += ["used", "segments", "deleted"] if width >= MIDDLE else []
    names += ["recovered", "broken"] if width >= WIDEST else []
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for root in roots:
        cells = {
            "free": size(root.free_bytes), "floor": size(root.floor_bytes), "used": size(root.used_bytes),
            "segments": number(root.segments), "deleted": number(root.deleted), "recovered": number(root.recovered),
            "broken": number(root.broken),
        }  # fmt: skip
        table.add_row(one_line(root.directory), _state(root.state), *(cells[name] for name in names))
    return table


def _state(state: str) -> Text:
    style = "green" if state in _GOOD else "yellow" if state in _COMING else "bold red"
    return Text(one_line(state).replace("_", " "), style)


def _segment_age(camera: CameraReport) -> str:
    """Time since the open segment began, which its name says."""
    named = split_name(camera.camera, camera.segment.rpartition("/")[2])
    try:
        return duration(max(0.0, time.time() - start_of(camera.camera, named[0]))) if named else "-"
    except ValueError:
        return "-"


def _table() -> Table:
    return Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))


def _facts() -> Table:
    """Two columns without a header; the second takes what is left of the width."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", overflow="fold", max_width=FACT_WIDTH)
    table.add_column(overflow="fold", ratio=1)
    return table
