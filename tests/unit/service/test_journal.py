"""Lines for the journal: form, repeats, floods, readers that do not read."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest

from edge.reports import Event, Level
from edge.service.journal import MAX_KEYS, Journal, LineBudget


class Pipe:
    """What a journal wrote so far, and the time that it sees."""

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()
        os.set_blocking(self.read_end, False)
        self.now_s = 1000.0

    def journal(self, **options: object) -> Journal:
        return Journal(self.write_end, clock=lambda: self.now_s, **options)  # type: ignore[arg-type]

    def lines(self) -> list[str]:
        """Without the time of day."""
        try:
            data = os.read(self.read_end, 1 << 20)
        except BlockingIOError:
            return []
        assert data.endswith(b"\n")
        return [re.sub(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ ", "", line) for line in data.decode().splitlines()]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    os.close(made.read_end)
    os.close(made.write_end)


@pytest.mark.parametrize(
    ("level", "for_journal", "plain"),
    [
        ("debug", "<7>porch: lost", "debug   porch: lost"),
        ("info", "<6>porch: lost", "info    porch: lost"),
        ("warning", "<4>porch: lost", "warning porch: lost"),
        ("error", "<3>porch: lost", "error   porch: lost"),
    ],
)
def test_form(pipe: Pipe, level: Level, for_journal: str, plain: str) -> None:
    event = Event(level, "", "lost", "porch")
    pipe.journal(level="debug").write(event)
    found = os.fstat(pipe.write_end)
    pipe.journal(level="debug", environment={"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}"}).write(event)
    pipe.journal(level="debug", environment={"JOURNAL_STREAM": "8:1"}).write(event)
    assert pipe.lines() == [plain, for_journal, plain]


def test_less_than_the_level_is_left_out(pipe: Pipe) -> None:
    journal = pipe.journal(level="warning")
    for level in ("debug", "info", "warning", "error"):
        journal.write(Event(level, "", level))  # type: ignore[arg-type]
    assert pipe.lines() == ["warning warning", "error   error"]


def test_control_characters_and_long_texts(pipe: Pipe) -> None:
    journal = pipe.journal(redact=lambda text: text.replace("secret", "***"))
    journal.write(Event("info", "", "a\n<0>b \x1b[31m \u202e \udcff secret", "cam"))
    journal.write(Event("info", "", "ä" * 5000))
    first, second = pipe.lines()
    assert first == "info    cam: a\\n<0>b \\x1b[31m \\u202e \\xff ***"
    assert second.startswith("info    ä") and second.endswith("ä") and len(second.encode()) < 2100


def test_repeats_are_counted(pipe: Pipe) -> None:
    journal = pipe.journal()
    for number in range(58):
        journal.write(Event("warning", "lost", f"lost {number}", "porch"))
        pipe.now_s += 1.0
        journal.tick()
    journal.write(Event("warning", "lost", "lost", "yard"))
    journal.write(Event("warning", "lost", "found", "porch"))
    assert pipe.lines() == ["warning porch: lost 0", "warning yard: lost", "warning porch: found"]
    pipe.now_s += 3.0
    journal.tick()
    assert pipe.lines() == ["warning porch: lost 57 (… 57 more times in 60 s)"]
    journal.write(Event("warning", "lost", "lost 99", "porch"))         # goes on: counted, not shown
    assert pipe.lines() == []
    journal.flush()
    assert pipe.lines() == ["warning porch: lost 99 (… once more in 60 s)"]


def test_a_quiet_minute_shows_the_next_one(pipe: Pipe) -> None:
    journal = pipe.journal()
    for _ in range(3):
        journal.write(Event("info", "x", "text"))
        pipe.now_s += 61.0
        journal.tick()
    assert pipe.lines() == ["info    text"] * 3


def test_memory_is_bounded(pipe: Pipe) -> None:
    journal = pipe.journal(level="error")
    for number in range(10 * MAX_KEYS):
        journal.write(Event("error", str(number), ""))
    assert len(journal._repeats) <= MAX_KEYS


def test_nobody_reads(pipe: Pipe) -> None:
    journal = pipe.journal()
    for _ in range(2000):
        journal.write(Event("info", "", "x" * 1000))
    assert len(pipe.lines()) < 100
    journal.write(Event("info", "", "again"))
    lost, again = pipe.lines()
    assert re.fullmatch(r"info    19\d\d lines were lost: nobody read them", lost) and again == "info    again"


def test_the_reader_is_gone() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    Journal(write_end).write(Event("info", "", "x"))
    os.close(write_end)
    Journal(write_end).write(Event("info", "", "x"))


def test_budget_of_lines() -> None:
    budget = LineBudget(burst=3, interval_s=2.0, now_s=0.0)
    assert [budget.allows(0.0) for _ in range(5)] == [True, True, True, False, False]
    assert budget.left_out(1.0) == 0                    # said at most once a minute
    assert [budget.allows(4.0) for _ in range(3)] == [True, True, False]
    assert budget.left_out(60.0) == 3
    assert budget.left_out(61.0) == 0
    assert not [budget.allows(1000.0) for _ in range(4)][-1]
    assert budget.left_out(1000.0, at_end=True) == 1
