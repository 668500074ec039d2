"""Echo topology: notes what comes back across the link, by the sequence in its payload; it sends nothing."""

from __future__ import annotations

from schemas.errors import PayloadError
from schemas.formats import Format
from simulator.emission_log import EmissionLog, Kind
from simulator.lane import Totals


class Echo:
    """Implements SubscriberEvents for one vehicle."""

    def __init__(
        self, vehicle: int, epoch: int, payload_format: Format, log: EmissionLog, totals: Totals
    ) -> None:
        self._vehicle = vehicle
        self._epoch = epoch
        self._peek = payload_format.peek
        self._modulus = payload_format.sequence_modulus
        self._log = log
        self._totals = totals
        self._highest = 0

    def received(self, payload: bytes, at_ns: int, duplicate: bool) -> None:  # noqa: ARG002
        try:
            peek = self._peek(payload)
        except PayloadError:
            return
        sequence, epoch = peek.sequence, peek.epoch
        if self._modulus is not None:
            sequence, epoch = self._unwrapped(sequence), self._epoch
        self._totals.received += 1
        self._log.note(Kind.RECEIVED, self._vehicle, at_ns, epoch=epoch, sequence=sequence, size=len(payload))

    def _unwrapped(self, wrapped: int) -> int:
        """Return the sequence without end nearest to the highest seen (RFC 1982)."""
        assert self._modulus is not None
        ahead = (wrapped - self._highest) % self._modulus
        if ahead > self._modulus // 2 and self._highest + ahead > self._modulus:
            ahead -= self._modulus
        sequence = self._highest + ahead
        self._highest = max(self._highest, sequence)
        return sequence
