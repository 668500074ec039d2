"""The loops that every client library runs through, in its own process: stream, burst, one at a time.

Clocks are `perf_counter_ns` of this process. What is read is compared with what was sent, value by value.
"""

from __future__ import annotations

import random
import threading
import time
from array import array
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, Final, NamedTuple

from ivsim.study.engines.pipe.client_loops.usage import Usage
from ivsim.study.engines.pipe.platforms.base import Arrivals, Full, Place, Receiver, Sender

POLL_EVERY: Final = 128
FULL_S: Final = 0.001
FLUSH_S: Final = 60.0
# Without a record for so long, nothing more is awaited.
QUIET_S: Final = 10.0
KEPT_BYTES: Final = 32 << 20
KEY_BYTES: Final = 8
BEGINNING: Final = 0.1


class Work(NamedTuple):
    """One measurement.

    Attributes:
        module: the client's, with `sender` and `receiver`.
        place: where on the platform.
        settings: of sender and receiver.
        messages: measured.
        warmup: sent before them.
        values: in turn.
        usage: of this process, its children and the platform.
    """

    module: ModuleType
    place: Place
    settings: Mapping[str, Any]
    messages: int
    warmup: int
    values: Sequence[bytes]
    usage: Usage


class Measured(NamedTuple):
    """The figures of one measurement, and latencies in nanoseconds by the order of sending, 0 where none."""

    figures: dict[str, Any]
    latency_ns: array[int]


