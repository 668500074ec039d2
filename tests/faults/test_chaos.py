"""Real cases of `ivsim chaos`, one for each protocol and one for each kind of promise; the rest is `ivsim chaos --all`."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest
from end_to_end_runs import Runs

from ivsim.chaos.faults import FAULTS
from ivsim.chaos.promises import KEEPS, MAY_LOSE, SAVED, Promise

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.broker, pytest.mark.netns]

CASES = (
    ("mqtt", "qos1", "backlog-kill", SAVED),
    ("amqp", "manual-confirms-persistent", "gateway-kill", KEEPS),
    ("coap", "con", "kafka-kill", KEEPS),
    ("mqtt", "qos0", "backlog-kill", MAY_LOSE),
)


@pytest.mark.parametrize(("protocol", "mode", "fault", "promise"), CASES)
def test_a_fault_in_the_middle_breaks_no_promise(
    runs: Runs, protocol: str, mode: str, fault: str, promise: Promise
) -> None:
    base = runs.base / f"chaos-{protocol}-{mode}-{fault}"
    words = ("--protocol", protocol, "--mode", mode, "--fault", fault, "--output", str(base))
    done = runs.call("chaos", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert max(map(len, done.stdout.splitlines()[:-1])) <= 80
    name = f"{protocol}-{mode}-{fault}"
    judged = json.loads((base / "chaos.json").read_text())[name]
    assert judged["broken"] == []
    assert judged["promise"] == promise.word
    rows = pq.read_table(base / name / "ledger.parquet").to_pylist()
    assert len(rows) == judged["counts"]["due"] > 0
    assert {row["hop"] for row in rows if row["fate"] == "lost"} <= {"vehicle", "link", *promise.lost_at}
    if promise is KEEPS:
        assert judged["counts"]["lost"] == 0
        # The fault was felt: something that was due while the part was down had to wait for it.
        longest_ns = max(row["end_to_end_latency_ns"] for row in rows if row["fate"] == "delivered")
        assert longest_ns >= FAULTS[fault].down_s * 1e9 / 2
    else:
        # What the broker held and had not saved: unacknowledged at QoS 0, proven by the capture alone.
        assert judged["lost_by_hop"].get("broker", 0) > 0


def test_a_finished_case_is_not_run_again(runs: Runs) -> None:
    protocol, mode, fault, _ = CASES[0]
    base = runs.base / f"chaos-{protocol}-{mode}-{fault}"
    words = ("--protocol", protocol, "--mode", mode, "--fault", fault, "--output", str(base))
    before = (base / f"{protocol}-{mode}-{fault}" / "manifest.json").stat().st_mtime_ns
    done = runs.call("chaos", *words)
    assert done.returncode == 0, done.stderr
    assert "1 cases are in" in done.stderr
    assert (base / f"{protocol}-{mode}-{fault}" / "manifest.json").stat().st_mtime_ns == before
