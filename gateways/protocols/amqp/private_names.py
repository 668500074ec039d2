"""Every private name of pika that AMQP uses, with the reason; nothing else may use one.

A private name can change with any release. Those that stay are wrapped here, and tests/gateways/test_private_names.py
fails when the library no longer behaves as this file needs it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pika.connection

PRIVATE = (
    "_adapter_add_callback_threadsafe",
    "_adapter_call_later",
    "_adapter_connect_stream",
    "_adapter_disconnect_stream",
    "_adapter_emit_data",
    "_adapter_remove_timeout",
    "_on_data_available",
    "_on_stream_connected",
    "_on_stream_terminated",
)


class CarriedConnection(pika.connection.Connection):  # type: ignore[misc]
    """A pika connection whose bytes its owner carries.

    pika's public adapters cannot bind a source address, write one publish as three segments (which the byte counts of
    a run would show), and leave cycles of 5 kB for the collector with each refused connection; senders switch it off.
    Their I/O interface below (`pika.adapters.utils.nbio_interface`) says of itself that it is not public either.
    `pika.connection.Connection` is the class that pika's documentation tells adapters to extend, as its Twisted one
    does; only that the methods to override, and the three to call, are spelt with an underscore.

    Args:
        write, disconnect: where bytes go, and what ends the stream; `end(None)` must follow in a later turn.
        opened: called with the connection once the broker has opened it.
        ended: called with the connection and the reason when it could not be opened, or is closed.
    """

    def __init__(
        self,
        parameters: pika.connection.Parameters,
        write: Callable[[bytes], None],
        disconnect: Callable[[], None],
        *,
        opened: Callable[[Any], None],
        ended: Callable[[Any, BaseException], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._write = write
        self._disconnect = disconnect
        super().__init__(parameters, opened, ended, ended, internal_connection_workflow=False)

    def begin(self) -> None:
        """The stream is connected: say the protocol header."""
        self._on_stream_connected()

    def feed(self, data: bytes) -> None:
        """Parse what was read and call back; raises pika's AMQPError and others for bytes that make no sense."""
        self._on_data_available(data)

    def heard(self) -> None:
        """Let the heartbeat check know of bytes that were not fed."""
        self.bytes_received += 1

    def end(self, error: Exception | None) -> None:
        """The stream is gone, by itself with an error or, with None, because `disconnect` was called."""
        self._on_stream_terminated(error)

    def forget(self) -> None:
        """Drop all that an ended connection still holds: its callbacks hold itself in turn. Its last call."""
        self.__dict__.clear()

    def _adapter_call_later(self, delay: float, callback: Callable[[], Any]) -> asyncio.TimerHandle:
        return self._loop.call_later(delay, callback)

    def _adapter_remove_timeout(self, timeout_id: asyncio.TimerHandle) -> None:
        timeout_id.cancel()

    def _adapter_add_callback_threadsafe(self, callback: Callable[[], Any]) -> None:
        self._loop.call_soon_threadsafe(callback)

    def _adapter_connect_stream(self) -> None:
        raise NotImplementedError("the stream is connected before the connection is made")

    def _adapter_disconnect_stream(self) -> None:
        self._disconnect()

    def _adapter_emit_data(self, data: bytes) -> None:
        self._write(data)