def made_values(seed: int, size: int, messages: int) -> list[bytes]:
    """Return different values of random bytes, at most KEPT_BYTES of them."""
    rng = random.Random(seed)
    return [rng.randbytes(size) for _ in range(max(1, min(messages, KEPT_BYTES // size)))]


class Sent:
    """A sender, its reports, and what it was given."""

    def __init__(self, work: Work) -> None:
        self._values = work.values
        self._reported = 0
        self.problems: list[str] = []
        self.first_report_ns = 0
        began_ns = time.perf_counter_ns()
        self.sender: Sender = work.module.sender(work.place, work.settings, 0, self._report)
        self.sender.open()
        self.open_ms = (time.perf_counter_ns() - began_ns) / 1e6

    def _report(self, number: int, problem: str | None) -> None:
        del number
        if not self._reported:
            self.first_report_ns = time.perf_counter_ns()
        self._reported += 1
        if problem is not None:
            self.problems.append(problem)

    def forget(self) -> None:
        """Count reports from here on."""
        self._reported = 0

    @property
    def reported(self) -> int:
        return self._reported

    def send(self, first: int, count: int, stamps: array[int] | None = None) -> None:
        """Send records by their numbers, as fast as they are taken; stamps get the time before each."""
        sender, values = self.sender, self._values
        different = len(values)
        for number in range(first, first + count):
            if stamps is not None:
                stamps[number - first] = time.perf_counter_ns()
            key = number.to_bytes(KEY_BYTES, "big")
            value = values[number % different]
            try:
                sender.send(number, key, value, 0)
            except Full:
                self._press(number, key, value)
            if not number % POLL_EVERY:
                sender.poll(0)

    def _press(self, number: int, key: bytes, value: bytes) -> None:
        until_s = time.monotonic() + FLUSH_S
        while time.monotonic() < until_s:
            self.sender.poll(FULL_S)
            try:
                self.sender.send(number, key, value, 0)
            except Full:
                continue
            return
        raise RuntimeError(f"record {number} was not taken within {FLUSH_S:g} s")

    def flush(self) -> None:
        left = self.sender.flush(FLUSH_S)
        if left:
            raise RuntimeError(f"{left} records without an answer after {FLUSH_S:g} s")

    def close(self) -> None:
        self.sender.close()


class Read:
    """A receiver's records, compared with those that were sent."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._last = work.warmup + work.messages
        self.times = bytearray(self._last + 1)
        self.wrong = 0
        self.came = 0
        self.first_ns = 0
        self.last_ns = 0
        self.receiver: Receiver = work.module.receiver(work.place, work.settings, [0])

    def open(self) -> None:
        self.receiver.open()

    def until(
        self, count: int, sent_ns: array[int] | None = None, latency_ns: array[int] | None = None
    ) -> None:
        """Read until so many records have come in all, or none has for QUIET_S.

        Args:
            count: of all records since the receiver was opened.
            sent_ns: when each of the measured ones was sent.
            latency_ns: gets the time from there to the end of the call that gave it.
        """
        values, warmup = self._work.values, self._work.warmup
        different = len(values)
        quiet_s = time.monotonic() + QUIET_S
        while self.came < count and time.monotonic() < quiet_s:
            found: Arrivals = self.receiver.poll()
            if not found.number:
                continue
            now_ns = time.perf_counter_ns()
            quiet_s = time.monotonic() + QUIET_S
            if not self.came:
                self.first_ns = now_ns
            self.last_ns = now_ns
            for number, value in zip(found.number, found.value, strict=True):
                if not 0 < number <= self._last or value != values[number % different]:
                    self.wrong += 1
                    continue
                if self.times[number]:
                    self.times[number] = 2
                    continue
                self.times[number] = 1
                self.came += 1
                if latency_ns is not None and sent_ns is not None and number > warmup:
                    latency_ns[number - warmup - 1] = now_ns - sent_ns[number - warmup - 1]

    def counts(self) -> dict[str, int]:
        """Return what was found of what was sent."""
        return {
            "wrong": self.wrong,
            "missing": self._last - self.came,
            "duplicates": self.times.count(2),
        }

    def close(self) -> None:
        self.receiver.close()


def stream(work: Work) -> Measured:
    """Send everything, then read everything from the beginning of the topic.

    The producing clock begins before the first record and ends with the answer to the last; it is open by then. The
    consuming clock begins before the receiver is opened, and ends with the last record.
    """
    sent = Sent(work)
    try:
        if work.warmup:
            sent.send(1, work.warmup)
            sent.flush()
            _warm_reader(work)
            sent.forget()
        first = work.warmup + 1
        beginning = max(1, round(BEGINNING * work.messages))
        used = work.usage.now()
        began_ns = time.perf_counter_ns()
        sent.send(first, beginning)
        tenth_ns = time.perf_counter_ns()
        sent.send(first + beginning, work.messages - beginning)
        handed_ns = time.perf_counter_ns()
        sent.flush()
        produced_ns = time.perf_counter_ns() - began_ns
        figures: dict[str, Any] = dict(work.usage.since(used, work.messages, "produce"))
        figures |= {
            "produce_ms": produced_ns / 1e6,
            "send_ms": (handed_ns - began_ns) / 1e6,
            "first_tenth_us": (tenth_ns - began_ns) / 1e3 / beginning,
            "rest_us": (handed_ns - tenth_ns) / 1e3 / max(1, work.messages - beginning),
            "first_answer_ms": (sent.first_report_ns - began_ns) / 1e6 if sent.reported else None,
            "sender_open_ms": sent.open_ms,
            "unconfirmed": work.messages - sent.reported + len(sent.problems),
        }
    finally:
        sent.close()
    return Measured(figures | _consumed(work), array("q"))


def _warm_reader(work: Work) -> None:
    """Read the warm-up once, by a receiver of its own: the measured one shall read from the beginning."""
    reader = Read(work)
    try:
        reader.open()
        reader.until(work.warmup)
    finally:
        reader.close()


def _consumed(work: Work) -> dict[str, Any]:
    reader = Read(work)
    try:
        used = work.usage.now()
        began_ns = time.perf_counter_ns()
        reader.open()
        opened_ns = time.perf_counter_ns()
        reader.until(work.warmup + work.messages)
        figures = work.usage.since(used, work.warmup + work.messages, "consume")
        whole = not reader.counts()["missing"]
        return figures | {
            "consume_ms": (reader.last_ns - began_ns) / 1e6 if whole else None,
            "consume_span_ms": (reader.last_ns - reader.first_ns) / 1e6 if whole else None,
            "receiver_open_ms": (opened_ns - began_ns) / 1e6,
            **reader.counts(),
        }
    finally:
        reader.close()


def burst(work: Work) -> Measured:
    """Send everything at once while a second thread, with the receiver, reads; latency from sending to having."""
    both = _Both(work)
    sent_ns = array("q", bytes(8 * work.messages))
    latency_ns = array("q", bytes(8 * work.messages))
    sent = Sent(work)
    try:
        with both.reading(sent_ns, latency_ns):
            if work.warmup:
                sent.send(1, work.warmup)
                sent.flush()
                both.await_warm()
            used = work.usage.now()
            sent.send(work.warmup + 1, work.messages, sent_ns)
            sent.flush()
        figures = work.usage.since(used, work.messages, "burst")
    finally:
        sent.close()
    figures |= {"sender_open_ms": sent.open_ms, "unconfirmed": len(sent.problems), **both.counts}
    return Measured(figures, latency_ns)


class _Both:
    """The receiver in its own thread: a client's end is of one thread."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._opened = threading.Event()
        self._warm = threading.Event()
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None
        self.counts: dict[str, int] = {}

    def reading(self, sent_ns: array[int], latency_ns: array[int]) -> _Both:
        self._thread = threading.Thread(
            target=self._run, args=(sent_ns, latency_ns), name="reader", daemon=True
        )
        return self

    def __enter__(self) -> None:
        assert self._thread is not None
        self._thread.start()
        self._await(self._opened)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        assert self._thread is not None
        self._thread.join(FLUSH_S + QUIET_S)
        if kind is None and self._failure is not None:
            raise self._failure

    def _await(self, event: threading.Event) -> None:
        event.wait(FLUSH_S)
        if self._failure is not None:
            raise self._failure

    def await_warm(self) -> None:
        self._await(self._warm)

    def _run(self, sent_ns: array[int], latency_ns: array[int]) -> None:
        try:
            reader = Read(self._work)
            try:
                reader.open()
                self._opened.set()
                reader.until(self._work.warmup)
                self._warm.set()
                reader.until(self._work.warmup + self._work.messages, sent_ns, latency_ns)
                self.counts = reader.counts()
            finally:
                reader.close()
        except BaseException as error:  # noqa: BLE001 - told to the thread that waits
            self._failure = error
        finally:
            self._opened.set()
            self._warm.set()


def single(work: Work) -> Measured:
    """Send a record, wait for its answer, read it, then the next: no queue, no load."""
    sent_ns = array("q", bytes(8 * work.messages))
    latency_ns = array("q", bytes(8 * work.messages))
    reader = Read(work)
    try:
        reader.open()
        sent = Sent(work)
        try:
            for number in range(1, work.warmup + 1):
                sent.send(number, 1)
                sent.flush()
                reader.until(number)
            used = work.usage.now()
            for index in range(work.messages):
                number = work.warmup + 1 + index
                sent_ns[index] = time.perf_counter_ns()
                sent.send(number, 1)
                sent.flush()
                reader.until(number, sent_ns, latency_ns)
            figures = work.usage.since(used, work.messages, "single")
        finally:
            sent.close()
    finally:
        reader.close()
    figures |= {"sender_open_ms": sent.open_ms, "unconfirmed": len(sent.problems), **reader.counts()}
    return Measured(figures, latency_ns)


def bare(work: Work) -> Measured:
    """Do what `stream` does by the library's own calls alone: `bare_produce` and `bare_consume` of the module."""
    if not hasattr(work.module, "bare_produce"):
        raise RuntimeError(f"{work.module.__name__} has no loop of its own to compare with")
    keys = [number.to_bytes(KEY_BYTES, "big") for number in range(1, work.messages + 1)]
    used = work.usage.now()
    produced_ns = work.module.bare_produce(work.place, work.settings, keys, work.values)
    figures = work.usage.since(used, work.messages, "produce")
    used = work.usage.now()
    consumed_ns = work.module.bare_consume(work.place, work.settings, work.messages)
    figures |= work.usage.since(used, work.messages, "consume")
    figures |= {"produce_ms": produced_ns / 1e6, "consume_ms": consumed_ns / 1e6}
    return Measured(figures, array("q"))


LOOP_OF: Final = {"stream": stream, "burst": burst, "single": single}
