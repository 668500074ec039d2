"""The sink `aiokafka`: an event loop in a thread of its own, since the gateway's leaves the namespace that Kafka is in."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, KafkaTimeoutError

from gateways.sinks.kinds import SinkSettings
from gateways.sinks.threaded import AGAIN_S, END_S, Sending, ThreadedSink, error_of, settings_of
from schemas.kafka_login import python_settings


class AioSink(ThreadedSink):
    """An idempotent producer, one request of a broker on its way at a time.

    It repeats batches without end, but for those of a partition that has had no leader for 40 s, its request_timeout_ms:
    then the sink, and so the gateway, is at its end.
    """

    def __init__(self, name: str, settings: SinkSettings) -> None:
        super().__init__(name, settings)
        self._given: deque[Sending] = deque()
        self._waiting = False
        self._loop: asyncio.AbstractEventLoop
        self._some: asyncio.Event
        self._pumping: asyncio.Task[None] | None = None

    def _take(self, sending: Sending) -> None:
        self._given.append(sending)
        if self._waiting:
            self._loop.call_soon_threadsafe(self._some.set)

    def _serve(self, opened: Callable[[], None]) -> None:
        asyncio.run(self._produce(opened))

    async def _produce(self, opened: Callable[[], None]) -> None:
        self._loop, self._some = asyncio.get_running_loop(), asyncio.Event()
        settings = self._settings
        producer = AIOKafkaProducer(
            **python_settings(settings.bootstrap, settings.login),
            **settings_of(settings).for_aiokafka(),
            client_id="ivsim-gateway",
        )
        try:
            await producer.start()
            opened()
            self._pumping = asyncio.create_task(self._pump(producer))
            with suppress(asyncio.CancelledError):
                await self._pumping
        finally:
            self._waiting = False
            with suppress(TimeoutError):
                await asyncio.wait_for(producer.stop(), END_S)
            await producer.client.close()

    async def _pump(self, producer: Any) -> None:
        given, some = self._given, self._some
        while not self._ending.is_set():
            while given:
                await self._send(producer, given.popleft())
            some.clear()
            self._waiting = True
            # Whoever gave one before it saw that somebody waits wakes nobody.
            if not given:
                await some.wait()
            self._waiting = False

    async def _send(self, producer: Any, sending: Sending) -> None:
        topic, value, key, headers, _ = sending
        while not self._ending.is_set():
            try:
                future = await producer.send(topic, value, key, headers=headers)
            except KafkaError as error:
                # It found no room or no partition in time, and has not taken the record.
                if not (error.retriable or isinstance(error, KafkaTimeoutError)):
                    self._failed(sending, error)
                    return
                await asyncio.sleep(AGAIN_S)
            else:
                future.add_done_callback(partial(self._answered, sending))
                return

    def _answered(self, sending: Sending, future: asyncio.Future[Any]) -> None:
        if future.cancelled():
            return
        error = future.exception()
        if error is None:
            self._report(sending, None)
        else:
            self._failed(sending, error)

    def _failed(self, sending: Sending, error: BaseException) -> None:
        self._report(sending, error_of(getattr(error, "errno", None), str(error) or type(error).__name__))

    def _end(self) -> None:
        if self._pumping is not None:
            with suppress(RuntimeError):  # its loop is over already
                self._loop.call_soon_threadsafe(self._pumping.cancel)

    def _shut(self) -> None:
        """Do nothing: the thread ends with its producer."""


def opened(settings: SinkSettings) -> AioSink:
    """Return the sink `aiokafka`."""
    return AioSink("aiokafka", settings)
