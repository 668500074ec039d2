"""What every format promises; decides nothing about transport."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from schemas.errors import PayloadError

if TYPE_CHECKING:
    from schemas.formats.blocks import Blocks
    from schemas.messages import CurrentStatus


class Peek(NamedTuple):
    """What a gateway must know of a payload; None where the format does not carry it."""

    sequence: int
    epoch: int
    sampled_at_ns: int | None
    vehicle_id: str | None


class Format(Protocol):
    """One byte form of CurrentStatus."""

    name: str
    content_type: str
    header_only: bool  # whether a payload says no more of a vehicle than its header does
    sequence_modulus: int | None  # None: sequences never wrap; 100 for `small`: they run 1..100, 1..100

    @property
    def blocks(self) -> Blocks | None:
        """What makes payloads in blocks, the bytes that `encode` gives; None: `encode` alone makes them."""
        ...

    def encode(self, status: CurrentStatus) -> bytes:
        """Return the payload; the same status gives the same bytes."""
        ...

    def decode(self, payload: bytes) -> CurrentStatus:
        """Return the reading; PayloadError when the payload is not one of this format."""
        ...

    def peek(self, payload: bytes) -> Peek:
        """Return sequence, epoch and, where it has them, time and vehicle; the rest is not decoded."""
        ...


def peeked(  # noqa: PLR0917 - called per message: keywords would cost
    name: str, offset: int, vehicle_id: str, sequence: int, epoch: int, sampled_at_ms: int
) -> Peek:
    """Return the peek of a header; PayloadError when it lacks what every message of ours has."""
    if not vehicle_id or not sequence or not epoch:
        raise PayloadError(name, offset, "no header with vehicle id, sequence and epoch")
    return Peek(sequence, epoch, sampled_at_ms * 1_000_000, vehicle_id)
