"""Whole measurements over Kafka: a part of the Kafka formats study, to its report."""

from __future__ import annotations

import time

import pytest

from ivsim.papers.kafka_formats.report import KafkaFormats
from ivsim.study.catalogue import study_named
from ivsim.study.engines.pipe.ledger import FATES
from ivsim.study.engines.pipe.metrics import figures_of
from ivsim.study.engines.pipe.options import pipe_options
from ivsim.study.engines.pipe.platforms import kafka
from ivsim.study.engines.pipe.session import Platforms
from ivsim.study.execution import run_study
from ivsim.study.model import Study, cells_of
from ivsim.study.report import results
from ivsim.study.store import Store
from ivsim.testbed.registry import RunRecord

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    study, path = study_named("kafka-formats")
    fields = study.model_dump()
    core, half = fields["sweeps"]["core"], fields["sweeps"]["half_load"]
    core["axes"] = {"record": ["s1"], "format": ["json", "protobuf"], "profile": ["document"]}
    half["axes"] = {"format": ["protobuf"]}
    fields["sweeps"] = {"core": core, "half_load": half}
    store = Store.create(
        tmp_path_factory.mktemp("pipe") / "out", "kafka-formats", Study.model_validate(fields), quick=True
    )
    run_study(store, cells_of(store.study, str(path), quick=True))
    return store


@pytest.mark.full
def test_every_record_is_accounted_for_and_every_cost_is_there(store: Store):
    found = results(store)
    assert [one.reasons for one in found] == [[]] * 3
    for one in found:
        (figures,) = [kept.figures for kept in one.done]
        assert sum(figures[fate] for fate in FATES) == figures["produced"] == figures["consumed"]
        assert figures["acknowledged"] == figures["produced"]
        assert figures["damaged"] == 0
        for name in (
            "producer_cpu_us",
            "consumer_cpu_us",
            "platform_cpu_us",
            "platform_peak_mib",
            "wire_bytes",
        ):
            assert figures[name] > 0, name
        full = "half_load" not in one.cell.name
        assert (figures["records_per_s"] is not None) is full
        assert (figures["latency_p50_ms"] is None) is full
    json, protobuf = (found[place].done[0].figures for place in (0, 1))
    # Snappy makes little of JSON's names, and nothing of Protobuf's numbers.
    assert json["stored_bytes"] < json["payload_bytes"] / 2
    assert protobuf["stored_bytes"] < json["stored_bytes"]


@pytest.fixture(scope="module")
def platforms(tmp_path_factory):
    directory = tmp_path_factory.mktemp("killed")
    with RunRecord(f"k{time.time_ns()}", directory) as record, Platforms(record, directory / "w") as found:
        yield found


@pytest.mark.full
@pytest.mark.timing
@pytest.mark.parametrize(
    ("more", "outage_s"),
    [
        ({"kill": "broker@1.5s", "idempotence": True}, 30),
        ({"kill": "consumer-1@1.5s", "consumers": 3, "commit": "call"}, 10),
        ({"kill": "producer@1.5s"}, 10),
    ],
    ids=lambda value: value["kill"] if isinstance(value, dict) else "",
)
def test_the_ledger_closes_over_a_kill(platforms, more, outage_s):
    asked = {"rate": 300.0, "duration_s": 4.0, "warmup_s": 0.5, "different": 50, **more}
    found = platforms.measure(pipe_options(asked))
    figures = figures_of(found)
    assert sum(figures[fate] for fate in FATES) == figures["produced"] == 1_200
    assert found.complete
    assert found.answered
    assert figures["unknown"] == figures["acknowledged_lost"] == found.ledger.foreign == 0
    assert 0 < figures["outage_s"] < outage_s
    role = found.killed.role
    if role != "producer":
        assert figures["consumed"] == 1_200
        assert figures["latency_max_ms"] > 300
    if role == "broker":
        assert figures["duplicates"] == 0
        assert figures["platform_cpu_us"] is None
    if role == "consumer":
        # It commits each call: what is read again is what it had not yet said, of its own partition.
        assert figures["duplicates"] < 200
        assert all(not count for one, count in found.ledger.duplicates.items() if one != 1)
    if role == "producer":
        # What was in the library's queue or on its way is gone, and nothing else: no answered record, none of the
        # producer in its place.
        ledger = found.ledger
        lost = ledger.fate == FATES.index("lost")
        assert not ledger.produced.acknowledged_at_ns[lost].any()
        assert (ledger.produced.emitted_at_ns[lost] <= found.killed.killed_at_ns).all()
        assert figures["wire_bytes"] is None


