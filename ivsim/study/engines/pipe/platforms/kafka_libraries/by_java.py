"""The official Java client in a process of its own: records cross to it in frames, and its own loops cross nothing."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any, Final

from ivsim.study.engines.pipe.platforms.base import Place, Report
from ivsim.study.engines.pipe.platforms.kafka_libraries import ends
from ivsim.study.engines.pipe.platforms.kafka_libraries.framed import FramedReceiver, FramedSender
from ivsim.study.engines.pipe.platforms.kafka_libraries.frames import listed
from ivsim.study.engines.pipe.platforms.kafka_libraries.java import (
    consumer_properties,
    lines,
    producer_properties,
)
from ivsim.study.engines.pipe.platforms.kafka_libraries.program import (
    BesideReceiver,
    BesideSender,
    block,
    named,
    program,
)

QUEUE_MESSAGES = ends.QUEUE_MESSAGES
ANSWER_MS: Final = 30_000


def sender(place: Place, settings: Mapping[str, Any], index: int, report: Report) -> FramedSender:
    """Return the producer's end."""
    make = partial(BesideSender, lines(producer_properties(place, settings)), place["topic"])
    return FramedSender(make, place, settings, index, report=report, most=QUEUE_MESSAGES)


def receiver(place: Place, settings: Mapping[str, Any], partitions: Sequence[int]) -> FramedReceiver:
    """Return the consumer's end."""
    make = partial(BesideReceiver, lines(consumer_properties(place, settings)), place["topic"])
    return FramedReceiver(make, place, settings, partitions)


def bare_produce(
    place: Place, settings: Mapping[str, Any], keys: Sequence[bytes], values: Sequence[bytes]
) -> int:
    """Let Java send every value by itself and see that each has its answer; return nanoseconds by its clock."""
    head = named(lines(producer_properties(place, settings)), place["topic"])
    with closing(program().connection()) as connection:
        found = connection.ask(b"P", head, block(listed(keys)), block(listed(values)))
    return int(struct.unpack("<q", found)[0])


def bare_consume(place: Place, settings: Mapping[str, Any], count: int) -> int:
    """Let Java read so many records by itself, key and value; return nanoseconds from the assignment by its clock."""
    head = named(lines(consumer_properties(place, settings)), place["topic"])
    told = struct.pack("<iqq", count, round(settings["take_ms"]), ANSWER_MS)
    with closing(program().connection()) as connection:
        found = connection.ask(b"C", head, told)
    return int(struct.unpack("<q", found)[0])
