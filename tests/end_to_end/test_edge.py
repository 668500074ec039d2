"""Gateways at the edge, with real brokers, link, Kafka and twin: the ledger closes, a cut has its hop, the batcher acts."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from end_to_end_runs import ended_in_order

from gateways.receive_log import to_table
from ivsim import Testbed
from ivsim.audit import audit
from ivsim.option_rules import run_options
from schemas.topics import vehicle_id

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.broker, pytest.mark.netns]

STEADY: dict[str, Any] = {"topology": "edge", "trace": "paper-rtt", "loss_ratio": 0.0, "rtt": "40"}


def rows(directory: Path, name: str) -> list[dict[str, Any]]:
    return pq.read_table(directory / name).to_pylist()


def fates(directory: Path) -> Counter[str]:
    return Counter(row["fate"] for row in rows(directory, "ledger.parquet"))


def assert_audited(directory: Path) -> None:
    """Every figure of the run comes out of its raw logs once more."""
    found = audit(directory)
    assert {sheet.name: sheet.differences for sheet in found.sheets if sheet.differences} == {}


@pytest.mark.full
@pytest.mark.parametrize(("protocol", "mode"), [("mqtt", "qos1"), ("coap", "con")])
def test_each_gateway_bridges_its_own_vehicles_over_its_own_link(
    testbed: Testbed, tmp_path: Path, protocol: str, mode: str
) -> None:
    options = run_options(**STEADY, protocol=protocol, mode=mode, gateways=2, vehicles=5, duration_s=8)
    directory = tmp_path / "run"
    outcome = testbed.run(options, directory)
    assert outcome.error is None
    assert ended_in_order(outcome.exit_code, outcome.metrics), outcome.metrics["validity"]
    metrics = outcome.metrics
    assert metrics["due"] == metrics["delivered"] == 40
    for gateway, own in enumerate(({1, 3, 5}, {2, 4})):
        taken = to_table(directory / f"received-{gateway}.events")
        assert set(taken["vehicle_id"].to_pylist()) == {vehicle_id(number) for number in own}
    # Vehicles reach their gateway at once; a record crosses the link, and its acknowledgement comes back.
    assert metrics["one_way_delay_p50_ms"] < 20
    assert metrics["bridge_delay_p50_ms"] > 20 - 1, "LogAppendTime counts milliseconds"
    if protocol == "coap":
        assert metrics["acknowledgement_time_p50_ms"] > 40, "the gateway acknowledges after Kafka"
    else:
        assert metrics["acknowledgement_time_p50_ms"] < 40, "the broker beside the gateway acknowledges"
    link = rows(directory, "link.parquet")
    carried = Counter()
    for row in link:
        carried[row["vehicle_id"], row["direction"]] += row["wire_bytes"]
    assert set(carried) == {(f"gateway-{n}", way) for n in (0, 1) for way in ("uplink", "downlink")}
    of_payload = sum(row["payload_bytes"] for row in rows(directory, "ledger.parquet"))
    assert sum(carried[f"gateway-{n}", "uplink"] for n in (0, 1)) > of_payload
    assert 100 < metrics["overhead_bytes_per_message"] < 3_000
    # So short a run proves little of the tail; its probes crossed the gateways' links all the same, and at their delay.
    delays = [check for check in metrics["certificate"]["checks"] if check["parameter"] == "delay"]
    assert [check["direction"] for check in delays] == ["uplink", "downlink"]
    assert all(check["verdict"] != "off" and 0 < check["achieved_value"] < 5 for check in delays), delays
    assert "5 vehicles through 2 gateways at the edge" in (directory / "report.html").read_text()
    assert_audited(directory)


@pytest.mark.full
def test_what_waited_for_the_link_to_come_back_is_late_and_nothing_is_lost(
    testbed: Testbed, tmp_path: Path
) -> None:
    options = run_options(**STEADY, vehicles=5, duration_s=10, loss_timeout_s=5, outage=["3:8"])
    directory = tmp_path / "run"
    outcome = testbed.run(options, directory)
    assert outcome.error is None
    found = fates(directory)
    assert set(found) == {"delivered", "late"}
    assert sum(found.values()) == 50
    # Those due in the first three of eight seconds without a link wait longer than five; a second's change may be late.
    assert 5 <= found["late"] <= 25
    late = [row for row in rows(directory, "ledger.parquet") if row["fate"] == "late"]
    assert all(row["acknowledged_at_ns"] - row["emitted_at_ns"] < 1e9 for row in late), (
        "by the broker, at once"
    )
    assert all(row["received_at_ns"] - row["emitted_at_ns"] < 1e9 for row in late)
    assert all(row["appended_at_ns"] - row["emitted_at_ns"] > 5e9 for row in late)
    assert_audited(directory)


@pytest.mark.full
def test_what_the_link_still_held_at_the_end_was_last_seen_on_it(testbed: Testbed, tmp_path: Path) -> None:
    options = run_options(**STEADY, vehicles=5, duration_s=6, loss_timeout_s=4, outage=["3:60"])
    directory = tmp_path / "run"
    outcome = testbed.run(options, directory)
    assert outcome.error is None
    found = fates(directory)
    assert found["delivered"] >= 10
    assert found["lost"] >= 10
    hops = Counter(row["hop"] for row in rows(directory, "ledger.parquet") if row["fate"] == "lost")
    assert set(hops) <= {"uplink", "gateway"}
    # librdkafka has up to five requests in flight; what came later waits in the gateway.
    assert hops["uplink"] >= 1
    assert hops["gateway"] >= 1
    assert outcome.metrics["lost_at_uplink"] == hops["uplink"]
    ledger = {(row["vehicle_id"], row["sequence"]): row for row in rows(directory, "ledger.parquet")}
    in_flight = {(row["vehicle_id"], row["sequence"]) for row in rows(directory, "in_flight.parquet")}
    # A record that the link did let through, and the answer to which it held, is in flight to its gateway and in Kafka.
    answers_held = {one for one in in_flight if ledger[one]["appended_at_ns"] is not None}
    assert all(ledger[one]["fate"] in ("delivered", "late") for one in answers_held)
    assert {one for one, row in ledger.items() if row["hop"] == "uplink"} == in_flight - answers_held
    assert_audited(directory)


@pytest.mark.full
def test_everything_may_be_encrypted_at_the_edge_too(testbed: Testbed, tmp_path: Path) -> None:
    options = run_options(
        **STEADY,
        protocol="amqp",
        mode="manual-confirms",
        security="mtls",
        kafka_security="sasl-ssl",
        gateways=2,
        vehicles=4,
        duration_s=5,
    )
    outcome = testbed.run(options, tmp_path / "run")
    assert outcome.error is None
    assert outcome.metrics["due"] == outcome.metrics["delivered"] == 20
    assert_audited(tmp_path / "run")


COLLAPSING = """\
# ivsim_trace: 1
# origin: made for a test
# licence: CC0-1.0
# rate_meaning: capacity
# last_step_s: 60
time_s,uplink_kbps,downlink_kbps,rtt_ms
0,4000,4000,40
6,150,150,300
14,4000,4000,40
"""


@pytest.mark.full
def test_the_batcher_acts_when_its_link_collapses_and_loses_nothing(testbed: Testbed, tmp_path: Path) -> None:
    trace = tmp_path / "collapsing.csv"
    trace.write_text(COLLAPSING)
    options = run_options(
        topology="edge", trace=str(trace), trace_offsets=False, loss_ratio=0.0, vehicles=20, interval_s=0.5, duration_s=20,
        batching="reactive", batch_messages=1, batch_ms=200.0, batch_limit_ms=1_000.0, batch_period_s=2.0,
    )  # fmt: skip
    directory = tmp_path / "run"
    outcome = testbed.run(options, directory)
    assert outcome.error is None
    found = fates(directory)
    assert found["lost"] == found["unknown"] == 0
    assert found["delivered"] + found["late"] == outcome.metrics["due"] == 800
    decisions = [json.loads(line) for line in (directory / "decisions-0.jsonl").read_text().splitlines()]
    start_at_ns = json.loads((directory / "manifest.json").read_text())["start_at_ns"]
    changed = [
        (one["decided_at_ns"] - start_at_ns) / 1e9
        for one in decisions
        if (one["messages"], one["wait_ms"]) != (one["messages_before"], one["wait_ms_before"])
    ]
    assert any(6 <= at_s <= 18 for at_s in changed), decisions
    # TCP's own round trip is the replayed link's: 40 ms, and hundreds with the queue of the collapsed link.
    measured = [one["rtt_ms"] for one in decisions if one["rtt_ms"] is not None]
    assert min(measured) < 150
    assert max(measured) > 250
    assert "batches" in (directory / "report.html").read_text()
    assert_audited(directory)
