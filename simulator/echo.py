"""Echo topology: notes what comes back across the link, by the sequence in its payload; it sends nothing."""

from __future__ import annotations

from schemas.errors import PayloadError
from schemas.formats import Format
from schemas.tracks import Track
from simulator.emission_log import EmissionLog, Kind
from simulator.lane import Totals


class Echo:
    """Implements SubscriberEvents for one vehicle."""

    def __init__(
        self, vehicle: int, epoch: int, payload_format: Format, log: EmissionLog, totals: Totals
    ) -> None:
        self._vehicle = vehicle
        self._peek = payload_format.peek
        self._modulus = payload_format.sequence_modulus
        self._log = log
        self._totals = totals
        self._track = Track(b"", epoch)

    def received(self, payload: bytes, at_ns: int, duplicate: bool) -> None:  # noqa: ARG002
        """Note the first copy of a message; what comes again proves nothing new."""
        try:
            peek = self._peek(payload)
        except PayloadError:
            return
        sequence, epoch = peek.sequence, peek.epoch
        if self._modulus is not None:
            sequence, epoch = self._track.unwrap(sequence, self._modulus), self._track.epoch
        if epoch != self._track.epoch or self._track.seen_before(sequence):
            return
        self._totals.received += 1
        self._log.note(Kind.RECEIVED, self._vehicle, at_ns, epoch=epoch, sequence=sequence, size=len(payload))
