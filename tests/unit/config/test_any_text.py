"""Whatever stands in the file, reading it gives settings or reasons, and never another error."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from edge.config import load_service
from edge.errors import ConfigError

EXAMPLE = Path(__file__).parents[3] / "configs" / "examples" / "city-rtsp.yaml"
PIECES = ("\t", "&a ", "*a", "? ", "!!x ", "[", "{", '"', "'", "\n", "\r", "\x85", "\u2028", ": ", "- ", "---\n", "|\n",
          "~", "#", "1e400", "9" * 400, "\x00", "\ufeff", "0x1_0", "\u0663", "rtsp://[::1", "\\x", '"\\ud800"',
          "<<: ")  # fmt: skip
EDITS = st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 30), st.sampled_from(PIECES)), min_size=1, max_size=5)


@given(EDITS)
@settings(max_examples=60, deadline=None)
def test_whatever_is_written_is_read_or_refused_with_reasons(edits: list[tuple[float, int, str]]) -> None:
    text = EXAMPLE.read_text()
    for where, deleted, piece in edits:
        begin = int(where * len(text))
        text = text[:begin] + piece + text[begin + deleted :]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "edge.yaml")
        file.write_text(text)
        try:
            assert load_service(file).cameras
        except ConfigError as error:
            assert all(line.startswith(f"{file}:") for line in str(error).split("\n"))
