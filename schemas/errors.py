"""The two errors every part shares; nothing here decides what happens to them."""

from __future__ import annotations


class Refusal(Exception):  # noqa: N818 - the word the command line prints
    """Bad input or a missing part: one line that names it; the command ends with exit code 2."""


class PayloadError(ValueError):
    """A payload that its format cannot read.

    Attributes:
        format: the format's name.
        offset: the byte at which reading failed, or None where the format cannot say.
    """

    def __init__(self, format: str, offset: int | None, reason: str) -> None:  # noqa: A002
        super().__init__(f"{format} payload, byte {'?' if offset is None else offset}: {reason}")
        self.format = format
        self.offset = offset
        self.reason = reason
