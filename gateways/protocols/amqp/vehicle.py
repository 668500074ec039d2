"""A vehicle's AMQP 0-9-1 end: publishes under its own routing key and keeps what is not confirmed yet."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass
from typing import Any, Final

import pika

from gateways.protocols.amqp.address import amqp_routing_key
from gateways.protocols.amqp.connection import EXCHANGE, AmqpLink
from gateways.protocols.base import Endpoint, Mode, VehicleSettings
from gateways.protocols.ends import VehicleEvents
from schemas.topics import vehicle_id

_TRANSIENT, _PERSISTENT = 1, 2
# A nack or an unroutable message means "not now": the queue is full, or the gateway has not declared it.
AGAIN_AFTER_S: Final = 1.0


@dataclass(slots=True)
class Unconfirmed:
    """A message the broker has not answered for; `returned`: it could not be routed, and what the broker said."""

    token: int
    payload: bytes
    returned: str = ""


class AmqpVehicle:
    """One vehicle's publisher on its own connection.

    A broker refuses a message for good by closing the channel (403, and 406 for one that is too large), and does not say which.
    With one unconfirmed it is that one. With several, they go one at a time on the next connection, until one is refused so
    or all are confirmed. Without confirms nothing is known of any, and nothing is sent again.
    """

    def __init__(
        self, endpoint: Endpoint, vehicle: int, mode: Mode, events: VehicleEvents, settings: VehicleSettings
    ) -> None:
        self._key = amqp_routing_key(vehicle_id(vehicle))
        self._confirms: bool = mode.options["confirms"]
        self._properties = pika.BasicProperties(
            delivery_mode=_PERSISTENT if mode.options["persistent"] else _TRANSIENT
        )
        self._events = events
        self._settings = settings
        self._unconfirmed: dict[int, Unconfirmed] = {}
        self._again: list[Unconfirmed] = []
        # Of several one at a time: those whose turn is still to come.
        self._suspected = False
        self._queue: deque[Unconfirmed] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._published = 0
        self._link = AmqpLink(
            self,
            endpoint,
            keepalive_s=settings.keepalive_s,
            timeout_s=settings.connect_timeout_s,
            source_address=settings.source_address,
        )
        self._link.on_unblocked = events.writable

    async def connect(self) -> None:
        await self._link.open(self._prepare)
        self._link.stream.on_drained = self._events.writable
        # A new channel counts anew; what the old one did not confirm goes first, in its order.
        waiting = [*self._unconfirmed.values(), *self._again, *self._queue]
        self._unconfirmed, self._again, self._published = {}, [], 0
        self._queue = deque(waiting)
        self._publish_next()
        self._events.connected(time.time_ns(), session_present=False)

    async def _prepare(self) -> None:
        if self._confirms:
            channel = self._link.channel
            channel.add_on_return_callback(self._on_returned)
            await self._link.call(channel.confirm_delivery, ack_nack_callback=self._on_confirmed)

    async def close(self) -> None:
        self._stop_timer()
        await self._link.close()

    def ready(self) -> bool:
        link = self._link
        return (
            link.up
            and not link.blocked
            and not link.stream.congested
            and not self._queue
            and len(self._unconfirmed) + len(self._again) < self._settings.receive_max
        )

    def in_flight(self) -> int:
        if self._confirms:
            return len(self._unconfirmed) + len(self._again) + len(self._queue)
        return int(self._link.up and self._link.stream.unwritten())

    def send(self, token: int, payload: bytes) -> None:
        self._publish(Unconfirmed(token, payload))

    def _publish(self, message: Unconfirmed) -> None:
        if self._confirms:
            self._published += 1
            self._unconfirmed[self._published] = message
        # `mandatory`: without a queue to keep it a message would be confirmed and gone (RabbitMQ, Confirms).
        self._link.channel.basic_publish(
            EXCHANGE, self._key, message.payload, self._properties, mandatory=self._confirms
        )

    def _publish_next(self) -> None:
        """Publish what waits for its turn: all of it, or the next one where the broker has refused one of several."""
        while self._queue and not (self._suspected and self._unconfirmed):
            self._publish(self._queue.popleft())
        self._suspected = self._suspected and bool(self._queue)

    def lost(self, reason: str) -> None:
        self._stop_timer()
        if self._link.publish_refused and self._unconfirmed:
            if len(self._unconfirmed) == 1:
                _, message = self._unconfirmed.popitem()
                self._events.refused(message.token, reason)
            else:
                self._suspected = True
        self._events.disconnected(time.time_ns(), reason)

    def _on_returned(self, _channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        for message in self._unconfirmed.values():
            if not message.returned and message.payload == body:
                message.returned = f"basic.return {method.reply_code} {method.reply_text}"
                return

    def _on_confirmed(self, frame: Any) -> None:
        at_ns = time.time_ns()
        method = frame.method
        accepted = method.NAME == "Basic.Ack"
        for tag in self._tags(method.delivery_tag, method.multiple):
            message = self._unconfirmed.pop(tag)
            if accepted and not message.returned:
                self._events.acknowledged(message.token, at_ns)
            else:
                self._events.postponed(message.token, message.returned or "basic.nack")
                self._later(message)
        self._publish_next()

    def _tags(self, tag: int, multiple: bool) -> list[int]:
        if not multiple:
            return [tag] if tag in self._unconfirmed else []
        # Tag 0 with `multiple` stands for all (AMQP 0-9-1, 1.8.3.13).
        return [known for known in self._unconfirmed if known <= tag or tag == 0]

    def _later(self, message: Unconfirmed) -> None:
        message.returned = ""
        self._again.append(message)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(AGAIN_AFTER_S, self._publish_again)

    def _publish_again(self) -> None:
        self._timer = None
        if self._link.up:
            waiting, self._again = self._again, []
            for message in waiting:
                self._publish(message)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
