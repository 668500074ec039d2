"""The official Java client inside this process, by JPype: calls of the bridge for each record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ivsim.study.engines.pipe.platforms.base import Place, Report
from ivsim.study.engines.pipe.platforms.kafka_libraries import ends
from ivsim.study.engines.pipe.platforms.kafka_libraries.bridged import (
    BridgedReceiver,
    BridgedSender,
    own_consume,
    own_produce,
)
from ivsim.study.engines.pipe.platforms.kafka_libraries.embedded import embedded

QUEUE_MESSAGES = ends.QUEUE_MESSAGES


def sender(place: Place, settings: Mapping[str, Any], index: int, report: Report) -> BridgedSender:
    """Return the producer's end."""
    return BridgedSender(embedded(), place, settings, index, report=report, most=QUEUE_MESSAGES)


def receiver(place: Place, settings: Mapping[str, Any], partitions: Sequence[int]) -> BridgedReceiver:
    """Return the consumer's end."""
    return BridgedReceiver(embedded(), place, settings, partitions)


def bare_produce(
    place: Place, settings: Mapping[str, Any], keys: Sequence[bytes], values: Sequence[bytes]
) -> int:
    """Send every value by the library alone and see that each has its answer; return nanoseconds."""
    return own_produce(embedded(), place, settings, keys, values)


def bare_consume(place: Place, settings: Mapping[str, Any], count: int) -> int:
    """Read so many records, key and value, by the library alone; return nanoseconds from the assignment to the last."""
    return own_consume(embedded(), place, settings, count)
