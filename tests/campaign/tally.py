"""What was injected, and how long recovery took, by kind."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

from rich.table import Table


@dataclass(slots=True)
class Row:
    """episodes: how often the kind was drawn and met something; faults: injections, many per episode for some kinds."""

    episodes: int = 0
    faults: int = 0
    recoveries_s: list[float] = field(default_factory=list)
    never: int = 0


class Tally:
    """Rows by kind."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}

    def add(self, kind: str, faults: int, recovery_s: float | None) -> None:
        """Count one episode."""
        row = self.rows.setdefault(kind, Row())
        row.episodes += faults > 0
        row.faults += faults
        if recovery_s is None:
            row.never += 1
        else:
            row.recoveries_s.append(recovery_s)

    @property
    def faults(self) -> int:
        """All injections."""
        return sum(row.faults for row in self.rows.values())

    @property
    def never(self) -> int:
        """Episodes after which a camera did not come back."""
        return sum(row.never for row in self.rows.values())

    def table(self) -> Table:
        """For people."""
        table = Table("kind", "times", "faults", "recovery median s", "p95 s", "longest s", "never")
        for kind, row in sorted(self.rows.items()):
            times = sorted(row.recoveries_s)
            numbers = ["", "", ""]
            if times:
                numbers = [f"{statistics.median(times):.1f}", f"{times[int(0.95 * (len(times) - 1))]:.1f}",
                           f"{times[-1]:.1f}"]
            table.add_row(kind, str(row.episodes), str(row.faults), *numbers, str(row.never or ""))
        return table

    def to_plain(self) -> dict[str, dict[str, object]]:
        """For JSON."""
        return {kind: {"episodes": row.episodes, "faults": row.faults, "never": row.never,
                       "recoveries_s": [round(each, 2) for each in row.recoveries_s]}
                for kind, row in sorted(self.rows.items())}
