"""The attribution's memory grows neither with the messages of a connection, whatever its protocol, nor with connections."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import islice

import frame_factory as make
import pytest
from test_attribution_cases import Dialogue, connected

from simulator.capture.attribution import AttributionOptions, Attributor
from simulator.capture.fields import ACK, FIN, RST

# What a message may leave in memory on average: an object of any kind has more.
LEFT_BYTES = 12.0
SECOND_NS = 10**9


def mqtt(messages: int) -> Iterator[list[bytes]]:
    talk = connected()
    for number in range(messages):
        talk.say(True, make.mqtt_publish(b"p" * 100, number % 65_535 + 1))
        talk.say(False, make.mqtt(4, struct.pack(">H", number % 65_535 + 1)))
        talk.acknowledge(True)
        yield talk.frames
        talk.frames.clear()


def amqp(messages: int) -> Iterator[list[bytes]]:
    talk = Dialogue()
    talk.say(True, b"AMQP\x00\x00\x09\x01" + make.amqp_frame(1, 1, b"\x00\x55\x00\x0a\x00"))
    for number in range(messages):
        talk.say(True, make.amqp_publish(b"p" * 100))
        talk.say(False, make.amqp_ack(number + 1))
        talk.acknowledge(True)
        yield talk.frames
        talk.frames.clear()


def coap(messages: int) -> Iterator[list[bytes]]:
    for number in range(messages):
        token = struct.pack(">I", number)
        head = struct.pack(">H", number % 65_536) + token
        request = b"\x44\x02" + head + b"\xb1v\xffpayload"
        yield [make.udp_frame(5, True, request), make.udp_frame(5, False, b"\x64\x44" + head)]


def reconnecting(messages: int) -> Iterator[list[bytes]]:
    """A vehicle that has a connection for each message: every other one is closed, the others are reset."""
    for number in range(messages):
        talk = connected(port=10_000 + number)
        talk.say(True, make.mqtt_publish(b"p" * 100, 7))
        talk.say(False, make.mqtt(4, struct.pack(">H", 7)))
        if number % 2:
            talk.raw(False, talk.sent[False], RST)
        else:
            talk.raw(True, talk.sent[True], FIN | ACK)
            talk.raw(False, talk.sent[False], FIN | ACK)
        yield talk.frames


# Two streams are forgotten alike; AMQP's frames take longest to make.
@pytest.mark.parametrize(
    ("talk", "messages"),
    [(mqtt, 6_000), pytest.param(amqp, 6_000, marks=pytest.mark.full), (coap, 6_000), (reconnecting, 3_000)],
)
def test_what_is_over_is_forgotten(talk: Callable[[int], Iterator[list[bytes]]], messages: int) -> None:
    attributor = Attributor(AttributionOptions(datagram_ports={"coap": [5683]}), 0)
    batches = enumerate(talk(messages))

    def take(count: int) -> int:
        """Attribute the next messages, one a second; return the memory in use."""
        for second, frames in islice(batches, count):
            attributor.add(make.batch(frames, [second * SECOND_NS + k for k in range(len(frames))]))
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = take(messages // 3)
        left = (take(messages) - before) / (messages - messages // 3)
    finally:
        tracemalloc.stop()
    assert len(attributor.totals.messages) == messages
    assert all(attributor.totals.messages.acknowledged_at_ns)
    assert left < LEFT_BYTES
