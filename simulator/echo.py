"""Echo topology: notes what comes back across the link, by the sequence in its payload; it sends nothing."""

from __future__ import annotations

import asyncio

from gateways.protocols.backoff import Backoff
from gateways.protocols.connection_state import KeptConnection
from gateways.protocols.ends import ConnectError, Subscriber
from schemas.errors import PayloadError
from schemas.formats import Format
from schemas.tracks import Track
from simulator.emission_log import EmissionLog, Kind
from simulator.vehicle_sender import LASTING_S, Totals


class Echo:
    """Implements SubscriberEvents and ConnectionEvents for the receiver beside one vehicle.

    Args:
        gate: the vehicles' own: a receiver's handshake is one more of the same process.
    """

    subscriber: Subscriber

    def __init__(
        self,
        vehicle: int,
        epoch: int,
        payload_format: Format,
        log: EmissionLog,
        totals: Totals,
        *,
        backoff: Backoff | None = None,
        gate: asyncio.Semaphore | None = None,
    ) -> None:
        self._vehicle = vehicle
        self._peek = payload_format.peek
        self._modulus = payload_format.sequence_modulus
        self._log = log
        self._totals = totals
        self._track = Track(b"", epoch)
        self._connection = KeptConnection(
            f"the receiver of vehicle {vehicle}",
            self._dial,
            self,
            backoff=Backoff() if backoff is None else backoff,
            gate=gate,
            lasting_s=LASTING_S,
        )
        # Why the newest attempt failed or the last connection was lost.
        self.trouble = ""

    def open(self) -> asyncio.Future[None]:
        """Start to subscribe, and keep the subscription; the future ends with the first success."""
        return self._connection.start()

    async def close(self) -> None:
        """Take leave; idempotent."""
        await self._connection.close()
        await self.subscriber.close()

    def disconnected(self, at_ns: int, reason: str) -> None:  # noqa: ARG002
        self._connection.lost(reason)

    def dialling(self) -> None:
        """Nothing to note: the emission log tells of the vehicle's own connection alone."""

    def dial_failed(self, error: ConnectError) -> None:
        self.trouble = str(error)

    def connection_lost(self, reason: str) -> None:
        self.trouble = reason
        self._totals.subscribed -= 1

    async def _dial(self, generation: int) -> None:
        await self.subscriber.open()
        if self._connection.state.accepted(generation):
            self._totals.subscribed += 1

    def received(self, payload: bytes, at_ns: int, duplicate: bool) -> None:  # noqa: ARG002
        """Note the first copy of a message; what comes again proves nothing new."""
        self._connection.useful()
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
