"""Whole measurements over the null platform: real producer and consumer processes, files between them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from ivsim import cli
from ivsim.runs import children as starting
from ivsim.study.engines.pipe import engine, measurement
from ivsim.study.engines.pipe.ledger import FATES
from ivsim.study.engines.pipe.metrics import PIPE_METRICS, STAGES, figures_of
from ivsim.study.engines.pipe.options import pipe_options
from ivsim.study.engines.pipe.platforms import platform_named
from ivsim.study.engines.pipe.session import Platforms
from ivsim.study.execution import run_study
from ivsim.study.model import cells_of, read_study
from ivsim.study.report import results, write_report
from ivsim.study.store import Store
from ivsim.testbed.process import ProcessDied

STUDY = """
schema_version = 2
title = "Idioms"
question = "What does a record cost?"
engine = "pipe"
repetitions = 2
metrics = ["client_cpu_us", "payload_bytes", "consumed"]
[scenario]
platform = "null"
record = "s1"
different = 20
duration_s = 0.4
warmup_s = 0.1
[axes]
format = ["json", "protobuf"]
"""


def measured(run_record, tmp_path, **given):
    with Platforms(run_record, tmp_path / "work") as platforms:
        options = pipe_options({"platform": "null", "different": 50, **given})
        found = platforms.measure(options)
    return found, figures_of(found)


def test_at_a_rate_every_record_is_due_in_its_turn_and_accounted_for(run_record, tmp_path):
    found, figures = measured(
        run_record, tmp_path, rate=400.0, duration_s=1.0, warmup_s=0.25, producers=2, consumers=2, record="s1"
    )
    assert figures["produced"] == figures["acknowledged"] == figures["consumed"] == 400
    assert [
        figures[name] for name in ("lost", "unknown", "refused", "duplicates", "reordered", "damaged")
    ] == [0] * 6
    due = found.ledger.produced.due_at_ns - found.start_at_ns
    assert due.tolist() == [round(k * 2_500_000) for k in range(400)]
    # Delays are of the 300 records due after the warm-up, and in the order in which they come about.
    assert figures["records_per_s"] is None
    assert (
        0 <= figures["emission_lag_p50_ms"] <= figures["acknowledgement_p50_ms"] <= figures["latency_p50_ms"]
    )
    for stage in STAGES:
        assert figures[f"{stage}_us"] > 0, stage
    assert figures["payload_bytes"] == 185
    assert figures["wire_bytes"] == figures["stored_bytes"] == 185 + 12
    stages = sum(figures[f"{stage}_us"] for stage in ("build", "encode", "produce", "deliver"))
    assert figures["producer_cpu_us"] == pytest.approx(stages)
    assert 5 < figures["producer_peak_mib"] < 500
    assert figures["platform_cpu_us"] is None
    assert set(figures) == {*PIPE_METRICS, "validity"}
    # What was sent is for those that were acknowledged, what is stored for those that came.
    found.ledger.produced.acknowledged_at_ns[:200] = 0
    figures = figures_of(found)
    assert figures["wire_bytes"] == 2 * (185 + 12)
    assert figures["stored_bytes"] == 185 + 12


@pytest.mark.timing
def test_at_full_speed_there_is_a_throughput_and_no_latency(run_record, tmp_path):
    found, figures = measured(
        run_record, tmp_path, duration_s=0.6, warmup_s=0.2, content="encoded", record="s1"
    )
    assert figures["produced"] == figures["consumed"] > 1_000
    assert figures["records_per_s"] > 1_000
    assert figures["payload_mb_per_s"] == pytest.approx(figures["records_per_s"] * 185 / 1e6)
    assert figures["summed_records_per_s"] < figures["wall_records_per_s"]
    assert [
        name for name, value in figures.items() if name.startswith(("latency", "emission")) and value
    ] == []
    assert figures["build_us"] is figures["encode_us"] is figures["encode_decode_us"] is None
    assert found.complete


def test_a_share_of_the_capacity_is_of_what_came_through_just_before(run_record, tmp_path):
    asked = {"load_ratio": 0.25, "arrivals": "poisson", "limit_ms": 1_000, "duration_s": 0.6, "warmup_s": 0.2}
    found, figures = measured(run_record, tmp_path, record="s1", **asked)
    assert figures["capacity_per_s"] > 1_000
    assert found.options.rate == figures["capacity_per_s"] / 4
    assert figures["produced"] == pytest.approx(found.options.rate * 0.6, rel=0.2)
    assert figures["records_per_s"] is None
    assert figures["latency_p50_ms"] > 0


def test_payloads_that_name_their_schema_find_it_in_a_registry(run_record, tmp_path, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):  # a proxy, which knows nothing of our loopback
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    _found, figures = measured(
        run_record,
        tmp_path,
        rate=200.0,
        duration_s=0.5,
        warmup_s=0.1,
        record="s1",
        format="avro-confluent",
        different=5,
        producers=2,
        partitions=2,
        consumers=2,
    )
    assert figures["consumed"] == figures["produced"] == 100
    assert figures["damaged"] == 0
    assert figures["payload_bytes"] == 239 + 5


def test_a_consumer_that_dies_is_named_and_nothing_is_left(run_record, tmp_path, monkeypatch):
    monkeypatch.setattr(measurement, "LEAD_NS", 0)
    killed = []

    def kill(phase, over_s, sent, received):
        for child in Path(tmp_path / "work" / "clients").glob("*-consumer-0.json"):
            if over_s > 0.2 and not killed:
                killed.append(child)
                children[child.stem].kill()

    children = {}
    real = starting.ForkedChild

    class Watched(real):
        def __init__(self, server, name, *rest, **more):
            super().__init__(server, name, *rest, **more)
            children[name] = self

    monkeypatch.setattr(starting, "ForkedChild", Watched)
    with Platforms(run_record, tmp_path / "work") as platforms:
        options = pipe_options({"platform": "null", "rate": 100.0, "duration_s": 20, "different": 5})
        with pytest.raises(ProcessDied, match=r"consumer-0 was ended by SIGKILL"):
            platforms.measure(options, kill)
    assert killed
    assert not any(child.running() for child in children.values())
    assert not (tmp_path / "work" / "null").exists()


def test_full_speed_ends_where_the_platform_has_no_room_for_more(run_record, tmp_path, monkeypatch):
    asked = {"record": "b1k", "format": "raw", "content": "encoded", "producers": 2, "partitions": 2}
    # Enough for a few tenths of a second: the first record comes through after some milliseconds.
    monkeypatch.setattr(platform_named("null"), "room_bytes", lambda: 19_999_999, raising=False)
    _found, figures = measured(run_record, tmp_path, **asked, duration_s=5.0, warmup_s=0.0)
    # 9,999,999.5 B for each producer: 9,999 records, the last of them whole.
    assert figures["produced"] == figures["consumed"] == 19_998
    assert figures["records_per_s"] > 1_000
    assert not [one for one in figures["validity"]["causes"] if "memory" in one["words"]]
    _found, figures = measured(run_record, tmp_path, **asked, duration_s=5.0, warmup_s=4.0)
    assert figures["records_per_s"] is None
    assert figures["validity"]["verdict"] == "invalid"
    assert "platform_full" in [one["name"] for one in figures["validity"]["causes"]]


def test_a_speed_at_which_nothing_came_through_yet_is_unknown(run_record, tmp_path, monkeypatch):
    monkeypatch.setattr(platform_named("null"), "room_bytes", lambda: 1_500, raising=False)
    asked = {"record": "b1k", "format": "raw", "content": "encoded"}
    _found, figures = measured(run_record, tmp_path, **asked, duration_s=5.0, warmup_s=0.0)
    assert figures["produced"] == figures["consumed"] == 1
    assert figures["records_per_s"] is None
    assert "platform_full" in [one["name"] for one in figures["validity"]["causes"]]


def assert_closed(found, figures):
    assert sum(figures[fate] for fate in FATES) == figures["produced"]
    assert figures["unknown"] == figures["acknowledged_lost"] == 0
    assert found.complete
    assert found.answered
    assert found.ledger.foreign == 0
    assert 0.05 < figures["outage_s"] < 30
    assert found.killed.back_at_ns > found.killed.killed_at_ns > found.start_at_ns


def test_a_killed_consumer_reads_again_and_nothing_that_it_had_is_forgotten(run_record, tmp_path):
    found, figures = measured(
        run_record,
        tmp_path,
        rate=300.0,
        duration_s=1.5,
        warmup_s=0.2,
        partitions=4,
        consumers=2,
        kill="consumer-1@0.7s",
    )
    assert_closed(found, figures)
    assert figures["consumed"] == figures["produced"] == 450
    killed_at_ns = found.killed.killed_at_ns
    mine = np.isin(found.ledger.partition, [1, 3])
    # What came before the kill keeps its stamp, though the process that took it is gone, and comes once more.
    before = mine & (found.ledger.received_at_ns < killed_at_ns)
    assert 50 < before.sum() == figures["duplicates"] < 225
    assert sum(found.ledger.duplicates[one] for one in (0, 2)) == 0
    again = found.ledger.received_at_ns[mine & ~before]
    assert again.min() > found.killed.back_at_ns - 100_000_000
    assert figures["latency_max_ms"] / 1e3 > figures["outage_s"] * 0.8
    assert figures["stored_bytes"] == pytest.approx(figures["payload_bytes"] + 12)  # read twice, stored once
    assert figures["damaged"] is None
    assert figures["producer_cpu_us"] > 0


@pytest.mark.timing
def test_a_killed_producer_loses_what_it_had_not_written_and_its_next_one_goes_on(run_record, tmp_path):
    found, figures = measured(
        run_record,
        tmp_path,
        rate=400.0,
        duration_s=1.5,
        warmup_s=0.2,
        producers=2,
        kill="producer@0.7s",
    )
    assert_closed(found, figures)
    # Every record that was due was made, once, in its turn: by the first process or by the one after it.
    assert found.ledger.produced.number.tolist() == list(range(1, 601))
    due = found.ledger.produced.due_at_ns - found.start_at_ns
    assert due.tolist() == [round(k * 2_500_000) for k in range(600)]
    # In the killed one's hand: not yet written, so lost, or written and not yet noted, so consumed and not acknowledged.
    unnoted = figures["consumed"] - figures["acknowledged"]
    assert figures["consumed"] == 600 - figures["lost"]
    assert unnoted >= 0
    assert figures["lost"] + unnoted <= 2
    late = found.ledger.produced.emitted_at_ns - found.ledger.produced.due_at_ns
    assert late[1::2].max() < late[::2].max()
    assert figures["emission_lag_max_ms"] / 1e3 > figures["outage_s"] * 0.8
    assert figures["wire_bytes"] is figures["batch_records"] is figures["full_waits"] is None
    assert figures["validity"]["verdict"] == "degraded"
    assert "generator_limited" in [one["name"] for one in figures["validity"]["causes"]]


def test_a_study_measures_every_cell_and_reports_it(tmp_path, monkeypatch):
    file = tmp_path / "study.toml"
    file.write_text(STUDY)
    checked = []
    real = engine.check_records
    monkeypatch.setattr(
        engine, "check_records", lambda options: checked.append(options.format) or real(options)
    )
    study = read_study(file)
    store = Store.create(tmp_path / "out", "idioms", study, quick=False)
    run_study(store, cells_of(study, str(file)))
    assert sorted(checked) == ["json", "protobuf"]  # once a run, and not for each repetition
    found = {result.cell.values["format"]: result for result in results(store)}
    assert [result.reasons for result in found.values()] == [[], []]
    assert [len(result.done) for result in found.values()] == [2, 2]
    assert found["protobuf"].interval("payload_bytes").estimate == 185
    assert found["json"].interval("client_cpu_us").estimate > 0
    assert "What does a record cost?" in write_report(store, tmp_path / "report").read_text()


def test_the_command_leaves_manifest_metrics_samples_and_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    words = "pipe --platform null --rate 200 --duration 1 --warmup 0.2 --different 20 --output out"
    monkeypatch.setattr(sys, "argv", ["ivsim", *words.split()])
    with pytest.raises(SystemExit) as end:
        cli.main()
    said = capsys.readouterr()
    assert end.value.code == 0, said.err
    assert max(len(line) for line in said.out.splitlines() if "report:" not in line) <= 80
    assert "emission lag" in said.out
    out = tmp_path / "out"
    metrics = json.loads((out / "metrics.json").read_text())
    assert sum(metrics[fate] for fate in FATES) == metrics["produced"] == 200
    samples = pq.read_table(out / "samples.parquet")
    assert samples.num_rows == 200
    assert set(samples.column("fate").to_pylist()) == {"consumed"}
    assert (np.asarray(samples.column("received_at_ns")) > np.asarray(samples.column("due_at_ns"))).all()
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["options"]["rate"] == 200
    assert manifest["versions"]["orjson"]
    page = (out / "report.html").read_text()
    assert f'data-metric="consumed" data-value="{metrics["consumed"]}"' in page
    assert page.count("<figure>") == 2
    assert sorted(path.name for path in out.iterdir()) == [
        *("logs", "manifest.json", "metrics.json", "report.html", "samples.parquet"),
    ]


@pytest.mark.full
def test_how_loaded_the_machine_was_by_others_is_told(run_record, tmp_path):
    found, figures = measured(run_record, tmp_path, duration_s=1.0, warmup_s=0.25, record="s1")
    assert found.machine is not None
    assert found.machine.span_s >= 0.75
    own = sum(one["marks"]["end_cpu_ns"] - one["marks"]["warm_cpu_ns"] for one in found.producers)
    own += sum(one["marks"]["end_cpu_ns"] - one["marks"]["warm_cpu_ns"] for one in found.consumers)
    assert own > 0
    assert figures["other_busy_cores"] == pytest.approx(
        figures["machine_busy_cores"] - own / 1e9 / found.machine.span_s
    )
    # Two processes that go as fast as they can are seen by the machine's own count.
    assert figures["machine_busy_cores"] > own / 1e9 / found.machine.span_s * 0.5
