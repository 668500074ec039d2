"""Real cases of `ivsim chaos`, one for each protocol and one for each kind of promise; the rest is `ivsim chaos --all`."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ivsim.chaos.case import Case, Disturber
from ivsim.chaos.faults import FAULTS, Fault
from ivsim.chaos.promises import FATES, KEEPS, MAY_LOSE, SAVED, Judgement, Promise
from ivsim.commands.chaos import judge_all
from ivsim.option_rules import run_options
from ivsim.runs.processes import receive_logs
from ivsim.runs.started import StartedRun
from ivsim.runs.testbed import Testbed

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.broker, pytest.mark.netns]

CASES = (
    pytest.param(Case("mqtt", "qos1", "backlog-kill"), SAVED, marks=pytest.mark.full),
    pytest.param(
        Case("amqp", "manual-confirms-persistent", "gateway-kill", kafka_client="jpype"),
        KEEPS,
        marks=pytest.mark.full,
    ),
    (Case("coap", "con", "kafka-kill"), KEEPS),
    *(
        pytest.param(Case(protocol, mode, "gateway-kill", gateways=2), KEEPS, marks=pytest.mark.full)
        for protocol, mode in (("mqtt", "qos1"), ("amqp", "manual-confirms-persistent"), ("coap", "con"))
    ),
    pytest.param(Case("mqtt", "qos0", "backlog-kill"), MAY_LOSE, marks=pytest.mark.full),
)


@pytest.mark.parametrize(
    ("case", "promise"), CASES, ids=lambda one: one.name if isinstance(one, Case) else one.word
)
def test_a_fault_in_the_middle_breaks_no_promise(
    tmp_path: Path,
    testbed: Testbed,
    capsys: pytest.CaptureFixture[str],
    case: Case,
    promise: Promise,
) -> None:
    base = tmp_path
    assert judge_all(tmp_path, [case], seed=1, testbed=testbed) == 0, capsys.readouterr()
    assert max(map(len, capsys.readouterr().out.splitlines()[:-1])) <= 80
    judged = json.loads((base / "chaos.json").read_text())[case.name]
    assert judged["broken"] == []
    assert judged["promise"] == promise.word
    rows = pq.read_table(base / case.name / "ledger.parquet").to_pylist()
    assert len(rows) == judged["counts"]["due"] > 0
    assert {row["hop"] for row in rows if row["fate"] == "lost"} <= {"vehicle", "link", *promise.lost_at}
    taken = [path.stat().st_size for path in receive_logs(base / case.name)]
    assert len(taken) == case.gateways
    assert all(taken)
    if promise is KEEPS:
        assert judged["counts"]["lost"] == 0
    if promise is KEEPS and case.gateways == 1:
        # The fault was felt: something that was due while the part was down had to wait for it.
        longest_ns = max(row["end_to_end_latency_ns"] for row in rows if row["fate"] == "delivered")
        assert longest_ns >= FAULTS[case.fault].down_s * 1e9 / 2
    if promise is not KEEPS:
        # What the broker held and had not saved: unacknowledged at QoS 0, proven by the capture alone.
        assert judged["lost_by_hop"].get("broker", 0) > 0


def test_a_broker_that_is_killed_young_has_kept_its_gateways_subscription(
    tmp_path: Path, testbed: Testbed
) -> None:
    """Killed at the first message, long before mosquitto saves by itself; back two seconds before its gateway."""
    back_at_ns: list[int] = []

    def kill_both(run: StartedRun) -> set[str]:
        down = FAULTS["gateway-kill"].inject(run)
        return down | FAULTS["broker-kill"].inject(run)

    def restore_one_by_one(run: StartedRun) -> None:
        FAULTS["broker-kill"].restore(run)
        back_at_ns.append(time.time_ns())
        # Vehicles send to a broker whose gateway is away meanwhile: the assertion below says that some did.
        time.sleep(2)
        FAULTS["gateway-kill"].restore(run)

    disturber = Disturber(Fault("young", "", kill_both, restore_one_by_one, down_s=0.0), at_message=1)
    options = run_options(vehicles=5, duration_s=6.0, loss_ratio=0.0, loss_timeout_s=8.0)
    outcome = testbed.run(options, tmp_path / "run", disturb=disturber)
    assert (outcome.error, disturber.done) == (None, True)
    rows = pq.read_table(tmp_path / "run" / "ledger.parquet").to_pylist()
    later = [row for row in rows if (row["acknowledged_at_ns"] or 0) > back_at_ns[0]]
    assert min(row["acknowledged_at_ns"] for row in later) < back_at_ns[0] + 2e9, (
        "before the gateway was back"
    )
    assert {row["fate"] for row in later} == {"delivered"}


def test_a_finished_case_is_not_run_again(tmp_path: Path) -> None:
    case = Case("coap", "non", "link-cut")
    judgement = Judgement(case.promise().word, dict.fromkeys((*FATES, "due"), 0))
    (tmp_path / case.name).mkdir()
    (tmp_path / "chaos.json").write_text(json.dumps({case.name: vars(judgement)}))
    (tmp_path / case.name / "manifest.json").write_text("{}")
    manifest = tmp_path / case.name / "manifest.json"
    before = manifest.stat().st_mtime_ns
    words = (
        "--protocol",
        case.protocol,
        "--mode",
        case.mode,
        "--fault",
        case.fault,
        "--output",
        str(tmp_path),
    )
    done = subprocess.run(
        [sys.executable, "-m", "ivsim.cli", "chaos", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "1 cases are in" in done.stderr
    assert manifest.stat().st_mtime_ns == before
