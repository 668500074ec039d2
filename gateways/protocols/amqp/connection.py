"""One AMQP 0-9-1 connection with one channel, awaited step by step; it neither publishes nor consumes.

pika parses what the broker says and calls back; here these callbacks become steps that can be awaited. Between two
steps the loop turns, and the broker may say two things in one segment: "consume-ok" and, behind it, "connection.close".
A flag that is set after the last step then says "up" of a connection that is gone, and nobody hears of its end again.

So each attempt is an object of its own, `_Attempt`, and it alone knows its life: dialling, up, lost. Lost is legal in
each, comes once, and stays: a step that begins or ends on a lost attempt raises its reason, and an attempt that was lost
can no longer become up. Callbacks are bound to their attempt, so those of an older one change nothing in the newer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import struct
import typing
from collections.abc import Callable
from typing import Any, Final

import pika
from pika.exceptions import (
    AMQPError,
    AuthenticationError,
    ChannelClosedByBroker,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
    StreamLostError,
)

from gateways.protocols.amqp.private_names import CarriedConnection
from gateways.protocols.amqp.reader import DeliveryReader, FrameError, Takers
from gateways.protocols.amqp.transport import Stream, connect_stream
from gateways.protocols.base import Endpoint
from gateways.protocols.ends import AccessRefusedError, ConnectError
from gateways.protocols.tcp import reason_of
from gateways.protocols.tls import TlsClient, refuses

EXCHANGE: Final = "amq.topic"  # exists in every virtual host (AMQP 0-9-1, 3.1.3.3): nobody has to declare it
# For which an end that closes waits for the broker's answer to connection.close.
LEAVE_TIMEOUT_S: Final = 5.0
_GUEST: Final = "guest"
# Bounds the copying in pika's frame buffer, which cuts its head off once per frame.
_PIECE_BYTES: Final = 8_192
# What our reader and pika raise for bytes that are no AMQP, or frames out of their order.
_NOISE: Final = (FrameError, AMQPError, IndexError, ValueError, struct.error)

# RabbitMQ closes the connection with 403, or at once where pika cannot say why.
_ACCESS_REFUSED: Final = (ProbableAuthenticationError, AuthenticationError, ProbableAccessDeniedError)

# Access, a queue or exchange that is not there, one that is locked, one that has other arguments.
_OPERATION_REFUSED: Final = frozenset({403, 404, 405, 406})
# Of these what a publish itself is refused for: no right to this key, too large. What is not there is declared again.
_PUBLISH_REFUSED: Final = frozenset({403, 406})

# pika logs every refused connection with a traceback; the reason reaches our callers in one line instead.
logging.getLogger("pika").setLevel(logging.CRITICAL)


class Owner(typing.Protocol):
    """Who uses the link."""

    def lost(self, reason: str) -> None:
        """An open link has ended, not by `close`."""


class _Attempt:
    """One connection, from its SYN to its end.

    Attributes:
        failure: why it is lost, in one line; None while it is not.
        up: the owner was told that it is, and has not been told of its loss.
        left: its owner ends it: the loss that follows is no news.
        publish_refused: the broker has closed the channel as it does over a publish that it will not take.
    """

    def __init__(
        self, endpoint: Endpoint, tls: TlsClient | None, timeout_s: float, on_lost: Callable[[str], None]
    ) -> None:
        self._endpoint = endpoint
        self._tls = tls
        self._timeout_s = timeout_s
        self._on_lost = on_lost
        self._step: asyncio.Future[Any] | None = None
        self._gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tap: Callable[[bytes], bytes] | None = None
        self._silent = False
        self._refused = False
        self.failure: str | None = None
        self.up = False
        self.left = False
        self.publish_refused = False
        self.connection: Any = None
        self.channel: Any = None
        self.stream: Stream | None = None

    async def dial(self, keepalive_s: int, source_address: str | None, takers: Takers | None) -> None:
        """Connect TCP and TLS, shake hands as AMQP does, and open the channel. Raises ConnectError."""
        endpoint = self._endpoint
        if takers is not None:
            self._tap = DeliveryReader(takers).feed
        try:
            async with asyncio.timeout(self._timeout_s):
                self.stream = await connect_stream(
                    lambda: Stream(self._receive, self._ended, _NOISE),
                    endpoint.host,
                    endpoint.port,
                    source_address=source_address,
                    tls=self._tls,
                )
        except TimeoutError as error:
            raise self._timed_out() from error
        except OSError as error:
            raise self._error(one_line(error), refused=refuses(error)) from error
        parameters = pika.ConnectionParameters(
            host=endpoint.host,
            port=endpoint.port,
            virtual_host=endpoint.virtual_host,
            credentials=_credentials(endpoint),
            heartbeat=keepalive_s,
            blocked_connection_timeout=None,
        )
        await self._await(lambda done: self._begin(parameters, done))
        self.channel = await self.call(self.connection.channel, on="on_open_callback")
        self.channel.add_on_close_callback(self._on_channel_closed)

    def _begin(self, parameters: pika.ConnectionParameters, done: Callable[[Any], None]) -> None:
        assert self.stream is not None
        self.connection = CarriedConnection(
            parameters, self.stream.write, self.stream.abort, opened=done, ended=self._on_ended
        )
        self.connection.begin()

    async def call(self, method: Callable[..., Any], *, on: str = "callback", **arguments: Any) -> Any:
        """Call one of pika's methods and return what its callback is given. Raises ConnectError."""
        return await self._await(lambda done: method(**arguments, **{on: done}))

    def require(self) -> None:
        """ConnectError with the reason once the attempt is lost."""
        if self.failure is not None:
            raise self._error(self.failure, refused=self._refused)

    def lost(self, reason: str, *, refused: bool = False) -> None:
        """Note the end, `refused` when the broker will not have who we are; legal at any time, and the first reason stands."""
        if self.failure is not None:
            return
        self.failure, self._refused = reason, refused
        up, self.up = self.up, False
        if self._step is not None and not self._step.done():
            self._step.set_exception(self._error(reason, refused=refused))
        if up and not self.left:
            self._on_lost(reason)

    async def leave(self) -> None:
        """Close channel and connection in order where the peer still answers, else drop them; never raises."""
        self.left = True
        self.up = False
        if self.stream is None:
            return
        if not self._gone.done() and self.connection is not None and not self._silent:
            with contextlib.suppress(AMQPError):
                self.connection.close()
            await asyncio.wait((self._gone,), timeout=LEAVE_TIMEOUT_S)
        if not self._gone.done():
            self.stream.lose(TimeoutError("the broker does not answer connection.close"))
            await self._gone

    async def _await(self, begin: Callable[[Callable[[Any], None]], Any]) -> Any:
        self.require()
        self._step = step = asyncio.get_running_loop().create_future()
        try:
            begin(self._done)
            async with asyncio.timeout(self._timeout_s):
                result = await step
        except TimeoutError as error:
            self._silent = True
            raise self._timed_out() from error
        except AMQPError as error:
            raise self._error(one_line(error)) from error
        finally:
            # An exception keeps this frame, and the future keeps the exception: that circle is cut here.
            self._step = None
            del step
        # The step may have succeeded in the same segment in which the connection went.
        self.require()
        return result

    def _done(self, result: Any) -> None:
        if self._step is not None and not self._step.done():
            self._step.set_result(result)

    def _receive(self, data: bytes) -> None:
        connection = self.connection
        if self._tap is not None:
            connection.heard()
            data = self._tap(data)
        for start in range(0, len(data), _PIECE_BYTES):
            try:
                connection.feed(data[start : start + _PIECE_BYTES])
            except _NOISE:
                raise
            except Exception as error:
                if not _raised_in_pika(error):
                    raise
                # pika has no word of its own for these: a method that is none, a body without its header.
                raise FrameError(f"frames that pika cannot read: {error!r}") from error

    def _ended(self, error: Exception | None) -> None:
        """The stream's end: pika must know, so that its timers and callbacks go."""
        if not self._gone.done():
            self._gone.set_result(None)
        if error is not None and refuses(error):
            self.lost(one_line(error), refused=True)  # before pika's own words for it, which do not tell
        if self.connection is not None:
            self.connection.end(None if error is None else StreamLostError(str(error), error))
        self.lost("the stream has ended" if error is None else one_line(error))
        asyncio.get_running_loop().call_soon(self._release)

    def _release(self) -> None:
        """Cut the circles of what has ended: a sender runs with the collector off, for hours."""
        if self.connection is not None:
            self.connection.forget()
        self.connection = self.channel = self.stream = self._tap = None

    def _on_ended(self, _connection: Any, error: BaseException) -> None:
        self.lost(one_line(error), refused=isinstance(error, _ACCESS_REFUSED))

    def _on_channel_closed(self, _channel: Any, error: BaseException) -> None:
        """The broker closes a channel for a refused operation (AMQP 0-9-1, 1.1: 403, 404, 405, 406); we then begin anew."""
        code = error.reply_code if isinstance(error, ChannelClosedByBroker) else None
        self.publish_refused = code in _PUBLISH_REFUSED
        self.lost(one_line(error), refused=code in _OPERATION_REFUSED)

    def _timed_out(self) -> ConnectError:
        return self._error(f"no answer in {self._timeout_s:g} s")

    def _error(self, reason: str, *, refused: bool = False) -> ConnectError:
        kind = AccessRefusedError if refused else ConnectError
        return kind(f"AMQP at {self._endpoint.host}:{self._endpoint.port}: {reason}")


