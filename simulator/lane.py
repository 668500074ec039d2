"""One vehicle on the road: outbox, connection, events; when messages are due is the pacer's part."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from gateways.protocols.backoff import Backoff
from gateways.protocols.base import ConnectError, VehicleClient
from simulator.emission_log import EmissionLog, Kind, Reason
from simulator.fleet import Emission
from simulator.outbox import Outbox, Policy

# A token names a message: the epoch above, the sequence below.
_SEQUENCE_BITS = 40
_SEQUENCE_MASK = (1 << _SEQUENCE_BITS) - 1

_DROP_REASONS = {"drop_oldest": Reason.DROPPED_OLDEST, "drop_newest": Reason.DROPPED_NEWEST}


@dataclass(slots=True)
class Totals:
    """What all vehicles of a pacer did so far."""

    due: int = 0
    emitted: int = 0
    acknowledged: int = 0
    refused: int = 0
    unsent: int = 0
    buffered: int = 0
    received: int = 0
    connected: int = 0
    disconnections: int = 0
    connect_failures: int = 0


class Lane:
    """Implements VehicleEvents for one vehicle; reconnects until closed."""

    client: VehicleClient

    def __init__(
        self,
        vehicle: int,
        log: EmissionLog,
        totals: Totals,
        *,
        backoff: Backoff,
        limit: int,
        policy: Policy,
        gate: asyncio.Semaphore | None = None,
    ) -> None:
        self.vehicle = vehicle
        self._log = log
        self._totals = totals
        self._backoff = backoff
        self._policy = policy
        # How many vehicles of this process may be in a handshake at once.
        self._gate = gate if gate is not None else asyncio.Semaphore()
        self._outbox: Outbox[Emission] = Outbox(limit, policy)
        self._connecting: asyncio.Task[None] | None = None
        self._closed = False
        self._pumping = False

    def open(self) -> asyncio.Task[None]:
        """Start to connect; the task ends with the first success."""
        self._connecting = asyncio.ensure_future(self._connect())
        return self._connecting

    async def close(self) -> None:
        """Give up what is still buffered, take leave; idempotent."""
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)
        for emission in self._outbox.clear():
            self._unsent(emission, Reason.LEFT_AT_END)
        await self.client.close()

    def offer(self, emission: Emission) -> None:
        """Send a message that is due now, or buffer it."""
        self._totals.due += 1
        if not self._outbox and self.client.ready():
            self._emit(emission)
            return
        self._totals.buffered += 1
        self._note(Kind.BUFFERED, emission, time.time_ns())
        dropped = self._outbox.put(emission)
        if dropped is not None:
            self._unsent(dropped, _DROP_REASONS[self._policy])

    def idle(self) -> bool:
        """Say whether nothing of this vehicle is on its way or waiting."""
        return not self._outbox and self.client.in_flight() == 0

    def acknowledged(self, token: int, at_ns: int) -> None:
        self._totals.acknowledged += 1
        self._note_token(Kind.ACKNOWLEDGED, token, at_ns)
        self._pump()

    def refused(self, token: int, reason: str) -> None:  # noqa: ARG002
        self._totals.refused += 1
        self._note_token(Kind.REFUSED, token, time.time_ns(), Reason.REFUSED_BY_PEER)
        self._pump()

    def connected(self, at_ns: int, session_present: bool) -> None:
        self._totals.connected += 1
        self._log.note(
            Kind.CONNECTED, self.vehicle, at_ns, sequence=len(self._outbox), size=int(session_present)
        )
        self._pump()

    def disconnected(self, at_ns: int, reason: str) -> None:  # noqa: ARG002
        self._totals.connected -= 1
        self._totals.disconnections += 1
        self._log.note(Kind.DISCONNECTED, self.vehicle, at_ns, sequence=len(self._outbox))
        if not self._closed and (self._connecting is None or self._connecting.done()):
            self._connecting = asyncio.ensure_future(self._connect(again=True))

    def writable(self) -> None:
        self._pump()

    async def _connect(self, *, again: bool = False) -> None:
        """Try until it works; after a lost connection the first attempt waits too, each with jitter."""
        if again:
            await asyncio.sleep(self._backoff.next_s())
        while True:
            try:
                async with self._gate:
                    self._log.note(Kind.CONNECTING, self.vehicle, time.time_ns(), sequence=len(self._outbox))
                    await self.client.connect()
            except ConnectError:
                self._totals.connect_failures += 1
                self._log.note(Kind.CONNECT_FAILED, self.vehicle, time.time_ns(), sequence=len(self._outbox))
                await asyncio.sleep(self._backoff.next_s())
            else:
                self._backoff.reset()
                return

    def _pump(self) -> None:
        """Send the backlog as far as the protocol takes it, as one burst."""
        if self._pumping:
            return
        self._pumping = True
        try:
            while self._outbox and self.client.ready():
                self._emit(self._outbox.get())
        finally:
            self._pumping = False

    def _emit(self, emission: Emission) -> None:
        at_ns = time.time_ns()
        self._totals.emitted += 1
        self._note(Kind.EMITTED, emission, at_ns)
        self.client.send(emission.epoch << _SEQUENCE_BITS | emission.sequence, emission.payload)

    def _unsent(self, emission: Emission, reason: Reason) -> None:
        self._totals.unsent += 1
        self._note(Kind.UNSENT, emission, time.time_ns(), reason)

    def _note(self, kind: Kind, emission: Emission, at_ns: int, reason: Reason = Reason.NONE) -> None:
        self._log.note(
            kind,
            self.vehicle,
            at_ns,
            epoch=emission.epoch,
            sequence=emission.sequence,
            size=len(emission.payload),
            reason=reason,
        )

    def _note_token(self, kind: Kind, token: int, at_ns: int, reason: Reason = Reason.NONE) -> None:
        self._log.note(
            kind,
            self.vehicle,
            at_ns,
            epoch=token >> _SEQUENCE_BITS,
            sequence=token & _SEQUENCE_MASK,
            reason=reason,
        )
