"""A reporter for runs that nobody watches."""

from __future__ import annotations

from edge.messages import Started, Summary


class Silent:
    """Reports to nobody and never asks to stop; an `edge.messages.Reporter`."""

    def announce(self, started: Started) -> None: ...

    def note(self, text: str) -> None: ...

    def progress(self, summary: Summary) -> None: ...

    def stop_requested(self) -> bool:
        return False
