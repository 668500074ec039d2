"""The reader of PUBLISH packets on paper: cut anywhere, filled with anything."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.mqtt_load import publish_frame, remaining_length
from gateways.protocols.base import Endpoint
from gateways.protocols.mqtt_wire import WireClient, skip_properties, variable_integer


class Reader:
    now_ns = 0

    def __init__(self) -> None:
        self.published: list[tuple[int, bytes, int, bytes]] = []
        self.released: list[bytes] = []

    def publish_arrived(self, head: int, topic: bytes, mid: int, payload: bytes) -> None:
        self.published.append((head >> 1 & 3, topic, mid, payload))

    def release_arrived(self, mid: bytes) -> None:
        self.released.append(mid)

    def opened(self, session_present: bool) -> None: ...
    def lost(self, reason: str) -> None: ...
    def drained(self) -> None: ...


def client(version: str = "3.1.1") -> tuple[WireClient, Reader]:
    reader = Reader()
    made = WireClient(
        reader, Endpoint("127.0.0.1", 1), "c", version, keepalive_s=60, session_expiry_s=0, receive_max=9
    )
    return made, reader


MESSAGES = st.lists(
    st.tuples(st.text("abc/", min_size=1, max_size=20), st.binary(max_size=400), st.integers(0, 2)),
    max_size=8,
)


@given(MESSAGES, st.lists(st.integers(1, 300), min_size=1, max_size=20))
def test_packets_survive_any_cutting(messages: list[tuple[str, bytes, int]], cuts: list[int]) -> None:
    wire, reader = client()
    frames = b"".join(
        publish_frame(topic, payload, qos, mid) + b"\x62\x02\x00\x07"
        for mid, (topic, payload, qos) in enumerate(messages, 1)
    )
    at = turn = 0
    while at < len(frames):
        size = cuts[turn % len(cuts)]
        wire._parse(wire._rest + frames[at : at + size])
        at, turn = at + size, turn + 1
    assert reader.published == [
        (qos, topic.encode(), mid if qos else 0, payload)
        for mid, (topic, payload, qos) in enumerate(messages, 1)
    ]
    assert reader.released == [b"\x00\x07"] * len(messages)
    assert wire._rest == b""


@pytest.mark.parametrize("properties", [b"", b"\x01\x00", b"\x02" + bytes(4), b"\x26" + bytes(200)])
def test_properties_of_mqtt_5_are_skipped(properties: bytes) -> None:
    wire, reader = client("5")
    body = b"\x00\x01t" + b"\x00\x09" + remaining_length(len(properties)) + properties + b"payload"
    wire._parse(b"\x32" + remaining_length(len(body)) + body)
    assert reader.published == [(1, b"t", 9, b"payload")]


@given(st.integers(0, 268_435_455))
def test_variable_integers_round_trip(value: int) -> None:
    encoded = remaining_length(value)
    assert variable_integer(encoded, 0) == (value, len(encoded))
    for short in range(len(encoded)):
        assert variable_integer(encoded[:short], 0) is None


def test_five_bytes_of_length_are_no_mqtt() -> None:
    with pytest.raises(ValueError, match="longer than 4"):
        variable_integer(b"\xff\xff\xff\xff\x01", 0)
    with pytest.raises(ValueError, match="cut short"):
        skip_properties(b"\xff", 0)


class Socket:
    """Hands out what it was given, then the end of the stream."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces
        self.closed = False

    def recv(self, _size: int) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""

    def send(self, data: bytes) -> int:
        return len(data)

    def fileno(self) -> int:
        return -1

    def close(self) -> None:
        self.closed = True


async def test_bytes_that_are_no_mqtt_close_the_connection_and_raise_nothing() -> None:
    rng = random.Random(3)
    for _ in range(5_000):
        wire, _ = client(rng.choice(["5", "3.1.1"]))
        wire.on_socket_close = None
        sock: Any = Socket([rng.randbytes(rng.randrange(1, 300)) for _ in range(rng.randrange(1, 4))])
        wire._sock = sock
        while wire.socket() is not None:
            wire.readable()
        assert sock.closed
    await asyncio.sleep(0)
