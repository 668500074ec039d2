"""The paper's small message: ten bytes, `message001` to `message100`, a sequence and nothing else."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from schemas.errors import PayloadError
from schemas.formats.base import Peek
from schemas.messages import CurrentStatus, Document, Header

if TYPE_CHECKING:
    from schemas.formats.blocks import Blocks

_FORM: Final = re.compile(rb"message(0[0-9][1-9]|0[1-9]0|100)")


class Small:
    """`message` and three digits, 001 to 100 and round again; a decoded status has a header alone.

    The epoch is not in it: `peek` says 1, and a reader that counts must unwrap the sequence itself.
    """

    name = "small"
    content_type = "text/plain"
    sequence_modulus: int | None = 100
    header_only = True
    blocks: Blocks | None = None

    def encode(self, status: CurrentStatus) -> bytes:
        sequence = status.header.sequence_number if status.header else 0
        if sequence < 1:
            raise ValueError("a small message needs a header with a sequence from 1")
        return b"message%03d" % ((sequence - 1) % 100 + 1)

    def decode(self, payload: bytes) -> CurrentStatus:
        return _headed(self.peek(payload).sequence)

    def peek(self, payload: bytes) -> Peek:
        match = _FORM.fullmatch(payload)
        if match is None:
            raise PayloadError(self.name, _first_fault(payload), "not message001 to message100")
        return Peek(int(match[1]), 1, None, None)


def _headed(sequence: int) -> CurrentStatus:
    return CurrentStatus.of(Document(header=Header(sequence_number=sequence, epoch=1)))


def _first_fault(payload: bytes) -> int:
    """Return the first byte that departs from `message001`'s form."""
    for k, byte in enumerate(b"message"):
        if payload[k : k + 1] != bytes([byte]):
            return k
    digits = payload[7:10]
    bad = next((k for k, byte in enumerate(digits) if not 48 <= byte <= 57), len(digits))
    return 7 + bad if bad < 3 else 7 if len(payload) == 10 else 10