class AmqpLink:
    """A connection and its only channel, again and again: one attempt at a time.

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
        takers: Takers | None = None,
    ) -> None:
        self._owner = owner
        self._takers = takers
        self._endpoint = endpoint
        self._tls = None if endpoint.tls is None else TlsClient(endpoint.tls)
        self._keepalive_s = keepalive_s
        self._timeout_s = timeout_s
        self._source_address = source_address
        self._attempt: _Attempt | None = None
        self.blocked = False
        self.on_unblocked: Callable[[], None] = _nothing

    @property
    def up(self) -> bool:
        return self._attempt is not None and self._attempt.up

    @property
    def publish_refused(self) -> bool:
        """Say whether the broker has closed the channel as it does over a publish that it will not take."""
        return self._attempt is not None and self._attempt.publish_refused

    @property
    def channel(self) -> Any:
        return None if self._attempt is None else self._attempt.channel

    @property
    def stream(self) -> Stream:
        assert self._attempt is not None
        assert self._attempt.stream is not None
        return self._attempt.stream

    async def open(self, prepare: Callable[[], Any] | None = None) -> None:
        """Connect, open the channel and await `prepare()` on it. Raises ConnectError and leaves nothing."""
        if self._attempt is not None:
            await self._attempt.leave()
        self.blocked = False
        self._attempt = attempt = _Attempt(self._endpoint, self._tls, self._timeout_s, self._owner.lost)
        try:
            await attempt.dial(self._keepalive_s, self._source_address, self._takers)
            attempt.connection.add_on_connection_blocked_callback(self._on_blocked)
            attempt.connection.add_on_connection_unblocked_callback(self._on_unblocked)
            if prepare is not None:
                await prepare()
            attempt.require()
        except BaseException:
            self._attempt = None
            await attempt.leave()
            raise
        attempt.up = True

    async def call(self, method: Callable[..., Any], *, on: str = "callback", **arguments: Any) -> Any:
        """Call one of pika's methods and return what its callback is given. Raises ConnectError."""
        if self._attempt is None:
            raise ConnectError(f"AMQP at {self._endpoint.host}:{self._endpoint.port}: not connected")
        return await self._attempt.call(method, on=on, **arguments)

    async def close(self) -> None:
        """Close channel and connection in order, within a few seconds; idempotent, never raises."""
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            await attempt.leave()

    async def consume(
        self,
        queue: str,
        routing_key: str,
        *,
        prefetch: int | None,
        exchange: str = EXCHANGE,
        arguments: dict[str, Any] | None = None,
    ) -> None:
        """Declare a durable queue, bind and consume it; without `prefetch` acknowledgement is automatic."""
        channel = self.channel
        await self.call(channel.queue_declare, queue=queue, durable=True, arguments=arguments)
        await self.call(channel.queue_bind, queue=queue, exchange=exchange, routing_key=routing_key)
        if prefetch is not None:
            await self.call(channel.basic_qos, prefetch_count=prefetch)
        # Deliveries never reach pika's callback: `DeliveryReader` takes them.
        await self.call(
            channel.basic_consume, queue=queue, on_message_callback=_nothing, auto_ack=prefetch is None
        )

    def drop(self, reason: str) -> None:
        """End the attempt at once because of something the peer did; one that is still dialling fails."""
        attempt = self._attempt
        if attempt is not None and attempt.stream is not None:
            attempt.stream.lose(ConnectionAbortedError(reason))
            attempt.lost(reason)

    def alive(self) -> None:
        """Tell pika's heartbeat check that the peer was heard though pika saw no byte of it."""
        if self.up and self._attempt is not None:
            self._attempt.connection.heard()

    def _on_blocked(self, _connection: Any, _method: Any) -> None:
        self.blocked = True

    def _on_unblocked(self, _connection: Any, _method: Any) -> None:
        self.blocked = False
        self.on_unblocked()


def _credentials(endpoint: Endpoint) -> Any:
    """Return who we say that we are; with a certificate and no name the certificate says it (SASL EXTERNAL)."""
    if endpoint.username is None and endpoint.tls is not None and endpoint.tls.certificate_file is not None:
        return pika.credentials.ExternalCredentials()
    return pika.PlainCredentials(endpoint.username or _GUEST, endpoint.password or _GUEST)


def one_line(error: BaseException) -> str:
    """Return the error's text in one line; pika wraps the cause, up to three deep."""
    while (inner := _inner(error)) is not None:
        error = inner
    if isinstance(error, ConnectionError):
        return reason_of(error)
    return " ".join((str(error) or type(error).__name__).split())


def _raised_in_pika(error: Exception) -> bool:
    """Say whether an exception comes from pika's own code, and not from what it calls back."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return at is not None and str(at.tb_frame.f_globals.get("__name__")).startswith("pika.")


def _inner(error: BaseException) -> BaseException | None:
    return next((c for c in error.args if isinstance(c, BaseException)), None)


def _nothing(*_: object) -> None:
    """Stands where nobody waits for the call."""
