"""The official Java client inside this process, by JPype and a small Java class: a call of the bridge for many records."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from ivsim.study.engines.pipe.platforms.base import Place, Report
from ivsim.study.engines.pipe.platforms.kafka_libraries import ends
from ivsim.study.engines.pipe.platforms.kafka_libraries.embedded import embedded
from ivsim.study.engines.pipe.platforms.kafka_libraries.framed import (
    CALL_RECORDS,
    FramedReceiver,
    FramedSender,
)
from ivsim.study.engines.pipe.platforms.kafka_libraries.frames import Records, arrivals
from ivsim.study.engines.pipe.platforms.kafka_libraries.java import (
    consumer_properties,
    lines,
    producer_properties,
)

QUEUE_MESSAGES = ends.QUEUE_MESSAGES
ANSWER_S: Final = 30.0


class HereSender:
    """FrameSender.java in this process."""

    def __init__(self, properties: str, topic: str) -> None:
        self._array = embedded().array
        self._java = embedded().type("ivsim.clients.FrameSender")(properties, topic)

    def send(self, frame: bytes) -> None:
        self._java.send(self._array(frame))

    def answers(self, wait_ms: int) -> bytes:
        return bytes(self._java.answers(wait_ms))

    def flush(self) -> None:
        self._java.flush()

    def counted(self) -> tuple[float, float]:
        wire_bytes, records = self._java.counted()
        return float(wire_bytes), float(records)

    def close(self) -> None:
        self._java.close()


class HereReceiver:
    """FrameReceiver.java in this process."""

    def __init__(self, properties: str, topic: str) -> None:
        self._java = embedded().type("ivsim.clients.FrameReceiver")(properties, topic)

    def open(self, partitions: Sequence[int], *, resumed: bool) -> list[int]:
        return [int(one) for one in self._java.open(list(partitions), resumed)]

    def poll(self, wait_ms: int) -> bytes:
        return bytes(self._java.poll(wait_ms))

    def commit(self, partition: int, offset: int) -> None:
        self._java.commit(partition, offset)

    def close(self) -> None:
        self._java.close()


def sender(place: Place, settings: Mapping[str, Any], index: int, report: Report) -> FramedSender:
    """Return the producer's end."""
    make = partial(HereSender, lines(producer_properties(place, settings)), place["topic"])
    return FramedSender(make, place, settings, index, report=report, most=QUEUE_MESSAGES)


def receiver(place: Place, settings: Mapping[str, Any], partitions: Sequence[int]) -> FramedReceiver:
    """Return the consumer's end."""
    make = partial(HereReceiver, lines(consumer_properties(place, settings)), place["topic"])
    return FramedReceiver(make, place, settings, partitions)


def bare_produce(
    place: Place, settings: Mapping[str, Any], keys: Sequence[bytes], values: Sequence[bytes]
) -> int:
    """Send every value by calls of many records and wait for the answers; return nanoseconds."""
    far = HereSender(lines(producer_properties(place, settings)), place["topic"])
    records = Records()
    began_ns = time.perf_counter_ns()
    for number, key in enumerate(keys):
        records.add(place["origin_ms"] + number, 0, key, values[number % len(values)])
        if len(records) == CALL_RECORDS:
            far.send(records.frame())
    far.send(records.frame())
    far.flush()
    spent_ns = time.perf_counter_ns() - began_ns
    far.close()
    return spent_ns


def bare_consume(place: Place, settings: Mapping[str, Any], count: int) -> int:
    """Read so many records, a poll of the library by a call; return nanoseconds from the assignment to the last."""
    far = HereReceiver(lines(consumer_properties(place, settings)), place["topic"])
    began_ns = time.perf_counter_ns()
    far.open([0], resumed=False)
    came, until_s = 0, time.monotonic() + ANSWER_S
    while came < count and time.monotonic() < until_s:
        came += len(arrivals(far.poll(round(settings["take_ms"])), 0).value)
    spent_ns = time.perf_counter_ns() - began_ns
    far.close()
    if came < count:
        raise TimeoutError(f"{came} of {count} records within {ANSWER_S:g} s")
    return spent_ns
