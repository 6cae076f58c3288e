"""Text for terminals and logs: names of files come from strangers, and may hold anything but a slash."""

from __future__ import annotations


def one_line(text: str) -> str:
    """`text` with line ends, escape sequences, invisible characters and bytes that are no UTF-8 written as escapes."""
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    # Python has the bytes of names that are no UTF-8 as U+DC80 to U+DCFF (PEP 383).
    byte = ord(character) - 0xDC00
    return f"\\x{byte:02x}" if 0x80 <= byte <= 0xFF else repr(character)[1:-1]
