"""Echo topology's AMQP 0-9-1 receiver: a queue of its own for one vehicle, on the vehicle's address."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Final

from gateways.protocols.amqp_link import EXCHANGE, AmqpLink
from gateways.protocols.base import (
    Backoff,
    ConnectError,
    Endpoint,
    Mode,
    SubscriberEvents,
    VehicleSettings,
    keep_trying,
)
from schemas.topics import amqp_routing_key, vehicle_id

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
        self._reopen: asyncio.Task[None] | None = None
        self._link = AmqpLink(
            self,
            endpoint,
            keepalive_s=settings.keepalive_s,
            timeout_s=settings.connect_timeout_s,
            source_address=settings.source_address,
            deliver=self._delivered,
        )

    async def open(self) -> None:
        await self._link.open(self._consume)

    async def _consume(self) -> None:
        link, channel = self._link, self._link.channel
        await link.call(
            channel.queue_declare,
            queue=self._queue,
            durable=True,
            arguments={"x-expires": self._settings.session_expiry_s * _MILLISECONDS},
        )
        await link.call(channel.queue_bind, queue=self._queue, exchange=EXCHANGE, routing_key=self._key)
        if self._manual:
            await link.call(channel.basic_qos, prefetch_count=self._settings.receive_max)
        await link.call(
            channel.basic_consume,
            queue=self._queue,
            on_message_callback=_read_elsewhere,
            auto_ack=not self._manual,
        )

    async def close(self) -> None:
        if self._reopen is not None:
            self._reopen.cancel()
        if self._link.up:
            with contextlib.suppress(ConnectError):
                await self._link.call(self._link.channel.queue_delete, queue=self._queue)
        await self._link.close()

    def lost(self, reason: str) -> None:
        del reason
        self._reopen = asyncio.ensure_future(keep_trying(self.open, Backoff()))

    def _delivered(self, tag: int, redelivered: bool, key: bytes, payload: bytes) -> None:
        del key
        self._events.received(payload, time.time_ns(), redelivered)
        if self._manual and self._link.channel is not None:
            self._link.channel.basic_ack(tag)


def _read_elsewhere(*_arguments: object) -> None:
    """Deliveries never reach pika: `DeliveryReader` takes them."""