THREE = {"brokers": 3, "replication": 3, "min_insync": 2, "acks": "all"}


@pytest.mark.full
def test_three_brokers_keep_each_record_three_times(platforms):
    found = platforms.measure(
        pipe_options({**THREE, "rate": 300.0, "duration_s": 2.0, "warmup_s": 0.5, "different": 50})
    )
    figures = figures_of(found)
    assert figures["consumed"] == figures["acknowledged"] == figures["produced"] == 600
    assert sorted(found.platform_cpu_s) == ["broker-0", "broker-1", "broker-2"]
    assert figures["stored_bytes"] > 3 * figures["payload_bytes"]
    # They stay up: the next measurement has the same.
    assert platforms.open(found.options) is platforms.open(found.options)


@pytest.mark.full
def test_two_of_three_brokers_lose_nothing_when_one_is_killed(platforms):
    asked = {**THREE, "idempotence": True, "rate": 200.0, "duration_s": 5.0, "warmup_s": 0.5}
    found = platforms.measure(pipe_options({**asked, "different": 50, "kill": "broker-1@1.5s"}))
    figures = figures_of(found)
    assert figures["consumed"] == figures["acknowledged"] == figures["produced"] == 1_000
    assert figures["lost"] == figures["unknown"] == figures["duplicates"] == 0
    assert figures["outage_s"] > 0.5


@pytest.mark.full
def test_what_the_broker_refuses_is_counted_and_not_lost(platforms, monkeypatch):
    # A broker that takes less than the library lets through: it answers each batch with an error.
    asked = {"record": "s1", "format": "json", "rate": 300.0, "duration_s": 2.0, "warmup_s": 0.5}
    options = pipe_options({**asked, "different": 50})
    platforms.open(options)
    monkeypatch.setitem(kafka.TOPIC, "max.message.bytes", "300")
    found = platforms.measure(options)
    figures = figures_of(found)
    assert figures["refused"] == figures["produced"] == 600
    assert [figures[name] for name in ("acknowledged", "consumed", "lost", "unknown")] == [0] * 4
    assert [figures[name] for name in ("latency_p50_ms", "stored_bytes", "wire_bytes")] == [None] * 3
    (one,) = found.producers
    ((problem, count),) = one["refusals"].items()
    assert "Message size too large" in problem
    assert count == 600


@pytest.mark.full
def test_over_tls_every_record_comes(platforms):
    asked = {"rate": 300.0, "duration_s": 2.0, "warmup_s": 0.5, "different": 50, "security": "tls"}
    figures = figures_of(platforms.measure(pipe_options(asked)))
    assert figures["consumed"] == figures["acknowledged"] == figures["produced"] == 600


@pytest.mark.full
def test_the_report_has_the_claims_and_decides_none_from_one_repetition(store: Store, tmp_path):
    decided = KafkaFormats().decided(store)
    assert {one.verdict for one in decided} == {"cannot tell"}
    text = KafkaFormats().write_report(store, tmp_path, decided).read_text()
    claims, mended = text.split("## The claims by a mended method")
    assert claims.count("**cannot tell**") == 20
    assert mended.count("**cannot tell**") == 14
    assert "No verdict changes." in mended
    assert "## How loaded the machine was" in mended
    for heading in ("## Claims", "## What an idiom costs", "## A million records, and a vehicle's year"):
        assert heading in text
