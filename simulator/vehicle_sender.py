"""One vehicle that sends: outbox, connection, events; when messages are due is the sender's part.

The connection is kept by `KeptConnection`: whatever a client reports, and whenever, the vehicle dials again until it is
closed. What the client raises besides ConnectError ends the process, never this vehicle alone.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import Final

from gateways.protocols.backoff import Backoff
from gateways.protocols.connection_state import KeptConnection
from gateways.protocols.ends import AccessRefusedError, ConnectError, VehicleClient
from schemas.topics import vehicle_id
from simulator.emission_log import EmissionLog, Kind, Reason
from simulator.fleet import Emission
from simulator.outbox import Outbox, Policy

_LOG = logging.getLogger(__name__)
# A token names a message: the epoch above, the sequence below.
_SEQUENCE_BITS = 40
_SEQUENCE_MASK = (1 << _SEQUENCE_BITS) - 1

# A connection on which nothing was acknowledged must stay up for so long before the wait for the next is the first one again.
LASTING_S: Final = 5.0

_DROP_REASONS = {"drop_oldest": Reason.DROPPED_OLDEST, "drop_newest": Reason.DROPPED_NEWEST}


@dataclass(slots=True)
class Totals:
    """What all vehicles of a sender did so far; `last_emitted_at_ns` is 0 before the first emission."""

    due: int = 0
    emitted: int = 0
    acknowledged: int = 0
    refused: int = 0
    unanswered: int = 0
    unsent: int = 0
    buffered: int = 0
    received: int = 0
    connected: int = 0
    disconnections: int = 0
    connect_failures: int = 0
    access_refused: int = 0
    datagrams_unsent: int = 0
    subscribed: int = 0
    last_emitted_at_ns: int = 0


@dataclass(slots=True)
class EmissionLag:
    """How late the vehicles of a sender emit: second 0 of the run by this process's clock, and the longest lag of late."""

    start_at_ns: int = 0
    max_ns: int = -1  # nothing was emitted

    def take_max_ns(self) -> int | None:
        """Return the longest lag since the last call, None where nothing was emitted."""
        found, self.max_ns = self.max_ns, -1
        return found if found >= 0 else None


class VehicleSender:
    """Implements VehicleEvents and ConnectionEvents for one vehicle.

    Args:
        gate: how many vehicles of this process may be in a handshake at once; None sets no limit.
        lag: which its emissions add to; None: one of its own.
    """

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
        lag: EmissionLag | None = None,
    ) -> None:
        self.vehicle = vehicle
        self._lag = lag or EmissionLag()
        self._log = log
        self._totals = totals
        self._policy = policy
        self._outbox: Outbox[Emission] = Outbox(limit, policy)
        self._connection = KeptConnection(
            f"vehicle {vehicle}", self._dial, self, backoff=backoff, gate=gate, lasting_s=LASTING_S
        )
        self._pumping = False
        # Why the newest attempt failed or the last connection was lost.
        self.trouble = ""
        self._refusal = ""

    def open(self) -> asyncio.Future[None]:
        """Start to connect, and keep the connection; the future ends with the first success."""
        return self._connection.start()

    async def close(self) -> None:
        """Give up what is still buffered, take leave; idempotent."""
        await self._connection.close()
        self.give_up()
        await self.client.close()

    def give_up(self) -> None:
        """Give up what still waits in the outbox; what the client has goes on."""
        for emission in self._outbox.clear():
            self._unsent(emission, Reason.LEFT_AT_END)

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
        self._connection.useful()
        self._note_token(Kind.ACKNOWLEDGED, token, at_ns)
        self._pump()

    def refused(self, token: int, reason: str) -> None:
        self._refused(token, Reason.REFUSED_BY_PEER, reason)

    def unsendable(self, token: int, reason: str) -> None:
        self._refused(token, Reason.BEYOND_PEERS_LIMIT, reason)

    def postponed(self, token: int, reason: str) -> None:
        self._note_token(Kind.POSTPONED, token, time.time_ns(), Reason.REFUSED_BY_PEER, reason)

    def unanswered(self, token: int, reason: str) -> None:  # noqa: ARG002
        self._totals.unanswered += 1
        self._note_token(Kind.UNANSWERED, token, time.time_ns(), Reason.NO_ANSWER)
        self._pump()

    def datagram_unsent(self) -> None:
        self._totals.datagrams_unsent += 1

    def connected(self, at_ns: int, session_present: bool) -> None:
        if not self._connection.accepted():
            return
        self._totals.connected += 1
        self._log.note(
            Kind.CONNECTED, self.vehicle, at_ns, sequence=len(self._outbox), size=int(session_present)
        )
        self._pump()

    def disconnected(self, at_ns: int, reason: str) -> None:  # noqa: ARG002
        self._connection.lost(reason)

    def writable(self) -> None:
        self._pump()

    def dialling(self) -> None:
        self._note_connection(Kind.CONNECTING)

    def dial_failed(self, error: ConnectError) -> None:
        self.trouble = str(error)
        self._totals.connect_failures += 1
        self._note_connection(Kind.CONNECT_FAILED)

    def connection_lost(self, reason: str) -> None:
        self.trouble = reason
        self._totals.connected -= 1
        self._totals.disconnections += 1
        self._note_connection(Kind.DISCONNECTED)

    async def _dial(self, generation: int) -> None:
        try:
            await self.client.connect()
        except AccessRefusedError as error:
            self._access_refused(str(error))
            raise
        if self._connection.state.accepted_generation != generation and self._connection.state.current(
            generation
        ):
            raise RuntimeError(f"{type(self.client).__name__}.connect has returned without `connected`")

    def _access_refused(self, reason: str) -> None:
        """Count it each time, and say it once: the vehicle tries again for as long as the run lasts."""
        self._totals.access_refused += 1
        if reason != self._refusal:
            self._refusal = reason
            _LOG.warning("%s is refused: %s", vehicle_id(self.vehicle), reason)

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
        self._totals.last_emitted_at_ns = at_ns
        lag_ns = at_ns - self._lag.start_at_ns - emission.due_offset_ns
        if lag_ns > self._lag.max_ns:  # noqa: PLR1730 - max() costs a call
            self._lag.max_ns = lag_ns
        self._note(Kind.EMITTED, emission, at_ns)
        self.client.send(emission.epoch << _SEQUENCE_BITS | emission.sequence, emission.payload)

    def _refused(self, token: int, reason: Reason, words: str) -> None:
        self._totals.refused += 1
        self._note_token(Kind.REFUSED, token, time.time_ns(), reason, words)
        self._pump()

    def _unsent(self, emission: Emission, reason: Reason) -> None:
        self._totals.unsent += 1
        self._note(Kind.UNSENT, emission, time.time_ns(), reason)

    def _note_connection(self, kind: Kind) -> None:
        self._log.note(kind, self.vehicle, time.time_ns(), sequence=len(self._outbox))

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

    def _note_token(
        self, kind: Kind, token: int, at_ns: int, reason: Reason = Reason.NONE, words: str = ""
    ) -> None:
        self._log.note(
            kind,
            self.vehicle,
            at_ns,
            epoch=token >> _SEQUENCE_BITS,
            sequence=token & _SEQUENCE_MASK,
            reason=reason,
            words=words,
        )
