"""Echo topology's AMQP 0-9-1 receiver: a queue of its own for one vehicle, on the vehicle's address."""

from __future__ import annotations

import contextlib
import time
from typing import Final

from gateways.protocols.amqp.address import amqp_routing_key
from gateways.protocols.amqp.connection import AmqpLink
from gateways.protocols.amqp.reader import Takers
from gateways.protocols.base import Endpoint, Mode, VehicleSettings
from gateways.protocols.ends import ConnectError, SubscriberEvents
from schemas.topics import vehicle_id

_MILLISECONDS: Final = 1000


def echo_queue(prefix: str, identity: str) -> str:
    """Return the name of the queue that only this vehicle's account may touch."""
    return f"{prefix}echo.{identity}"


class AmqpSubscriber:
    """Consumes its queue; the queue outlives a lost connection and goes with `close`, or by expiry."""

    def __init__(
        self,
        endpoint: Endpoint,
        vehicle: int,
        mode: Mode,
        events: SubscriberEvents,
        settings: VehicleSettings,
    ) -> None:
        identity = vehicle_id(vehicle)
        self._key = amqp_routing_key(identity)
        self._queue = echo_queue(settings.client_prefix, identity)
        self._manual = mode.options["ack"] == "manual"
        self._events = events
        self._settings = settings
        self._link = AmqpLink(
            self,
            endpoint,
            keepalive_s=settings.keepalive_s,
            timeout_s=settings.connect_timeout_s,
            source_address=settings.source_address,
            takers=Takers(self._delivered, self._oversized),
        )

    async def open(self) -> None:
        await self._link.open(self._consume)

    async def _consume(self) -> None:
        prefetch = self._settings.receive_max if self._manual else None
        # RabbitMQ takes no expiry of zero.
        expires_ms = max(1, self._settings.session_expiry_s * _MILLISECONDS)
        await self._link.consume(
            self._queue, self._key, prefetch=prefetch, arguments={"x-expires": expires_ms}
        )

    async def close(self) -> None:
        if self._link.up:
            with contextlib.suppress(ConnectError):
                await self._link.call(self._link.channel.queue_delete, queue=self._queue)
        await self._link.close()

    def lost(self, reason: str) -> None:
        self._events.disconnected(time.time_ns(), reason)

    def _delivered(
        self, tag: int, redelivered: bool, key: bytes, payload: bytes, content_type: bytes
    ) -> None:
        del key, content_type
        self._events.received(payload, time.time_ns(), redelivered)
        self._settle(tag)

    def _oversized(self, tag: int, redelivered: bool, key: bytes, beginning: bytes, size_bytes: int) -> None:
        """One that is over the limit is none of a vehicle's."""
        del redelivered, key, beginning, size_bytes
        self._settle(tag)

    def _settle(self, tag: int) -> None:
        if self._manual and self._link.channel is not None:
            self._link.channel.basic_ack(tag)
