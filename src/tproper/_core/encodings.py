"""Text that is not UTF-8, by its first bytes: spreadsheets write UTF-16 as "Unicode text"."""

from __future__ import annotations


def other_encoding(start: bytes) -> str | None:
    """The encoding that the first four bytes of a file show, in words; None if it may be UTF-8."""
    for mark, name in ((b"\xff\xfe\x00\x00", "UTF-32"), (b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16")):
        if start.startswith(mark):
            return name
    if len(start) >= 4 and b"\0\0" in (start[:4][1::2], start[:4][::2]):
        return "what looks like UTF-16"
    return None
