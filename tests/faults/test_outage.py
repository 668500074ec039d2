"""Vehicles that lose the network: they buffer up to the limit, come back, and send what they kept; all of it is told."""

from __future__ import annotations

from collections import Counter

import pytest
from end_to_end_runs import Finished, Runs

from ledger.metrics import FATES

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.broker, pytest.mark.netns]

VEHICLES, LIMIT, START_S, OUTAGE_S = 4, 5, 4, 14
COMMON = (
    "--vehicles", str(VEHICLES), "--duration", "26", "--outage", f"{START_S}:{OUTAGE_S}", "--loss", "0",
    "--rtt", "40", "--outbox-limit", str(LIMIT), "--loss-timeout", "45", "--quiet",
)  # fmt: skip


# A connection that is tried late in an outage succeeds at its end, before its 10 s are over: in a short one none fails.
LONG = ("--outage", f"{START_S}:{OUTAGE_S + 4}")


def closed(done: Finished) -> None:
    assert done.in_order, done.stderr
    metrics = done.metrics
    assert metrics["due"] == 26 * VEHICLES
    assert metrics["due"] == sum(metrics[fate] for fate in FATES)
    assert metrics["partial"] is False


def dropped(done: Finished) -> Counter[str | None]:
    return Counter(row["unsent_reason"] for row in done.rows("ledger.parquet") if row["fate"] == "unsent")


def test_mqtt_resumes_its_sessions_and_drops_the_oldest(runs: Runs) -> None:
    done = runs.on_testbed(
        "outage-mqtt",
        "--protocol",
        "mqtt",
        "--keepalive",
        "2",
        "--outbox-policy",
        "drop_oldest",
        *COMMON,
        *LONG,
    )
    closed(done)
    metrics = done.metrics
    assert metrics["lost"] == 0
    assert metrics["disconnections"] >= VEHICLES
    assert metrics["connections"] >= 2 * VEHICLES
    assert metrics["sessions_resumed"] >= VEHICLES
    assert metrics["connect_failures"] >= VEHICLES
    assert metrics["backlog_max"] == LIMIT
    assert metrics["buffered"] >= VEHICLES * LIMIT
    assert set(dropped(done)) == {"dropped_oldest"}
    backlogs = [row["backlog"] for row in done.rows("connections.parquet") if row["session_present"]]
    assert LIMIT in backlogs
    _one_burst(done)


@pytest.mark.full
def test_amqp_comes_back_and_sends_again_what_was_not_confirmed(runs: Runs) -> None:
    words = ("--protocol", "amqp", "--ack", "manual", "--confirms", "--keepalive", "2")
    words += ("--outbox-policy", "drop_oldest")
    # pika asks each 7 s (heartbeat and 5) whether a byte has come, and needs one such time without: it may notice 14 s late.
    longer = ("--outage", f"{START_S}:{14 + LIMIT + 1}")
    done = runs.on_testbed("outage-amqp", *words, *COMMON, *longer)
    closed(done)
    metrics = done.metrics
    assert metrics["lost"] == 0
    assert metrics["disconnections"] >= VEHICLES
    assert metrics["connections"] >= 2 * VEHICLES
    assert metrics["backlog_max"] == LIMIT
    assert set(dropped(done)) == {"dropped_oldest"}
    assert metrics["live"]["verdict"] == "agree"


def _one_burst(done: Finished) -> None:
    """What was kept goes at once when the connection is back, in its order."""
    for vehicle in {row["vehicle_id"] for row in done.rows("ledger.parquet")}:
        rows = [row for row in done.rows("ledger.parquet") if row["vehicle_id"] == vehicle]
        kept = [row for row in rows if row["buffered"] and row["emitted_at_ns"] is not None]
        assert kept
        back = [
            row["at_ns"]
            for row in done.rows("connections.parquet")
            if row["vehicle_id"] == vehicle and row["session_present"]
        ]
        stamps = [row["emitted_at_ns"] for row in kept]
        assert stamps == sorted(stamps)
        assert min(stamps) >= min(back)


@pytest.mark.full
def test_coap_buffers_behind_its_one_exchange_and_drops_the_newest(runs: Runs) -> None:
    done = runs.on_testbed(
        "outage-coap", "--protocol", "coap", "--con", "--outbox-policy", "drop_newest", *COMMON
    )
    closed(done)
    metrics = done.metrics
    assert metrics["lost"] == 0
    assert metrics["backlog_max"] == LIMIT
    assert set(dropped(done)) == {"dropped_newest"}
    assert metrics["unsent"] >= VEHICLES
    assert metrics["duplicates"] == 0
