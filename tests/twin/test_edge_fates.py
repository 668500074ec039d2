"""Fates and hops of messages that gateways at the edge take, by the ledger's SQL; without Spark."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

from ledger import definitions

S = 1_000_000_000
TIMEOUT_NS, STOP_NS = 5 * S, 100 * S
COLUMNS = {
    **dict.fromkeys(
        ("due_at_ns", "emitted_at_ns", "acknowledged_at_ns", "refused_at_ns", "received_at_ns", "appended_at_ns",
         "taken_at_ns", "left_at_ns", "reached_cloud_at_ns"), "bigint",
    ),
    **dict.fromkeys(("refused_by", "unsent_reason"), "varchar"),
    **dict.fromkeys(("contained", "in_kafka", "held_back"), "boolean"),
}  # fmt: skip
TAKEN = {"due_at_ns": 10 * S, "emitted_at_ns": 10 * S, "taken_at_ns": 11 * S, "received_at_ns": 11 * S}
IN_KAFKA = {"in_kafka": True, "contained": True}


def placed(row: dict[str, Any], topology: str, stop_at_ns: int | None = None) -> tuple[str, str | None]:
    """Return fate and hop of a message with these stamps."""
    undecided = definitions.undecided(
        TIMEOUT_NS, stop_at_ns, across=definitions.ACROSS.get(topology, definitions.SEEN)
    )
    fate = definitions.fate(TIMEOUT_NS, undecided, definitions.ARRIVED[topology])
    values = ", ".join(f"cast(${name} as {kind}) as {name}" for name, kind in COLUMNS.items())
    query = f"select fate, {definitions.HOP} from (select *, {fate} as fate from (select {values}))"
    found = duckdb.execute(query, {name: row.get(name) for name in COLUMNS}).fetchone()
    assert found is not None
    return found[0], found[1]


@pytest.mark.parametrize(
    ("row", "edge", "gateway"),
    [
        (TAKEN | IN_KAFKA | {"appended_at_ns": 14 * S}, ("delivered", None), ("delivered", None)),
        # The gateway had it at once, Kafka nine seconds later.
        (TAKEN | IN_KAFKA | {"appended_at_ns": 20 * S}, ("late", None), ("delivered", None)),
        (TAKEN, ("lost", "gateway"), ("lost", "gateway")),
        (TAKEN | {"left_at_ns": 30 * S}, ("lost", "uplink"), ("lost", "uplink")),
        (TAKEN | {"in_kafka": True, "contained": False, "left_at_ns": 30 * S}, ("lost", "kafka"), ("lost", "kafka")),
        ({"due_at_ns": 10 * S, "emitted_at_ns": 10 * S, "acknowledged_at_ns": 11 * S}, ("lost", "broker"), ("lost", "broker")),
        ({"due_at_ns": 10 * S, "emitted_at_ns": 10 * S}, ("lost", "link"), ("lost", "link")),
    ],
)  # fmt: skip
def test_at_the_edge_a_message_is_late_by_kafkas_stamp(
    row: dict[str, Any], edge: tuple[str, str | None], gateway: tuple[str, str | None]
) -> None:
    assert placed(row, "edge") == edge
    assert placed(row, "gateway") == gateway


def test_what_a_gateway_had_when_the_run_was_stopped_may_yet_have_come_over_the_link() -> None:
    row = {name: at + 87 * S for name, at in TAKEN.items()}
    assert placed(row, "edge", STOP_NS) == ("unknown", None)
    assert placed(row, "gateway", STOP_NS) == ("lost", "gateway")
    assert placed(TAKEN, "edge", STOP_NS) == ("lost", "gateway"), "its loss timeout was over"
