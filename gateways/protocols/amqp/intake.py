"""The gateway as an AMQP 0-9-1 consumer of one durable queue; basic.ack only once Kafka has the message."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from typing import Final

from gateways.protocols.amqp.address import amqp_addresses
from gateways.protocols.amqp.connection import EXCHANGE, AmqpLink
from gateways.protocols.amqp.reader import MAX_BODY_BYTES, Takers
from gateways.protocols.backoff import Backoff
from gateways.protocols.base import Endpoint, IntakeSettings, Mode
from gateways.protocols.connection_log import ConnectionLog
from gateways.protocols.connection_state import KeptConnection
from gateways.protocols.ends import AccessRefusedError, ConnectError, Receipt, Sink

# For which a gateway waits for each answer of the broker while it connects.
CONNECT_TIMEOUT_S: Final = 10.0
_CACHE_KEYS: Final = 100_000


class AckWindow:
    """Which deliveries of one channel are settled, so that one basic.ack covers all up to a tag."""

    def __init__(self) -> None:
        self._settled: set[int] = set()
        self._low = 0

    def settle(self, tag: int) -> None:
        """Note that a delivery is done with."""
        self._settled.add(tag)

    def take(self) -> int | None:
        """Return the tag up to which everything may be acknowledged at once, or None for nothing new."""
        before = self._low
        while self._low + 1 in self._settled:
            self._low += 1
            self._settled.remove(self._low)
        return self._low if self._low > before else None


class AmqpIntake:
    """Consumes the group's queue; several gateways on one queue compete for its messages."""

    def __init__(self, endpoint: Endpoint, mode: Mode, sink: Sink, settings: IntakeSettings) -> None:
        self._endpoint = endpoint
        self._sink = sink
        self._settings = settings
        self._addresses = amqp_addresses(settings.address)
        self._manual = mode.options["ack"] == "manual"
        self._queue = settings.group if settings.shared else settings.name
        self._link = AmqpLink(
            self,
            endpoint,
            keepalive_s=settings.keepalive_s,
            timeout_s=CONNECT_TIMEOUT_S,
            takers=Takers(self._delivered, self._oversized),
        )
        self._vehicles: dict[bytes, str] = {}
        self._window = AckWindow()
        # Of the connection that receipts belong to; 0 while there is none.
        self._generation = 0
        self._flushing = False
        self._paused = False
        self._closing = False
        self._tick: asyncio.TimerHandle | None = None
        self._log = ConnectionLog(f"AMQP broker {endpoint.host}:{endpoint.port}")
        self._connection = KeptConnection("the AMQP gateway", self._dial, self, backoff=Backoff())
        self._counts = dict.fromkeys(
            ("deliveries", "redelivered", "acknowledgements", "reconnects", "stale_receipts"), 0
        )

    async def open(self) -> None:
        await self._connection.open()

    async def _dial(self, generation: int) -> None:
        self._generation = generation
        self._window = AckWindow()
        await self._link.open(self._consume)
        self.flush()
        if self._paused:
            self.pause()
        self._log.up()
        self._sink.link(up=True, reason="consuming")

    async def _consume(self) -> None:
        self._link.channel.add_on_cancel_callback(self._cancelled)
        prefetch = self._settings.receive_max if self._manual else None
        exchange = self._settings.exchange or EXCHANGE
        await self._link.consume(self._queue, self._addresses.filter, prefetch=prefetch, exchange=exchange)

    async def close(self) -> None:
        await self._connection.close()
        self.flush()
        self._generation = 0
        self._closing = True
        # The broker's answer to connection.close comes behind whatever a pause has left unread.
        self.resume()
        await self._link.close()
        self._closing = False

    def invalid(self, receipt: Receipt) -> None:
        """The broker is told what it is told of any message: it is taken."""

    def left_behind(self) -> str | None:
        return None

    def acknowledge(self, receipt: Receipt) -> None:
        if self._current(receipt):
            self._window.settle(receipt[1])
            if not self._flushing:
                self._flushing = True
                asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        self._flushing = False
        # Deliveries may come before `open` has seen the consumer confirmed; it then flushes itself.
        tag = self._window.take() if self._link.up else None
        if tag is not None:
            self._counts["acknowledgements"] += 1
            self._link.channel.basic_ack(tag, multiple=True)

    def pause(self) -> None:
        """Leave deliveries in the socket; the broker's heartbeats with them, so pika is told not to judge."""
        self._paused = True
        if self._link.up:
            self._link.stream.set_reading(reading=False)
            self._stop_tick()
            self._stay_alive()

    def resume(self) -> None:
        self._paused = False
        self._stop_tick()
        if self._link.up:
            self._link.stream.set_reading(reading=True)

    def endpoint(self) -> tuple[str, int]:
        return self._endpoint.host, self._endpoint.port

    def counters(self) -> Mapping[str, int]:
        return dict(self._counts)

    def lost(self, reason: str) -> None:
        self._connection.lost(reason)

    def dialling(self) -> None:
        """Said by the connection's keeper; nobody wants to know."""

    def dial_failed(self, error: ConnectError) -> None:
        """The next attempt follows."""
        self._log.failed(str(error))
        if isinstance(error, AccessRefusedError):
            self._sink.turned_away(str(error))

    def connection_lost(self, reason: str) -> None:
        self._log.lost(reason)
        self._counts["reconnects"] += 1
        self._generation = 0
        self._stop_tick()
        self._sink.link(up=False, reason=reason)

    def _cancelled(self, _frame: object) -> None:
        """Somebody has deleted the queue: declare it again."""
        self._link.drop("consumer cancelled by the broker")

    def _delivered(
        self, tag: int, redelivered: bool, key: bytes, payload: bytes, content_type: bytes
    ) -> None:
        if self._closing:
            return  # unacknowledged, it goes to another gateway or comes again
        received_at_ns, receipt = time.time_ns(), self._receipt(tag, redelivered)
        identity = self._vehicles.get(key)
        if identity is None:
            address = key.decode("utf-8", "replace")
            try:
                identity = self._addresses.vehicle_of(address)
            except ValueError as error:
                self._sink.misaddressed(address, payload, received_at_ns, receipt, str(error))
                return
            if len(self._vehicles) >= _CACHE_KEYS:
                self._vehicles.clear()
            self._vehicles[key] = identity
        if content_type:
            said = content_type.decode("utf-8", "replace")
            self._sink.take(identity, payload, received_at_ns, redelivered, receipt, said)
        else:
            self._sink.take(identity, payload, received_at_ns, redelivered, receipt)

    def _oversized(self, tag: int, redelivered: bool, key: bytes, beginning: bytes, size_bytes: int) -> None:
        if self._closing:
            return
        received_at_ns, receipt = time.time_ns(), self._receipt(tag, redelivered)
        reason = f"a payload of {size_bytes} bytes: a message may have {MAX_BODY_BYTES}"
        address = key.decode("utf-8", "replace")
        with contextlib.suppress(ValueError):
            address = self._addresses.vehicle_of(address)
        self._sink.oversized(
            address, beginning, received_at_ns, receipt, size_bytes=size_bytes, reason=reason
        )

    def _receipt(self, tag: int, redelivered: bool) -> Receipt:
        """Count a delivery, and return what acknowledges it."""
        self._counts["deliveries"] += 1
        if redelivered:
            self._counts["redelivered"] += 1
        return (self._generation, tag) if self._manual else None

    def _current(self, receipt: Receipt) -> bool:
        if receipt is None:
            return False  # automatic acknowledgement: the broker forgot the message when it sent it
        if receipt[0] == self._generation:
            return True
        self._counts["stale_receipts"] += 1
        return False

    def _stay_alive(self) -> None:
        self._link.alive()
        every_s = max(1.0, self._settings.keepalive_s / 4)
        self._tick = asyncio.get_running_loop().call_later(every_s, self._stay_alive)

    def _stop_tick(self) -> None:
        if self._tick is not None:
            self._tick.cancel()
            self._tick = None
