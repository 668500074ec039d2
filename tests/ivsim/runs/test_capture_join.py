"""The capture's messages find theirs in the emission log, or stay unproven."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from ivsim.runs.capture_join import COLUMN, HELD_BACK, with_proof, without_proof
from schemas.topics import vehicle_id
from simulator.emission_log import Kind, Reason
from simulator.emission_table import EVENT

WIRE = pa.schema(
    [
        ("vehicle_id", pa.string()), ("connection", pa.int32()), ("order", pa.int32()),
        ("first_sent_at_ns", pa.int64()), ("payload_bytes_uplink", pa.int64()), (COLUMN, pa.int64()),
    ]
)  # fmt: skip


class Log:
    """An emission log and what a capture of the same vehicles would have seen."""

    def __init__(self) -> None:
        self.events: list[tuple[int, ...]] = []
        self.due: list[dict[str, Any]] = []
        self.wire: list[dict[str, Any]] = []
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

    def joined(self) -> dict[int, int | None]:
        """Return reached_cloud_at_ns by sequence."""
        emissions = pa.Table.from_pylist(self.due)
        events = np.array(self.events, EVENT)
        table = with_proof(emissions, events, pa.Table.from_pylist(self.wire, WIRE))
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
