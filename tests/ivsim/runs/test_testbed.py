"""A testbed that stays up: runs follow each other on one Kafka, Spark and link, and none sees another."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import signal
import tempfile
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest
from end_to_end_runs import ended_in_order

from ivsim import Refusal, Results, Testbed, load_results, run, run_options
from ivsim.audit import audit
from ivsim.options import RunOptions
from ivsim.runs.started import StartedRun
from schemas.topics import vehicle_id

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.broker, pytest.mark.netns]

SMALL = {"vehicles": 3, "duration_s": 3.0, "loss_timeout_s": 20.0, "loss_ratio": 0.0}


def complete(results: Results, due: int = 9) -> None:
    assert (results.metrics["due"], results.metrics["delivered"]) == (due, due)
    assert results.metrics["partial"] is False
    assert results.ledger.num_rows == due
    assert not (results.directory / "work").exists()


def sound(results: Results) -> None:
    """The run is complete, its live figures and its audit agree, and it is read back as it was."""
    complete(results)
    if results.manifest["options"]["topology"] != "echo":
        assert results.metrics["live"]["verdict"] == "agree"
    sheets = audit(results.directory).sheets
    assert {sheet.name: sheet.differences for sheet in sheets if sheet.differences} == {}
    assert load_results(results.directory) == results


@pytest.mark.parametrize(
    "fields",
    [
        {"protocol": "coap", "mode": "con", "security": "dtls-psk", "trigger": "microbatch"},
        pytest.param({"protocol": "amqp", "mode": "manual-confirms-persistent"}, marks=pytest.mark.full),
        pytest.param({"protocol": "mqtt", "mode": "qos1", "security": "tls"}, marks=pytest.mark.full),
        pytest.param({"topology": "echo"}, marks=pytest.mark.full),
    ],
    ids=lambda fields: "-".join(fields.values()),
)
def test_runs_of_every_kind_follow_each_other(
    testbed: Testbed, tmp_path: Path, fields: dict[str, str]
) -> None:
    results = run(output=tmp_path / "run", testbed=testbed, **SMALL, **fields)
    sound(results)
    if fields.get("security") == "dtls-psk":
        shaken = results.metrics["security"]
        assert (shaken["handshakes_full"], shaken["handshakes_resumed"]) == (3, 0)
        assert shaken["handshake_p50_ms"] > 0


def test_a_fleet_of_three_protocols_is_one_run_with_figures_for_each(
    testbed: Testbed, tmp_path: Path
) -> None:
    """Two of the modes are acknowledged by nobody: the capture tells whose messages came to their broker."""
    mix = "mqtt qos0=50,coap con=30,amqp auto=20"
    fields = SMALL | {"vehicles": 10, "mix": mix, "shards": "2", "gateways": 2}
    results = run(output=tmp_path / "run", testbed=testbed, **fields)
    complete(results, due=30)
    parts = results.metrics["parts"]
    assert [(one["protocol"], one["mode"], one["vehicles"]) for one in parts] == [
        ("mqtt", "qos0", 5),
        ("coap", "con", 3),
        ("amqp", "auto", 2),
    ]
    assert [one["delivered"] for one in parts] == [15, 9, 6]
    for way in ("uplink", "downlink"):
        whole = results.metrics[f"wire_bytes_{way}"]
        assert sum(one[f"wire_bytes_{way}"] for one in parts) == whole
    columns = ["key", "header_protocol", "header_mode"]
    records = pq.read_table(tmp_path / "run" / "kafka_records.parquet", columns=columns).to_pylist()
    assert {tuple(row[name].decode() for name in columns) for row in records} == {
        (vehicle_id(vehicle), part.protocol.name, part.mode.name)
        for part in run_options(**fields).parts
        for vehicle in part.vehicles
    }
    audited = audit(tmp_path / "run")
    assert [found for sheet in audited.sheets for found in sheet.differences] == []
    assert "metrics.json parts" in [sheet.name for sheet in audited.sheets]


def test_messages_left_in_a_kept_broker_do_not_reach_the_next_run(testbed: Testbed, tmp_path: Path) -> None:
    fields = {"protocol": "amqp", "mode": "manual-confirms-persistent"}

    def lose_the_gateway(started: StartedRun) -> None:
        if started.publisher.totals().get("emitted", 0) >= 3:
            started.components.children["gateway-0"].kill()

    outcome = testbed.run(run_options(**SMALL, **fields), tmp_path / "broken", disturb=lose_the_gateway)
    assert outcome.exit_code == 1
    assert "gateway-0 was ended by SIGKILL" in str(outcome.error)
    broken = load_results(tmp_path / "broken").metrics
    assert "gateway-0" in broken["partial_reason"]
    assert 3 <= broken["run_due"] < 9, "of 9, those that were due before it stopped"
    ended_at_ns = testbed.ended_at_ns
    assert ended_at_ns is not None
    results = run(output=tmp_path / "next", testbed=testbed, **SMALL, **fields)
    sound(results)
    assert results.manifest["start_at_ns"] > ended_at_ns


def test_under_load_records_wait_for_others_at_the_gateway(testbed: Testbed, tmp_path: Path) -> None:
    fields = SMALL | {"vehicles": 60, "interval_s": 0.5, "link": "direct"}
    results = run(output=tmp_path / "run", testbed=testbed, **fields)
    complete(results, due=360)
    assert results.manifest["gateway_linger_ms"] == {"mqtt qos1": 100}
    # The first of a request waits for 100 ms, the last for none; of the few of a partition none is alone.
    assert results.metrics["bridge_delay_p95_ms"] > 80


def java_of(pid: int) -> list[str]:
    """Return the command lines of Java in a process and those below it; one that has ended has none."""
    lines = []
    for one in (pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))):
        with contextlib.suppress(OSError):
            lines.append(Path(f"/proc/{one}/cmdline").read_text().replace("\0", " "))
    return [line for line in lines if "java" in line.partition(" ")[0]]


@pytest.mark.full
@pytest.mark.parametrize("name", ["kafka", "twin", "mosquitto", "replay"])
def test_a_part_that_died_is_started_again_for_the_next_run(
    testbed: Testbed, tmp_path: Path, name: str
) -> None:
    java: list[str] = []

    def kill(started: StartedRun) -> None:
        components = started.components
        assert components.twin is not None
        if not java:
            java.extend(
                java_of(components.twin.process.pid) + java_of(components.servers["kafka"].process.pid)
            )
        if name == "replay":
            components.children[name].kill()
        else:
            (components.twin.process if name == "twin" else components.servers[name].process).kill()

    outcome = testbed.run(run_options(**SMALL), tmp_path / "broken", disturb=kill)
    assert outcome.exit_code == 1
    assert f"{name} was ended by SIGKILL" in str(outcome.error)
    assert name in load_results(tmp_path / "broken").metrics["partial_reason"]
    # What a killed Java had unpacked is in a directory of the testbed's, and goes with it.
    where = [re.search(r"-Djava\.io\.tmpdir=(\S+)", line) for line in java]
    assert len(where) == 2
    assert all(found is not None and Path(found[1]).parent != Path(tempfile.gettempdir()) for found in where)
    complete(run(output=tmp_path / "next", testbed=testbed, **SMALL))


@pytest.mark.full
def test_a_signal_ends_the_run_and_not_the_testbed(testbed: Testbed, tmp_path: Path) -> None:
    def stop(started: StartedRun) -> None:
        if started.publisher.totals().get("emitted", 0):
            os.kill(os.getpid(), signal.SIGTERM)

    outcome = testbed.run(run_options(**SMALL | {"duration_s": 60.0}), tmp_path / "run", disturb=stop)
    assert outcome.exit_code == 128 + signal.SIGTERM
    assert load_results(tmp_path / "run").metrics["partial"] is True


@pytest.mark.full
def test_one_run_at_a_time_and_none_once_it_is_closed(testbed: Testbed, tmp_path: Path) -> None:
    refused: list[str] = []
    spared: list[int] = []

    def another(_started: StartedRun) -> None:
        spared.append(gc.get_freeze_count())
        with pytest.raises(Refusal, match="runs follow each other") as refusal:
            testbed.run(run_options(**SMALL), tmp_path / "second")
        refused.append(str(refusal.value))

    outcome = testbed.run(run_options(**SMALL), tmp_path / "first", disturb=another)
    assert outcome.error is None
    assert ended_in_order(outcome.exit_code, outcome.metrics)
    assert refused
    # What the run keeps second by second is spared from full collections while it goes, and only then.
    assert 0 < spared[0] < spared[-1]
    assert gc.get_freeze_count() == 0
    assert not (tmp_path / "second").exists()
    with pytest.raises(Refusal, match="the testbed is not open"):
        Testbed().run(RunOptions())
