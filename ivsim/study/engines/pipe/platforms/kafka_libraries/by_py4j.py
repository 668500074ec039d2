"""The official Java client in a process beside, by Py4J, the bridge that PySpark brings: exchanges over a socket for each call."""

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
from ivsim.study.engines.pipe.platforms.kafka_libraries.over_sockets import over_sockets

QUEUE_MESSAGES = ends.QUEUE_MESSAGES


def sender(place: Place, settings: Mapping[str, Any], index: int, report: Report) -> BridgedSender:
    """Return the producer's end."""
    return BridgedSender(over_sockets(), place, settings, index, report=report, most=QUEUE_MESSAGES)


def receiver(place: Place, settings: Mapping[str, Any], partitions: Sequence[int]) -> BridgedReceiver:
    """Return the consumer's end."""
    return BridgedReceiver(over_sockets(), place, settings, partitions)


def bare_produce(
    place: Place, settings: Mapping[str, Any], keys: Sequence[bytes], values: Sequence[bytes]
) -> int:
    """Send every value by the library alone and see that each has its answer; return nanoseconds."""
    return own_produce(over_sockets(), place, settings, keys, values)


def bare_consume(place: Place, settings: Mapping[str, Any], count: int) -> int:
    """Read so many records, key and value, by the library alone; return nanoseconds from the assignment to the last."""
    return own_consume(over_sockets(), place, settings, count)
