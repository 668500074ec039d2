"""One AMQP 0-9-1 connection with one channel, awaited step by step; it neither publishes nor consumes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import typing
from collections.abc import Callable
from typing import Any, Final

import pika
from pika.adapters.asyncio_connection import AsyncioConnection
from pika.exceptions import AMQPError

from gateways.protocols.amqp_services import Services, Stream
from gateways.protocols.amqp_wire import Deliver, DeliveryReader
from gateways.protocols.base import ConnectError, Endpoint
from gateways.protocols.tls import tls_context

EXCHANGE: Final = "amq.topic"  # exists in every virtual host (AMQP 0-9-1, 3.1.3.3): nobody has to declare it
_LEAVE_TIMEOUT_S: Final = 5.0
_GUEST: Final = "guest"

# pika logs every refused connection with a traceback; the reason reaches our callers in one line instead.
logging.getLogger("pika").setLevel(logging.CRITICAL)


class Owner(typing.Protocol):
    """Who uses the link."""

    def lost(self, reason: str) -> None:
        """An open link has ended, not by `close`."""


class AmqpLink:
    """A connection and its only channel.

    Attributes:
        blocked: RabbitMQ has asked publishers to stop (connection.blocked: memory or disk alarm).
    """

    def __init__(
        self,
        owner: Owner,
        endpoint: Endpoint,
        *,
        keepalive_s: int,
        timeout_s: float,
        source_address: str | None = None,
        deliver: Deliver | None = None,
    ) -> None:
        self._owner = owner
        self._deliver = deliver
        self._endpoint = endpoint
        self._keepalive_s = keepalive_s
        self._timeout_s = timeout_s
        self._source_address = source_address
        self._connection: Any = None
        self._channel: Any = None
        self._services: Services | None = None
        self._step: asyncio.Future[Any] | None = None
        self._gone: asyncio.Future[None] | None = None
        self._up = False
        self.blocked = False
        self.on_unblocked: Callable[[], None] = _nothing

    @property
    def up(self) -> bool:
        return self._up

    @property
    def channel(self) -> Any:
        return self._channel

    @property
    def stream(self) -> Stream:
        assert self._services is not None
        assert self._services.stream is not None
        return self._services.stream

    async def open(self, prepare: Callable[[], Any] | None = None) -> None:
        """Connect, open the channel and await `prepare()` on it. Raises ConnectError and leaves nothing."""
        loop = asyncio.get_running_loop()
        self._services = Services(self._source_address, self._tap())
        self.blocked = False
        self._gone = loop.create_future()
        try:
            self._connection = await self._await(self._dial, self._timeout_s + 5.0)
            self._connection.add_on_connection_blocked_callback(self._on_blocked)
            self._connection.add_on_connection_unblocked_callback(self._on_unblocked)
            self._channel = await self.call(self._connection.channel, on="on_open_callback")
            self._channel.add_on_close_callback(self._on_channel_closed)
            if prepare is not None:
                await prepare()
        except BaseException:
            await self._leave()
            raise
        self._up = True

    async def call(self, method: Callable[..., Any], *, on: str = "callback", **arguments: Any) -> Any:
        """Call one of pika's methods and return what its callback is given. Raises ConnectError."""
        return await self._await(lambda done: method(**arguments, **{on: done}), self._timeout_s)

    async def close(self) -> None:
        """Close channel and connection in order, within a few seconds; idempotent, never raises."""
        self._up = False
        await self._leave()

    async def consume(
        self, queue: str, routing_key: str, *, prefetch: int | None, arguments: dict[str, Any] | None = None
    ) -> None:
        """Declare a durable queue, bind and consume it; without `prefetch` acknowledgement is automatic."""
        channel = self._channel
        await self.call(channel.queue_declare, queue=queue, durable=True, arguments=arguments)
        await self.call(channel.queue_bind, queue=queue, exchange=EXCHANGE, routing_key=routing_key)
        if prefetch is not None:
            await self.call(channel.basic_qos, prefetch_count=prefetch)
        # Deliveries never reach pika's callback: `DeliveryReader` takes them.
        await self.call(
            channel.basic_consume, queue=queue, on_message_callback=_nothing, auto_ack=prefetch is None
        )

    def drop(self, reason: str) -> None:
        """End an open link at once because of something the peer did."""
        if self._up:
            self._up = False
            if self._services is not None and self._services.stream is not None:
                self._services.stream.lose(ConnectionAbortedError(reason))
            self._owner.lost(reason)

    def alive(self) -> None:
        """Tell pika's heartbeat check that the peer was heard though pika saw no byte of it."""
        if self._connection is not None:
            self._connection.bytes_received += 1

    def _tap(self) -> Callable[[bytes], bytes] | None:
        if self._deliver is None:
            return None
        reader = DeliveryReader(self._deliver)

        def feed(data: bytes) -> bytes:
            self.alive()
            return reader.feed(data)

        return feed

    def _dial(self, done: Callable[[Any], None]) -> None:
        endpoint = self._endpoint
        tls = endpoint.tls
        parameters = pika.ConnectionParameters(
            host=endpoint.host,
            port=endpoint.port,
            credentials=pika.PlainCredentials(endpoint.username or _GUEST, endpoint.password or _GUEST),
            heartbeat=self._keepalive_s,
            socket_timeout=self._timeout_s,
            stack_timeout=self._timeout_s,
            blocked_connection_timeout=None,
            connection_attempts=1,
            ssl_options=None if tls is None else pika.SSLOptions(tls_context(tls), endpoint.host),
        )
        self._connection = AsyncioConnection(
            parameters,
            on_open_callback=done,
            on_open_error_callback=self._ended,
            on_close_callback=self._ended,
            custom_ioloop=self._services,
        )

    async def _await(self, begin: Callable[[Callable[[Any], None]], Any], timeout_s: float) -> Any:
        loop = asyncio.get_running_loop()
        self._step = step = loop.create_future()
        try:
            begin(lambda result: None if step.done() else step.set_result(result))
            return await asyncio.wait_for(step, timeout_s)
        except TimeoutError as error:
            raise ConnectError(f"AMQP at {self._where}: no answer in {timeout_s:g} s") from error
        except AMQPError as error:
            raise ConnectError(f"AMQP at {self._where}: {one_line(error)}") from error
        finally:
            self._step = None

    async def _leave(self) -> None:
        connection = self._connection
        if connection is None or self._gone is None:
            return
        if not self._gone.done():
            with contextlib.suppress(AMQPError):
                connection.close()
            await asyncio.wait((self._gone,), timeout=_LEAVE_TIMEOUT_S)
        if not self._gone.done() and self._services is not None and self._services.stream is not None:
            self._services.stream.lose(TimeoutError("the broker does not answer connection.close"))
            await asyncio.wait((self._gone,), timeout=_LEAVE_TIMEOUT_S)
        self._connection = self._channel = None

    def _on_blocked(self, _connection: Any, _method: Any) -> None:
        self.blocked = True

    def _on_unblocked(self, _connection: Any, _method: Any) -> None:
        self.blocked = False
        self.on_unblocked()

    def _on_channel_closed(self, channel: Any, error: BaseException) -> None:
        """The broker closes a channel for a refused operation (403, 404, 406); we then begin anew."""
        if channel is not self._channel:
            return
        if self._step is not None and not self._step.done():
            self._step.set_exception(ConnectError(f"AMQP at {self._where}: {one_line(error)}"))
        self.drop(one_line(error))

    def _ended(self, connection: Any, error: BaseException) -> None:
        if connection is not self._connection:
            return  # the end of a connection that was dropped before the present one began
        reason = one_line(error)
        if self._gone is not None and not self._gone.done():
            self._gone.set_result(None)
        if self._step is not None and not self._step.done():
            self._step.set_exception(ConnectError(f"AMQP at {self._where}: {reason}"))
        if self._up:
            self._up = False
            self._owner.lost(reason)

    @property
    def _where(self) -> str:
        return f"{self._endpoint.host}:{self._endpoint.port}"


def one_line(error: BaseException) -> str:
    """Return the error's text in one line; pika wraps the cause, up to three deep."""
    while (inner := _inner(error)) is not None:
        error = inner
    return " ".join((str(error) or type(error).__name__).split())


def _inner(error: BaseException) -> BaseException | None:
    attempts = getattr(error, "exceptions", None)
    candidates = (*(attempts or ())[-1:], getattr(error, "exception", None), *error.args)
    return next((c for c in candidates if isinstance(c, BaseException)), None)


def _nothing(*_: object) -> None:
    """Stands where nobody waits for the call."""
