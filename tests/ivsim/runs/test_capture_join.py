"""The capture's messages find theirs in the emission log, or stay unproven."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ivsim.runs.capture_join import COLUMN, HELD_BACK, with_proof, without_proof
from schemas.topics import vehicle_id
from simulator.capture.attribution import Attributor
from simulator.capture.tables import categories_table, messages_table
from simulator.emission_log import Kind, Reason
from simulator.emission_table import EVENT
from tests.simulator.capture import frame_factory as make

WIRE = pa.schema(
    [
        ("vehicle_id", pa.string()), ("connection", pa.int32()), ("order", pa.int32()),
        ("first_sent_at_ns", pa.int64()), ("payload_bytes_uplink", pa.int64()), (COLUMN, pa.int64()),
    ]
)  # fmt: skip
PURPOSES = pa.schema(
    [(name, pa.string()) for name in ("phase", "vehicle_id", "direction", "purpose", "layer")]
    + [("bytes", pa.int64())]
)
READ = (("connection", "protocol"), ("message", "payload"), ("other", "link"), ("probe", "opaque"))


class Log:
    """An emission log and what a capture of the same vehicles would have seen."""

    def __init__(self) -> None:
        self.events: list[tuple[int, ...]] = []
        self.due: list[dict[str, Any]] = []
        self.wire: list[dict[str, Any]] = []
        self.purposes: list[dict[str, Any]] = []
        self.now_ns = 1_000

    def connect(self, vehicle: int = 1) -> None:
        self._note(Kind.CONNECTED, vehicle)

    def disconnect(self, vehicle: int = 1) -> None:
        self._note(Kind.DISCONNECTED, vehicle)

    def emit(self, sequence: int, size: int = 100, vehicle: int = 1) -> None:
        self.due.append({"vehicle_id": vehicle_id(vehicle), "epoch": 1, "sequence": sequence})
        self._note(Kind.EMITTED, vehicle, sequence, size)

    def seen(
        self, connection: int, order: int, *, size: int = 100, reached: int | None = 1, vehicle: int = 1
    ) -> None:
        """Note a publish that leaves now and reaches the cloud's host `reached` ns later, or never."""
        at = self.now_ns
        values = vehicle_id(vehicle), connection, order, at, size, None if reached is None else at + reached
        self.wire.append(dict(zip(WIRE.names, values, strict=True)))

    def captured(self, *cells: tuple[str, str], vehicle: int = 1, direction: str = "uplink") -> None:
        """Note that the capture booked bytes of the vehicle on these purposes and layers."""
        for purpose, layer in cells:
            values = "run", vehicle_id(vehicle), direction, purpose, layer, 40
            self.purposes.append(dict(zip(PURPOSES.names, values, strict=True)))

    def joined(self) -> dict[int, int | None]:
        """Return reached_cloud_at_ns by sequence."""
        emissions = pa.Table.from_pylist(self.due)
        events = np.array(self.events, EVENT)
        categories = pa.Table.from_pylist(self.purposes, PURPOSES) if self.purposes else None
        table = with_proof(emissions, events, pa.Table.from_pylist(self.wire, WIRE), categories)
        assert table.drop([COLUMN, HELD_BACK]) == emissions
        proven = zip(table["sequence"].to_pylist(), table[HELD_BACK].to_pylist(), strict=True)
        self.held_back = {sequence for sequence, held in proven if held}
        return dict(zip(table["sequence"].to_pylist(), table[COLUMN].to_pylist(), strict=True))

    def unsendable(self, sequence: int, vehicle: int = 1) -> None:
        """Note that the client did not send what it was given last."""
        self._note(Kind.REFUSED, vehicle, sequence, reason=Reason.BEYOND_PEERS_LIMIT)

    def _note(self, kind: int, vehicle: int, sequence: int = 0, size: int = 0, reason: int = 0) -> None:
        self.now_ns += 10
        self.events.append((kind, reason, 0, vehicle, 1, size, sequence, self.now_ns))


def test_the_order_of_a_connection_names_the_message() -> None:
    log = Log()
    log.connect()
    log.emit(1)
    log.seen(0, 0)
    log.emit(2)
    log.seen(0, 1, reached=None)
    assert log.joined() == {1: 1_021, 2: None}


def test_a_message_that_never_left_stays_unproven() -> None:
    log = Log()
    log.connect()
    log.emit(1)
    log.seen(0, 0)
    log.emit(2)
    assert log.joined()[2] is None
    assert log.held_back == {2}


