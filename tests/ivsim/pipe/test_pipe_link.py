"""Producers behind an emulated link: namespaces, replay, capture and certificate as a run has them."""

from __future__ import annotations

import json
import time

import pyarrow.parquet as pq
import pytest
from end_to_end_runs import namespaces_of

from ivsim.study.engines.pipe.ledger import FATES
from ivsim.study.engines.pipe.metrics import figures_of
from ivsim.study.engines.pipe.options import link_options, pipe_options
from ivsim.study.engines.pipe.run import run
from ivsim.study.engines.pipe.session import Platforms, write_link
from ivsim.testbed.registry import RunRecord
from schemas.errors import Refusal

ASKED = {
    "record": "s1",
    "format": "protobuf",
    "rate": 200.0,
    "duration_s": 4.0,
    "warmup_s": 1.0,
    "linger_ms": 5.0,
}


def test_a_link_is_asked_as_a_runs_link_is():
    assert link_options(pipe_options({})) is None
    found = link_options(pipe_options({"link": "auto", "rtt": "60", "loss_ratio": 0.02, "tcp": "bbr"}))
    assert found is not None
    assert (found.vehicles, found.rtt, found.loss_ratio, found.tcp) == (1, "60", 0.02, "bbr")
    assert link_options(pipe_options({"link": "direct"})) == link_options(pipe_options({"link": "direct"}))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"trace": "car-rtt-2023"}, "--trace car-rtt-2023: needs --link"),
        ({"tcp": "bbr"}, "--tcp bbr: needs --link"),
        ({"link": "direct", "rtt": "60"}, "--rtt 60: has no effect with --link direct"),
        ({"link": "direct", "loss_ratio": 0.1}, "--loss 0.1: has no effect with --link direct"),
        ({"link": "wire"}, "--link 'wire': allowed are auto, netem, uml, direct"),
        ({"link": "auto", "tcp": "vegas"}, "--tcp 'vegas': allowed are"),
        ({"link": "auto", "trace": "none.csv"}, "--trace 'none.csv': no such file"),
        ({"link": "auto", "rtt": "-3"}, "--rtt -3: allowed are 0 to 60000 milliseconds"),
        ({"link": "auto", "platform": "null"}, "--link auto: has no effect with --platform null, only with kafka, pulsar, redis"),
    ],
)  # fmt: skip
def test_what_no_link_can_be_is_refused(given, says):
    with pytest.raises(Refusal) as refused:
        pipe_options(given)
    assert str(refused.value).startswith(says)


@pytest.mark.full
@pytest.mark.timing
@pytest.mark.kafka
@pytest.mark.netns
def test_records_cross_the_link_and_are_accounted_for(tmp_path):
    asked = {"link": "auto", "trace": "car-uplink-2024", "rtt": "80", "partitions": 2}
    outcome = run(pipe_options({**ASKED, **asked}), tmp_path / "out")
    assert outcome.error is None
    figures = outcome.metrics
    assert sum(figures[fate] for fate in FATES) == figures["produced"] == figures["consumed"] == 800
    assert figures["certificate"]["verdict"] != "off", figures["certificate"]
    # One way up, to the consumer beside the broker; both ways, to the acknowledgement.
    assert figures["latency_p50_ms"] >= 40
    assert figures["acknowledgement_p50_ms"] >= 80
    assert figures["link_bytes_uplink"] > figures["wire_bytes"] > figures["payload_bytes"]
    assert figures["link_bytes_downlink"] > 0
    rows = pq.read_table(tmp_path / "out" / "link.parquet")
    assert set(rows["direction"].to_pylist()) == {"uplink", "downlink"}
    assert not (tmp_path / "out" / "work").exists()
    assert "Fidelity certificate" in outcome.report.read_text()
    run_name = json.loads((tmp_path / "out" / "manifest.json").read_text())["run"]
    assert namespaces_of(run_name) == []


@pytest.mark.full
@pytest.mark.kafka
@pytest.mark.netns
def test_measurements_follow_each_other_on_one_link_and_without_one(tmp_path):
    """The control is the same namespaces without emulation; three brokers, TLS and a kill stand there too."""
    with (
        RunRecord(f"l{time.time_ns():x}-{time.time_ns() % 0xFFFFFF:06x}", tmp_path) as record,
        Platforms(record, tmp_path / "w") as platforms,
    ):
        direct = {**ASKED, "link": "direct", "duration_s": 3.0}
        first = platforms.measure(pipe_options(direct))
        again = platforms.measure(pipe_options({**direct, "security": "tls"}))
        killed = platforms.measure(pipe_options({**direct, "kill": "broker@1.5s", "idempotence": True}))
        for found in (first, again, killed):
            figures = figures_of(found)
            assert sum(figures[fate] for fate in FATES) == figures["produced"] == 600
            assert figures["acknowledged_lost"] == 0
            assert figures["link_bytes_uplink"] > figures["payload_bytes"]
        assert figures_of(again)["link_bytes_uplink"] > figures_of(first)["link_bytes_uplink"]
        write_link(first, tmp_path / "link.parquet")
        assert pq.read_table(tmp_path / "link.parquet").num_rows > 0


@pytest.mark.full
@pytest.mark.broker
@pytest.mark.netns
@pytest.mark.slow
def test_redis_stands_behind_the_link_and_comes_back_there(tmp_path):
    with (
        RunRecord(f"l{time.time_ns():x}-{time.time_ns() % 0xFFFFFF:06x}", tmp_path) as record,
        Platforms(record, tmp_path / "w") as platforms,
    ):
        asked = {**ASKED, "platform": "redis", "durability": "synced", "link": "auto", "rtt": "80"}
        first = figures_of(platforms.measure(pipe_options(asked)))
        killed = figures_of(platforms.measure(pipe_options({**asked, "kill": "broker@2s"})))
    for figures in (first, killed):
        assert sum(figures[fate] for fate in FATES) == figures["produced"] == 800
        assert figures["acknowledged_lost"] == 0
        assert figures["link_bytes_uplink"] > figures["payload_bytes"]
    assert first["latency_p50_ms"] >= 40
    assert first["acknowledgement_p50_ms"] >= 80
