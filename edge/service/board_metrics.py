"""Metrics about the board; what it does not say is left out."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from edge.reports import BoardReport
from edge.service.families import Families


def board_metrics(board: BoardReport) -> Iterator[Metric]:
    """Families for all values that are known."""
    families = Families([])
    for name, text, value in (
        ("edge_board_gpu_load_ratio", "Load of the GPU, 0 to 1.", board.gpu_load),
        ("edge_board_gpu_memory_bytes", "Memory that the GPU uses.", board.gpu_memory_bytes),
        ("edge_board_memory_available_bytes", "Memory that programs can still get.", board.memory_available_bytes),
        ("edge_board_power_watts", "Power of the module.", board.power_w),
        ("edge_board_fan_rpm", "Speed of the fan.", board.fan_rpm),
    ):
        if value is not None:
            families.gauge(name, text, [], value)
    yield from families
    zones = Families(["zone"])
    for zone, value in board.temperatures_c.items():
        zones.gauge("edge_board_temperature_celsius", "Temperature of a zone.", [zone], value)
    yield from zones
    causes = Families(["cause"])
    for cause, count in board.throttled.items():
        causes.counter("edge_board_throttle_events", "Times that clocks were held down.", [cause], count)
    yield from causes
    if board.power_mode:
        modes = Families(["mode"])
        modes.gauge("edge_board_power_mode_info", "Always 1; nvpmodel's mode is in the label.", [board.power_mode], 1)
        yield from modes
