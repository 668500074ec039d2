"""One gateway process: opens Kafka, the namespace, the intake, and closes them in reverse."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateways import metrics
from gateways.batched_delivery import BatchedDelivery
from gateways.batching.partition import partitioner
from gateways.batching.period import Period
from gateways.batching.producer_statistics import ProducerWatch
from gateways.bridge import Bridge
from gateways.config import GatewayConfig
from gateways.confirmed_delivery import ConfirmedDelivery
from gateways.counters import Counters
from gateways.health import Health, Verdict
from gateways.in_flight import InFlightLog
from gateways.kafka_delivery import KafkaDelivery
from gateways.producer import RecordProducer
from gateways.protocols import protocol_and_mode
from gateways.protocols.ends import ConnectError
from gateways.receive_log import ReceiveLog
from gateways.resume import Progress, read_progress
from gateways.sinks import PLATFORM_SINKS, SINKS
from gateways.sinks.kinds import SinkSettings
from gateways.sinks.sink import Sink
from gateways.watched_delivery import WatchedDelivery
from schemas.control import emit, failure_line
from schemas.errors import Refusal
from schemas.formats import FORMATS
from schemas.formats.media_types import formats_by_media_type
from schemas.loop_commands import Commands, stop_on_signal
from schemas.namespace import enter
from schemas.page_server import PageServer, listening_socket
from schemas.topics import KafkaTopics

if TYPE_CHECKING:
    from gateways.batch_control import BatchControl

_PROGRESS_S = 0.5


class GatewayProcess:
    """From `ready` to `done`, until a signal or its owner ends it.

    Args:
        protocol: a name of PROTOCOLS.
        config: checked.
        tell: takes what happens, by the names of events of schemas.control: `ready`, `progress`, `done`, `error`.
        owned: whoever started it speaks to it by standard input, whose end is the owner's; else signals alone end it.
    """

    def __init__(
        self,
        protocol: str,
        config: GatewayConfig,
        tell: Callable[..., None] = emit,
        *,
        owned: bool = True,
    ) -> None:
        self._config = config
        self._tell = tell
        self._owned = owned
        self._health = Health(time.monotonic())
        self._protocol, self._mode = protocol_and_mode(protocol, config.mode)
        self._protocol.check_scheme(config.address)
        self._topics = KafkaTopics(config.topics_prefix)
        self._stop = asyncio.Event()
        self._failure: str | None = None
        self._told_refusal = ("", 0)
        self._refusals_seen = 0
        self._cpu_at_ready_s = 0.0
        self._bridge: Bridge
        self._watch = ProducerWatch(self._topics.status)
        self._period: Period | None = None
        self._control: BatchControl | None = None
        self._in_flight: InFlightLog | None = None
        self._confirmed: ReceiveLog | None = None

    async def run(self) -> int:
        """Return the exit code; Refusal for what is wrong before anything was taken."""
        # The order matters: a sink's threads and the page's socket keep the namespace they were born in.
        with contextlib.ExitStack() as stack:
            page_socket = self._page_socket()
            if page_socket is not None:
                stack.callback(page_socket.close)
            if self._config.kafka_inside and self._config.namespace is not None:
                enter(self._config.namespace)
            self._open_logs(stack)
            sink = self._sink()
            stack.callback(sink.close)
            sink.require_topics((self._topics.status, self._topics.dead_letter))
            progress = self._progress()
            if self._config.namespace is not None:
                enter(self._config.namespace)
            self._bridge = self._build(sink, progress)
            stack.callback(self._bridge.close)
            self._control = self._batch_control(sink)
            if self._control is not None:
                stack.callback(self._control.close)
            async with self._page(page_socket):
                return await self._serve(page_socket)

    def _open_logs(self, stack: contextlib.ExitStack) -> None:
        """Open the logs that the producer fills to its end, and that so close behind it."""
        if self._config.in_flight_log is not None:
            self._in_flight = InFlightLog(Path(self._config.in_flight_log), self._topics.status)
            stack.callback(self._in_flight.close)
        if self._config.confirmed_log is not None:
            self._confirmed = ReceiveLog(Path(self._config.confirmed_log))
            stack.callback(self._confirmed.close)

    def _progress(self) -> Progress:
        """Where sequences wrap, a gateway must know how far the one before it had come."""
        if FORMATS[self._config.format].sequence_modulus is None:
            return {}
        return read_progress(self._config.bootstrap, self._topics.status, login=self._config.kafka_login)

    def _sink(self) -> Sink:
        config, batching = self._config, self._config.batching
        most, statistics = None, None
        if batching is not None:
            # A count that is chosen anew may be any up to what the gateway holds.
            most = config.receive_max if batching.chooses else batching.messages
            statistics = self._watch.take if batching.chooses else None
        settings = SinkSettings(
            config.bootstrap,
            config.held_bytes_max,
            config.kafka_login,
            most,
            statistics,
            linger_ms=config.linger_ms,
            more=config.kafka_producer,
            java=config.java,
        )
        if config.platform in PLATFORM_SINKS:
            return PLATFORM_SINKS[config.platform].open(settings)
        return SINKS[config.kafka_client].open(settings)

    def _delivery(self, sink: Sink, counters: Counters) -> KafkaDelivery:
        common: dict[str, Any] = {
            "producer": sink,
            "topics": self._topics,
            "counters": counters,
            "early_ack": self._config.early_ack,
            "fatal": self._fail,
            "in_flight": None if self._in_flight is None else self._in_flight.note,
        }
        batching = self._config.batching
        if self._confirmed is not None:
            return ConfirmedDelivery(log=self._confirmed, **common)
        if batching is None:
            return KafkaDelivery(**common)
        assert isinstance(sink, RecordProducer), "the configuration has refused others"
        common["setting"] = batching.setting()
        common["partition_of"] = partitioner(sink.partitions(self._topics.status))
        if batching.limit_ms is None or not batching.chooses:
            return BatchedDelivery(**common)
        self._period = Period(batching.limit_ms, time.monotonic())
        return WatchedDelivery(period=self._period, **common)

    def _batch_control(self, sink: Sink) -> BatchControl | None:
        """Return what chooses the setting of the batches; None where it stays."""
        batching, delivery = self._config.batching, self._bridge.delivery
        if batching is None or self._period is None or not isinstance(delivery, BatchedDelivery):
            return None
        assert isinstance(sink, RecordProducer), "the configuration has refused others"
        from gateways.batch_control import controlled  # noqa: PLC0415 - slow to import, and few gateways choose

        return controlled(
            batching,
            self._config.receive_max,
            sink.partitions(self._topics.status),
            delivery=delivery,
            period=self._period,
            watch=self._watch,
            kafka_ports=sink.broker_ports(),
            stops=self._stops,
        )

    def _stops(self) -> tuple[int, bool]:
        """Return how often back-pressure has stopped the intake, and whether it does now.

        A peer that obeys the protocol's own limit (MQTT's receive maximum, AMQP's prefetch) is stopped without a pause.
        """
        bridge = self._bridge
        full = bridge.delivery.held >= self._config.receive_max
        return bridge.counters.pauses, bridge.paused or full

    def _build(self, sink: Sink, progress: Progress) -> Bridge:
        config = self._config
        counters = Counters()
        delivery = self._delivery(sink, counters)
        bridge = Bridge(
            delivery=delivery,
            counters=counters,
            payload_format=FORMATS[config.format],
            by_media_type=formats_by_media_type(config.format),
            protocol=self._protocol.name,
            mode=self._mode.name,
            held_max=config.receive_max,
            held_bytes_max=config.held_bytes_max,
            drop=frozenset(config.faults.drop),
            mislabel=frozenset(config.faults.mislabel),
            log=None if config.receive_log is None else ReceiveLog(Path(config.receive_log)),
            progress=progress,
        )
        settings = config.intake_settings()
        bridge.connect(self._protocol.intake(config.endpoint(), self._mode, bridge, settings))
        return bridge

    async def _serve(self, page_socket: socket.socket | None) -> int:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._broken)
        stop_on_signal(self._stop)
        intake = self._bridge.intake
        try:
            await intake.open()
        except ConnectError as error:
            raise Refusal(str(error)) from None
        host, port = intake.endpoint()
        # What lives now lives to the end: the collector need not walk it again.
        gc.collect()
        gc.freeze()
        metrics_port = None if page_socket is None else page_socket.getsockname()[1]
        self._tell("ready", host=host, port=port, metrics_port=metrics_port)
        self._cpu_at_ready_s = time.process_time()
        tasks = [asyncio.ensure_future(self._obey()), asyncio.ensure_future(self._report())]
        if self._control is not None and self._config.batching is not None:
            tasks.append(asyncio.ensure_future(self._control.run(self._config.batching.period_s)))
        await self._stop.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return await self._end()

    async def _end(self) -> int:
        """Stop taking, let Kafka have what is held, acknowledge it, take leave."""
        intake = self._bridge.intake
        intake.pause()
        failed = self._failure is not None
        drained = await self._bridge.drain(0 if failed else self._config.stop_timeout_s)
        await intake.close()
        if self._failure is not None:
            left = intake.left_behind()
            self._tell("error", message=self._failure if left is None else f"{self._failure}; {left}")
            return 1
        cpu_s = time.process_time() - self._cpu_at_ready_s
        self._tell("done", drained=drained, cpu_s=cpu_s, **self._numbers())
        if (left := intake.left_behind()) is not None:
            self._tell("error", message=left)
            return 1
        return 0

    async def _obey(self) -> None:
        """Follow the owner's commands; the end of the pipe means that the owner is gone."""
        if not self._owned:
            return
        commands = await Commands.open("stop")
        await commands.next()
        self._stop.set()

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(_PROGRESS_S)
            bridge = self._bridge
            self._health.note(bridge.delivery.held, bridge.counters.delivered, time.monotonic())
            self._tell("progress", **self._numbers())
            self._tell_refusal(bridge.counters)

    def _tell_refusal(self, counters: Counters) -> None:
        """Tell each reason once in each time without a connection."""
        if counters.connections_refused == self._refusals_seen:
            return
        self._refusals_seen = counters.connections_refused
        refusal = (counters.last_refusal, counters.connections_lost)
        if refusal != self._told_refusal:
            self._told_refusal = refusal
            self._tell("turned_away", reason=counters.last_refusal)

    def _fail(self, reason: str) -> None:
        if self._failure is None:
            self._failure = reason
            self._stop.set()

    def _broken(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """End on an error that nobody was there to take: going on half-dead would hold messages for ever."""
        loop.default_exception_handler(context)
        self._fail(failure_line(context))

    def _numbers(self) -> dict[str, int]:
        bridge = self._bridge
        return {
            **bridge.counters.numbers(),
            **bridge.intake.counters(),
            "held": bridge.delivery.held,
            "held_bytes": bridge.delivery.held_bytes,
            "paused": int(bridge.paused),
        }

    def _verdict(self) -> Verdict:
        bridge = self._bridge
        counters = bridge.counters
        return self._health.verdict(
            bool(counters.connected), counters.last_connection_loss, bridge.delivery.held, time.monotonic()
        )

    def _page_socket(self) -> socket.socket | None:
        port = self._config.metrics_port
        if port is None:
            return None
        try:
            return listening_socket(port)
        except OSError as error:
            raise Refusal(f"metrics port {port}: {error.strerror}") from None

    @contextlib.asynccontextmanager
    async def _page(self, page_socket: socket.socket | None) -> AsyncIterator[None]:
        if page_socket is None:
            yield
            return
        labels = {"protocol": self._protocol.name, "mode": self._mode.name, "gateway": self._config.name}
        gauges = metrics.GAUGES | self._protocol.gauges
        async with PageServer(
            page_socket,
            lambda target: metrics.answer(
                target, lambda: metrics.page(self._numbers(), gauges, labels), self._verdict
            ),
        ):
            yield
