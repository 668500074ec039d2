"""Sinks of libraries that wait, or that have an event loop of their own: a thread of theirs sends, the gateway's only polls.

The thread is started before the gateway enters its vehicles' namespace, and so are the library's own. What the library
will not take now is offered again before the next record; what it takes it repeats by itself, without end and
idempotently. A record that its topic is too small for is never given to it: behind one that Kafka has refused some
libraries send nothing more, or out of sequence. So if a library gives a record up there is nothing more to be sent in
order: the gateway ends, and what is unacknowledged comes again.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from queue import SimpleQueue
from typing import ClassVar, Final, NamedTuple

from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from gateways.delivery import Header
from gateways.sinks.arguments import ProducerSettings
from gateways.sinks.kinds import SinkSettings
from gateways.sinks.records import LARGEST_BYTES, POISON
from gateways.sinks.sink import DeliveryReport
from gateways.sinks.topics import message_limits, require_topics
from schemas.errors import Refusal
from schemas.kafka_login import client_settings

# Longest time that libraries take as one, in ms: they never give a record up by its age.
WITHOUT_END_MS: Final = 2**31 - 1
OPEN_S: Final = 30.0
AGAIN_S: Final = 0.05
END_S: Final = 1.0
# A batch of one record beside keys, values and headers, at most (Kafka's batches of format 2: a header of 61 bytes, a record's
# attributes, length, timestamp and offset), and what each of those has before it.
BATCH_BYTES: Final = 82
LENGTH_BYTES: Final = 5
HEADERS_BYTES: Final = 4_096


def settings_of(settings: SinkSettings) -> ProducerSettings:
    """Return what confluent-kafka's producer has; batches as librdkafka's batch.size by default, below a topic's usual limit."""
    return ProducerSettings("all", True, settings.linger_ms, 1_000_000, LARGEST_BYTES)


class Sending(NamedTuple):
    """A record on its way to the thread."""

    topic: str
    value: bytes
    key: bytes
    headers: Sequence[Header]
    on_delivery: DeliveryReport


class NotNow(Exception):  # noqa: N818 - what happened, not a kind of error
    """A library takes a record later, perhaps."""


def error_of(code: object, text: str) -> KafkaError:
    """Return what a library gave a record up for, by Kafka's code where it has one: poison, or the end of the sink."""
    number = code if isinstance(code, int) else KafkaError.UNKNOWN
    return KafkaError(number, text, number not in POISON)


def batch_bytes(sending: Sending) -> int:
    """Return what a batch of this record alone takes, or a few bytes more."""
    fields = [
        sending.key,
        sending.value,
        *(part for name, value in sending.headers for part in (name.encode(), value)),
    ]
    return BATCH_BYTES + (len(fields) + 1) * LENGTH_BYTES + sum(map(len, fields))


class ThreadedSink(ABC):
    """Implements gateways.sinks.sink.Sink.

    Args:
        name: of the row.
        settings: what the gateway wants.

    Attributes:
        platform: as people call it.
    """

    platform: ClassVar[str] = "Kafka"

    def __init__(self, name: str, settings: SinkSettings) -> None:
        self.fatal: str | None = None
        self._name = name
        self._settings = settings
        self._unreported = 0
        self._limits: Mapping[str, int] = {}
        self._reports: deque[tuple[Sending, KafkaError | None]] = deque()
        self._ending = threading.Event()
        self._opened = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"sink-{name}", daemon=True)

    def produce(
        self,
        topic: str,
        value: bytes,
        key: bytes,
        *,
        on_delivery: DeliveryReport,
        headers: Sequence[Header],
    ) -> None:
        self._unreported += 1
        sending = Sending(topic, value, key, headers, on_delivery)
        limit = self._limits[topic]
        # A gateway's headers are short: most records need not be measured.
        if len(value) + len(key) + HEADERS_BYTES > limit and (size := batch_bytes(sending)) > limit:
            text = f"a record of {size} bytes: the topic takes {limit}"
            self._report(sending, error_of(KafkaError.MSG_SIZE_TOO_LARGE, text))
        else:
            self._take(sending)

    def poll(self, _timeout_s: float, /) -> None:
        """Hand over the reports that are there; it never waits."""
        reports = self._reports
        for _ in range(len(reports)):
            sending, error = reports.popleft()
            self._unreported -= 1
            sending.on_delivery(error, sending.value)

    def require_topics(self, topics: tuple[str, ...]) -> None:
        """Ask for the topics, then open the library's own client; Refusal where either fails."""
        self._limits = self._limits_of(topics)
        self._start()

    def _start(self) -> None:
        self._thread.start()
        if not self._opened.wait(OPEN_S):
            self.fatal = f"no answer within {OPEN_S:g} s"
        if self.fatal is not None:
            raise Refusal(f"{self.platform} at {self._settings.bootstrap}, by {self._name}: {self.fatal}")

    def _limits_of(self, topics: tuple[str, ...]) -> Mapping[str, int]:
        """Return the bytes that a record of each topic may have; Refusal where one is missing. Librdkafka asks Kafka."""
        bootstrap = self._settings.bootstrap
        asked = AdminClient({**client_settings(bootstrap, self._settings.login), "log_level": 0})
        require_topics(asked, bootstrap, topics)
        return message_limits(asked, bootstrap, topics, LARGEST_BYTES)

    def close(self) -> int:
        self._ending.set()
        if self._thread.ident is not None:
            self._end()
            self._thread.join(3 * END_S)
            self._shut()
        return self._unreported

    def _report(self, sending: Sending, error: KafkaError | None) -> None:
        """Note what became of a record; from any thread."""
        self._reports.append((sending, error))

    def _run(self) -> None:
        """Open the library's client and send until the end; whatever breaks ends the gateway."""
        try:
            self._serve(self._opened.set)
        except Exception as error:  # noqa: BLE001 - nobody else is there to take it
            if not self._ending.is_set():
                self.fatal = f"{type(error).__name__}: {error}"
        finally:
            self._opened.set()

    @abstractmethod
    def _take(self, sending: Sending) -> None:
        """Give a record to the thread."""

    @abstractmethod
    def _serve(self, opened: Callable[[], None]) -> None:
        """Open, say so, and send what comes until `_ending`."""

    @abstractmethod
    def _end(self) -> None:
        """Let the thread see that it has to end, from another one."""

    @abstractmethod
    def _shut(self) -> None:
        """Give back what the thread has not, from another one."""


class BlockingSink(ThreadedSink):
    """A sink of a library whose calls wait: they are the thread's."""

    def __init__(self, name: str, settings: SinkSettings) -> None:
        super().__init__(name, settings)
        self._queue: SimpleQueue[Sending | None] = SimpleQueue()

    def _take(self, sending: Sending) -> None:
        self._queue.put(sending)

    def _serve(self, opened: Callable[[], None]) -> None:
        self._open()
        opened()
        while (sending := self._queue.get()) is not None:
            while not self._ending.is_set():
                try:
                    self._send(sending)
                    break
                except NotNow:
                    self._ending.wait(AGAIN_S)

    def _end(self) -> None:
        self._queue.put(None)

    @abstractmethod
    def _open(self) -> None:
        """Make the library's client, and return once Kafka has answered it."""

    @abstractmethod
    def _send(self, sending: Sending) -> None:
        """Give the library a record, whose report it will have noted; NotNow when it is to be offered again."""
