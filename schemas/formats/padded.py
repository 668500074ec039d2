"""`small` with filler behind it: messages of any size with a sequence, for studies; no row of the table."""

from __future__ import annotations

from typing import Final

from schemas.errors import PayloadError
from schemas.formats.base import Peek
from schemas.formats.small import Small
from schemas.messages import CurrentStatus

MIN_BYTES: Final = 10
MAX_BYTES: Final = 65_535
_FILLER: Final = b"."


class Padded(Small):
    """`message001` to `message100`, then full stops up to `size` bytes.

    Raises ValueError for a size below `small`'s own or above 65,535.
    """

    content_type = "text/plain"

    def __init__(self, size: int) -> None:
        if not MIN_BYTES <= size <= MAX_BYTES:
            raise ValueError(f"{size} bytes: allowed are {MIN_BYTES} to {MAX_BYTES}")
        self.size = size
        self.name = f"padded-{size}"
        self._filler = _FILLER * (size - MIN_BYTES)

    def encode(self, status: CurrentStatus) -> bytes:
        return super().encode(status) + self._filler

    def peek(self, payload: bytes) -> Peek:
        if payload[MIN_BYTES:] != self._filler:
            raise PayloadError(self.name, MIN_BYTES, f"not {self.size} bytes that end in filler")
        return super().peek(payload[:MIN_BYTES])