def one_silent_of_three() -> Log:
    """Return a log whose second connection was given two messages, of which the capture saw nothing."""
    log = Log()
    for sequence in (1, 2, 4):
        log.connect()
        log.emit(sequence)
        if sequence == 2:
            log.emit(3)
        else:
            log.seen(sequence // 2, 0)
        log.disconnect()
    return log


def test_what_a_connection_without_a_publish_was_given_was_held_back() -> None:
    log = one_silent_of_three()
    log.captured(*READ)
    log.captured(("opaque", "opaque"), direction="downlink")
    log.captured(("opaque", "opaque"), vehicle=2)
    assert [sequence for sequence, at_ns in log.joined().items() if at_ns is None] == [2, 3]
    assert log.held_back == {2, 3}


def test_a_vehicle_that_never_published_held_all_back() -> None:
    log = Log()
    for vehicle in (1, 2):
        log.connect(vehicle)
        log.emit(vehicle, vehicle=vehicle)
    log.captured(*READ, vehicle=2)
    assert log.joined() == {1: None, 2: None}
    assert log.held_back == {2}


@pytest.mark.parametrize(
    "booked",
    [
        [],  # bytes of others are attributed, not this vehicle's
        [("connection", "transport")],  # no more than a SYN
        [("handshake", "protocol")],
        [*READ, ("handshake", "protocol")],
        [*READ, ("secured", "opaque")],
        [*READ, ("opaque", "opaque")],
        [*READ, ("other", "opaque")],
    ],
)
def test_who_was_not_read_whole_may_have_published(booked: list[tuple[str, str]]) -> None:
    log = one_silent_of_three()
    log.captured(*booked)
    log.captured(*READ, vehicle=2)
    log.joined()
    assert log.held_back == set()


AMQP_OPENING = b"AMQP\x00\x00\x09\x01" + make.amqp_frame(1, 0, b"\x00\x0a\x00\x0b")
CLIENT_HELLO = b"\x16\x03\x01\x00\x04\x01\x00\x00\x00"
SYN, ACK = 2, 16


def stream(port: int, *said: bytes, begun: bool = True) -> list[bytes]:
    """Return the frames of a connection of vehicle 1: its beginning, and what it says, all of it acknowledged."""
    frames = [
        make.tcp_frame(1, True, 0, 0, SYN, port=port),
        make.tcp_frame(1, False, 0, 1, SYN | ACK, port=port),
    ]
    at = 1
    for words in said:
        frames.append(make.tcp_frame(1, True, at, 1, ACK, words, port=port))
        at += len(words)
        frames.append(make.tcp_frame(1, False, 1, at, ACK, port=port))
    return frames if begun else frames[2:]


@pytest.mark.parametrize(
    ("first", "second", "held_back"),
    [
        ((make.mqtt_connect(), make.mqtt_publish(b"p" * 100)), (make.mqtt_connect(),), {2}),
        ((AMQP_OPENING, make.amqp_publish(b"p" * 100)), (AMQP_OPENING,), {2}),
        ((AMQP_OPENING, make.amqp_publish(b"p" * 100)), (AMQP_OPENING, make.amqp_publish(b"")[:9]), set()),
        ((make.mqtt_connect(), make.mqtt_publish(b"p" * 100)), (CLIENT_HELLO,), set()),
        ((CLIENT_HELLO,), (CLIENT_HELLO,), set()),
    ],
    ids=["mqtt", "amqp", "a publish begun", "one in TLS", "TLS"],
)  # fmt: skip
@pytest.mark.parametrize("begun", [True, False])
def test_a_silent_connection_as_the_capture_sees_it(
    first: tuple[bytes, ...], second: tuple[bytes, ...], held_back: set[int], begun: bool
) -> None:
    """What counts is the beginning: a connection that the capture joined late may have published before."""
    one, other = stream(40_000, *first), stream(40_001, *second, begun=begun)
    log = Log()
    for sequence, at_ns in ((1, 1_000), (2, 2_000)):
        log.now_ns = at_ns
        log.connect()
        log.emit(sequence)
    attributor = Attributor()
    attributor.add(
        make.batch(one + other, [1_100 + k for k in range(len(one))] + [2_100 + k for k in range(len(other))])
    )
    attributor.finish()
    log.wire = messages_table(attributor.totals).select(WIRE.names).to_pylist()
    log.purposes = categories_table(attributor.totals).to_pylist()
    reached = log.joined()
    assert (reached[1] is None) == (first[0] == CLIENT_HELLO)
    assert log.held_back == (held_back if begun else set())


def test_without_purposes_a_connection_without_a_publish_proves_nothing() -> None:
    log = one_silent_of_three()
    log.joined()
    assert log.held_back == set()


def test_what_tcp_sent_late_may_be_of_the_connection_without_a_publish() -> None:
    """The kernel goes on with what a closed socket had: it left when the next connection was up."""
    log = Log()
    log.captured(*READ)
    log.connect()
    log.emit(1)
    log.disconnect()
    log.connect()
    log.emit(2)
    log.seen(1, 0)
    log.seen(0, 0)
    log.joined()
    assert log.held_back == set()


def test_a_publish_that_does_not_fit_may_be_of_the_connection_without_one() -> None:
    """What the first connection was given left when the second was up, which published nothing."""
    log = Log()
    log.captured(*READ)
    log.connect()
    log.emit(1, size=200)
    log.disconnect()
    log.connect()
    log.emit(2, size=100)
    log.seen(0, 0, size=200)
    log.joined()
    assert log.held_back == set()


def test_a_publish_that_no_connection_fits_may_be_of_any() -> None:
    log = Log()
    log.captured(*READ)
    log.seen(0, 0)
    log.connect()
    log.emit(1)
    log.joined()
    assert log.held_back == set()


def test_a_connection_that_never_published_does_not_shift_the_next() -> None:
    log = Log()
    log.connect()
    log.disconnect()
    log.connect()
    log.emit(1)
    # The capture may count the first one or not: the time decides.
    log.seen(0, 0)
    assert log.joined()[1] is not None


def test_messages_of_two_connections_keep_apart() -> None:
    log = Log()
    log.connect()
    log.emit(1)
    log.seen(0, 0)
    log.emit(2)
    log.disconnect()
    log.connect()
    log.emit(3)
    log.seen(1, 0)
    found = log.joined()
    assert found[1] is not None
    assert found[2] is None
    assert found[3] is not None


def test_another_size_ends_the_join_of_its_connection() -> None:
    log = Log()
    log.connect()
    for sequence in (1, 2, 3):
        log.emit(sequence)
        log.seen(0, sequence - 1, size=99 if sequence == 2 else 100)
    found = log.joined()
    assert found[1] is not None
    assert found[2] is None
    assert found[3] is None
    assert log.held_back == set()


def test_a_last_publish_that_is_there_in_part_proves_what_was_held_back() -> None:
    """The link went dark: TCP's window had room for a piece of the second, and the client was given two more."""
    log = Log()
    log.connect()
    for sequence in (1, 2, 3, 4):
        log.emit(sequence)
    log.seen(0, 0)
    log.seen(0, 1, size=40, reached=None)
    assert log.joined() == {1: log.now_ns + 1, 2: None, 3: None, 4: None}
    assert log.held_back == {3, 4}


def test_what_the_client_did_not_send_has_no_place_in_the_order() -> None:
    log = Log()
    log.connect()
    for sequence, size in ((1, 100), (2, 900), (3, 100), (4, 100)):
        log.emit(sequence, size)
        if size == 900:
            log.unsendable(sequence)
    log.seen(0, 0)
    log.seen(0, 1)
    assert log.joined() == {1: log.now_ns + 1, 2: None, 3: log.now_ns + 1, 4: None}
    assert log.held_back == {4}


def test_a_publish_seen_before_it_was_given_is_another_one() -> None:
    log = Log()
    log.connect()
    log.seen(0, 0)
    log.emit(1)
    assert log.joined() == {1: None}


def test_more_publishes_than_messages_are_ignored() -> None:
    log = Log()
    log.connect()
    log.emit(1)
    log.seen(0, 0)
    log.seen(0, 1)
    log.seen(3, 0, vehicle=2)
    assert list(log.joined()) == [1]


def test_without_a_capture_nothing_is_proven() -> None:
    table = without_proof(pa.table({"sequence": [1, 2]}))
    assert table[COLUMN].to_pylist() == [None, None]


@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.integers(1, 40), st.booleans(), st.booleans()),
        min_size=1,
        max_size=60,
    )
)
def test_every_publish_of_an_orderly_client_finds_its_own_message(
    steps: list[tuple[int, int, bool, bool]],
) -> None:
    log = Log()
    connections: dict[int, int] = {}
    orders: dict[int, int] = {}
    expected: dict[int, int | None] = {}
    for sequence, (vehicle, size, again, reached) in enumerate(steps, 1):
        if again or vehicle not in connections:
            connections[vehicle] = connections.get(vehicle, -1) + 1
            orders[vehicle] = 0
            log.connect(vehicle)
        log.emit(sequence, size, vehicle)
        log.seen(
            connections[vehicle],
            orders[vehicle],
            size=size,
            reached=sequence if reached else None,
            vehicle=vehicle,
        )
        expected[sequence] = log.now_ns + sequence if reached else None
        orders[vehicle] += 1
    assert log.joined() == expected


def test_a_vehicle_that_noted_nothing_proves_nothing() -> None:
    log = Log()
    log.connect()
    log.emit(1)
    log.seen(0, 0, vehicle=9)
    assert log.joined() == {1: None}
    assert log.held_back == set()
