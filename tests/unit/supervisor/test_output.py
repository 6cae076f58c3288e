"""What children print, with bounds."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from edge.supervisor.output import BURST_LINES, MAX_LINE_BYTES, Output


class Printed:
    """An output, its writing end, and the lines that came out."""

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()
        os.set_blocking(self.read_end, False)
        self.lines: list[str] = []
        self.output = Output(self.read_end, self.lines.append, 0.0)

    def write(self, data: bytes) -> list[str]:
        """Write and read; the lines that this gave."""
        self.lines.clear()
        os.write(self.write_end, data)
        assert self.output.read(0.0)
        return list(self.lines)


@pytest.fixture
def printed() -> Iterator[Printed]:
    made = Printed()
    yield made
    os.close(made.read_end)
    os.close(made.write_end)


@pytest.mark.parametrize(
    ("pieces", "lines"),
    [
        ([b"one\ntwo\n"], ["one", "two"]),
        ([b"o", b"ne\r", b"\n\n \ntw"], ["one"]),
        ([b"\x1b[31mred\x1b[0m\n"], ["\\x1b[31mred\\x1b[0m"]),
        ([b"\xff\xfe\n"], ["\ufffd\ufffd"]),
        ([b"x" * 3000, b"y" * 3000 + b"\nnext\n"], ["x" * MAX_LINE_BYTES, "next"]),
        ([b"could not open rtsp://admin:p%40ss@10.0.0.1/x or http://u@h\n"],
         ["could not open rtsp://***@10.0.0.1/x or http://***@h"]),
    ],
)  # fmt: skip
def test_lines(printed: Printed, pieces: list[bytes], lines: list[str]) -> None:
    assert [line for piece in pieces for line in printed.write(piece)] == lines


def test_a_flood_is_cut_and_counted(printed: Printed) -> None:
    assert len(printed.write(b"again\n" * 1000)) == BURST_LINES
    printed.lines.clear()
    printed.output.tick(59.0)
    assert printed.lines == []
    printed.output.tick(60.0)
    assert printed.lines == [f"({1000 - BURST_LINES} more lines were left out)"]


def test_no_line_end_needs_no_memory(printed: Printed) -> None:
    for _ in range(1000):
        printed.write(b"x" * 4096)
    assert len(printed.output._partial) <= MAX_LINE_BYTES


def test_last_words(printed: Printed) -> None:
    os.write(printed.write_end, b"first\n" * 5000 + b"last without end")
    printed.output.finish(0.0)
    assert printed.lines[BURST_LINES:] == [f"({5001 - BURST_LINES} more lines were left out)"]
    assert printed.output.last_line == "last without end"
