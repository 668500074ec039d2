"""What the processes of a run are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ivsim.option_rules import run_options
from ivsim.runs.manifest import gateway_linger_ms
from ivsim.runs.processes import attributed_ends, linger_ms_of
from ivsim.runs.result import ledger_config
from schemas.topics import gateway_number


def test_bytes_of_3000_messages_a_second_are_attributed_and_of_more_those_of_a_sample() -> None:
    assert attributed_ends(run_options(vehicles=3_000, interval_s=1)) is None
    found = attributed_ends(run_options(vehicles=5_000, interval_s=1))
    assert found is not None
    assert len(set(found)) == 3_000
    assert found == sorted(found)
    assert set(found) <= set(range(1, 5_001))


def test_the_seed_draws_the_sample() -> None:
    one, again, other = (
        attributed_ends(run_options(vehicles=6_001, interval_s=1, seed=seed)) for seed in (1, 1, 2)
    )
    assert one == again != other


def test_each_part_of_a_mix_has_its_share_of_the_sample() -> None:
    options = run_options(vehicles=10_000, interval_s=1, mix="mqtt qos1=90,coap con=10")
    found = attributed_ends(options)
    assert found is not None
    assert [len(set(part.vehicles) & set(found)) for part in options.parts] == [2_700, 300]


@pytest.mark.parametrize(("gateways", "count"), [(1, 1), (10, 5)])
def test_at_the_edge_gateways_are_drawn(gateways: int, count: int) -> None:
    found = attributed_ends(run_options(topology="edge", gateways=gateways, vehicles=6_000, interval_s=1))
    assert found is not None
    assert len(found) == count
    assert set(found) <= {gateway_number(index) for index in range(gateways)}


@pytest.mark.parametrize(
    ("asked", "linger_ms"),
    [
        ({"vehicles": 100}, 2),
        ({"vehicles": 101}, 100),
        ({"vehicles": 101, "protocol": "amqp", "mode": "manual"}, 100),
        ({"vehicles": 200, "gateways": 2}, 2),
        ({"vehicles": 202, "gateways": 2}, 100),
        ({"vehicles": 101, "protocol": "coap", "mode": "con"}, 2),  # a vehicle waits for the gateway's answer
        ({"vehicles": 101, "batching": "fixed", "batch_messages": 10, "batch_ms": 50}, 2),
        ({"vehicles": 101, "topology": "edge"}, 2),
    ],
)
def test_a_record_waits_for_others_where_many_come_and_no_vehicle_waits(
    asked: dict[str, Any], linger_ms: int
) -> None:
    options = run_options(interval_s=1, **asked)
    (part,) = options.parts
    assert linger_ms_of(options, part) == linger_ms


def test_each_protocol_of_a_mix_has_the_load_of_its_own_vehicles() -> None:
    options = run_options(vehicles=130, interval_s=1, mix="mqtt qos1=80,amqp manual=10,coap con=10")
    assert [linger_ms_of(options, part) for part in options.parts] == [100, 2, 2]


def test_a_manifest_says_only_what_holds_of_the_wait() -> None:
    load = {"vehicles": 101, "interval_s": 1}
    assert gateway_linger_ms(run_options(**load)) == {"mqtt qos1": 100}
    assert gateway_linger_ms(run_options(**load, kafka_producer=["linger.ms=7"])) == {}
    assert gateway_linger_ms(run_options(**load, topology="echo")) == {}


def test_a_ledger_is_told_of_the_format_of_a_plug_in(tmp_path: Path) -> None:
    options = run_options(topology="edge", loss_timeout_s=7)
    config = ledger_config(tmp_path, options.model_copy(update={"format": "cborjson"}))
    assert (config.more_formats, config.topology, config.loss_timeout_s) == (("cborjson",), "edge", 7)
    assert ledger_config(tmp_path, options).more_formats == ()
