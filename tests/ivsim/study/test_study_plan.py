"""The order is drawn from the seed, blocks stay whole, and no session has more than the machine can bear."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from ivsim.study.engines.echo.placement import groups_of, placements_of, sender_config_of, side_by_side
from ivsim.study.engines.echo.plan import MOST_SENDERS, MOST_VEHICLES, sending, vehicles
from ivsim.study.model import Study, cells_of
from ivsim.study.plan import sessions
from simulator.fleet import emissions

MODES = ["mqtt qos0", "mqtt qos1", "amqp auto", "coap non"]


def study(**fields: Any) -> Study:
    base = {
        "title": "t",
        "question": "q",
        "metrics": ["latency_mean_ms"],
        "engine": "echo",
        "scenario": {"vehicles": MOST_VEHICLES // 12, "trace": "paper-lte-car"},
        "axes": {"mode": MODES, "loss": [0.0, 0.01, 0.05, 0.1, 0.25]},
    }
    return Study.model_validate(base | fields)


def test_every_task_is_in_one_session_and_blocks_stay_whole():
    planned = study(repetitions=2)
    found = sessions(planned, cells_of(planned, "here"), 2)
    names = [task.name for session in found for task in session.tasks]
    assert len(names) == len(set(names)) == 40
    for session in found:
        assert vehicles(session.cells) <= MOST_VEHICLES
        assert len({sending(task.cell) for task in session.tasks}) <= MOST_SENDERS
        for loss in {task.cell.values["loss"] for task in session.tasks}:
            assert {t.cell.values["mode"] for t in session.tasks if t.cell.values["loss"] == loss} == set(
                MODES
            )


def test_a_session_of_many_vehicles_takes_longer_than_what_is_sent():
    """Connecting them, and reading what was captured of them, takes time by their number."""
    few, many = (
        study(scenario={"vehicles": count, "duration_s": 50.0}) for count in (1, MOST_VEHICLES // 20)
    )
    times = [
        max(one.measured_by.seconds(session) for session in sessions(one, cells_of(one, "here"), 1))
        for one in (few, many)
    ]
    assert times[0] > 50.0
    assert times[1] > times[0] + 10.0


def test_the_same_seed_gives_the_same_order_and_another_another():
    many = {"axes": {"mode": MODES, "loss": [k / 100 for k in range(40)]}}
    one, same, other = study(seed=1, **many), study(seed=1, **many), study(seed=2, **many)

    def order(s: Study) -> list[float]:
        return [x.tasks[0].cell.values["loss"] for x in sessions(s, cells_of(s, "here"), 1)]

    assert order(one) == order(same)
    assert order(one) != order(other)


def test_axes_apart_never_share_a_session():
    planned = study(apart=["loss"], scenario={"vehicles": 5})
    for session in sessions(planned, cells_of(planned, "here"), 1):
        assert len({task.cell.values["loss"] for task in session.tasks}) == 1


def test_a_whole_run_runs_alone():
    planned = study(
        engine="whole_run",
        metrics=["delivery_ratio"],
        scenario={"vehicles": 5},
        axes={"mode": ["mqtt qos1", "coap non"], "early_ack": [False, True]},
    )
    found = sessions(planned, cells_of(planned, "here"), 1)
    assert [len(session.tasks) for session in found] == [1] * 4


def test_vehicle_j_of_every_cell_has_the_same_trace_but_for_what_the_cell_asks():
    planned = study(scenario={"vehicles": 6, "trace": "paper-lte-car", "shaping": "cloud_egress"})
    (session,) = sessions(planned, cells_of(planned, "here"), 1)
    placements = placements_of(session)
    assert [n for placement in placements for n in placement.vehicles] == list(range(1, 6 * 20 + 1))
    asked = side_by_side(placements).at(3)
    first = placements[0]
    for placement in placements:
        for own, other in zip(placement.vehicles, first.vehicles, strict=True):
            up, down = asked[own]
            assert (up.rate_bps, up.delay_ms, up.loss_ratio) == (None, 0.0, 0.0)
            assert (down.rate_bps, down.delay_ms) == (asked[other][1].rate_bps, asked[other][1].delay_ms)
            assert down.loss_ratio == placement.task.cell.values["loss"]


def test_a_zero_of_the_series_is_no_limit_where_one_netem_shapes():
    planned = study(scenario={"vehicles": 40, "trace": "paper-lte-car", "shaping": "cloud_egress"})
    (cell, *_) = cells_of(planned, "here")
    (session,) = sessions(planned, [cell], 1)
    rates = [
        down.rate_bps
        for second in range(60)
        for _, down in side_by_side(placements_of(session)).at(second).values()
    ]
    assert None in rates
    assert 0.0 not in rates


def test_cells_of_one_mode_and_payload_share_a_process_and_send_alike(tmp_path):
    planned = study(scenario={"vehicles": 6})
    (session,) = sessions(planned, cells_of(planned, "here"), 1)
    groups = groups_of(placements_of(session), tmp_path)
    assert [len(group.placements) for group in groups] == [5] * 4
    assert all(group.scenario.alike_every == 6 for group in groups)


def test_cells_of_more_and_of_fewer_vehicles_share_a_session_and_vehicle_j_is_the_same(tmp_path):
    """A process finds vehicle j of a cell by the remainder of its number: that of no other cell disturbs it."""
    axes = {"mode": MODES, "loss": [0.0, 0.1]}
    sweeps = {
        name: {"axes": axes, "scenario": {"vehicles": vehicles}}
        for name, vehicles in (("few", 3), ("many", 7))
    }
    planned = study(axes={}, sweeps=sweeps, scenario={"trace": "car-2024", "duration_s": 5.0})
    (session,) = sessions(planned, cells_of(planned, "here"), 1)
    placements = placements_of(session)
    numbers = [number for placement in placements for number in placement.vehicles]
    assert len(set(numbers)) == len(numbers) == 8 * (3 + 7)
    assert vehicles(session.cells) == max(numbers) <= len(numbers) + 3
    sent: dict[str, list[list[Any]]] = {}
    for group in groups_of(placements, tmp_path):
        for placement in group.placements:
            first = placement.vehicles.start
            made = emissions(group.scenario, 0, list(placement.vehicles))
            by_vehicle: dict[int, list[Any]] = {}
            for emission in made:
                by_vehicle.setdefault(emission[1] - first, []).append((emission[0], *emission[2:4]))
            of_cell = [by_vehicle[j] for j in range(3)]
            sent.setdefault(placement.task.cell.values["mode"], []).append(of_cell)
    for of_mode in sent.values():
        assert len(of_mode) == 4
        assert all(one == of_mode[0] for one in of_mode)


def test_what_the_scenario_says_of_connections_reaches_the_vehicles(tmp_path):
    """Cells of one session that differ in it have processes of their own, and each is told its own."""
    sweeps = {
        name: {"axes": {"mode": ["mqtt qos1"]}, "scenario": {"keepalive_s": keepalive_s, "outbox_limit": 7}}
        for name, keepalive_s in (("short", 5), ("long", 90))
    }
    planned = study(scenario={"vehicles": 6}, axes={}, sweeps=sweeps)
    (session,) = sessions(planned, cells_of(planned, "here"), 1)
    groups = groups_of(placements_of(session), tmp_path)
    assert len({group.events for group in groups}) == len(groups) == 2
    told = [sender_config_of(group, port=1883, client_prefix="x-") for group in groups]
    assert {config.keepalive_s for config in told} == {5, 90}
    assert {config.outbox_limit for config in told} == {7}
    assert [config.vehicles for config in told] == [group.numbers for group in groups]


def test_the_size_of_coaps_blocks_is_an_axis_that_reaches_the_vehicles(tmp_path):
    axes = {"mode": ["coap con"], "coap_block_bytes": [64, "none"]}
    planned = study(scenario={"vehicles": 6}, axes=axes)
    cells = cells_of(planned, "here")
    (session,) = sessions(planned, cells, 1)
    groups = groups_of(placements_of(session), tmp_path)
    told = [sender_config_of(group, port=5683, client_prefix="") for group in groups]
    assert {config.coap_block_bytes for config in told} == {64, None}
    assert {config.settings(1).coap_block_bytes for config in told} == {64, None}


def test_a_study_plans_the_same_again_and_every_repetition_something_else():
    """Content, offsets of sending and starts in the trace: the same seed draws them alike, byte for byte."""

    def planned(seed: int) -> dict[tuple[int, str], tuple[int, dict[int, int], list[Any]]]:
        made = study(
            repetitions=3, seed=seed, scenario={"vehicles": 3, "duration_s": 5.0, "trace": "car-2024"}
        )
        found = {}
        for session in sessions(made, cells_of(made, "here"), 3):
            groups = groups_of(placements_of(session), Path("work"))
            for group in groups:
                for one in group.placements[:1]:
                    sent = list(emissions(group.scenario, 0, list(one.vehicles)))
                    key = (one.task.repetition, one.task.cell.name)
                    found[key] = (one.task.seed, one.schedule.offsets_s(), [e[4] for e in sent])
        return found

    first, again, other = planned(1), planned(1), planned(2)
    assert first == again
    by_repetition = {r: {found[0] for (n, _), found in first.items() if n == r} for r in (1, 2, 3)}
    assert [len(seeds) for seeds in by_repetition.values()] == [1, 1, 1]
    for key, (seed, offsets, payloads) in first.items():
        for repetition in {1, 2, 3} - {key[0]}:
            there = first[repetition, key[1]]
            assert seed != there[0]
            assert offsets != there[1]
            assert payloads != there[2]
        assert seed != other[key][0]


def test_what_stands_on_one_platform_is_measured_together():
    planned = Study.model_validate(
        {
            "title": "t",
            "question": "q",
            "engine": "pipe",
            "metrics": ["records_per_s"],
            "scenario": {"replication": 1},
            "axes": {"brokers": [1, 3], "codec": ["none", "gzip", "lz4", "zstd"], "partitions": [1, 3]},
        }
    )
    found = sessions(planned, cells_of(planned, "here"), 2)
    brokers = [session.cells[0].options.brokers for session in found]
    changes = sum(a != b for a, b in itertools.pairwise(brokers))
    assert len(found) == 32
    assert changes <= 3  # once within each repetition, and perhaps between them
    assert [session.cells[0].options.codec for session in found[:8]] != ["none", "none", "gzip", "gzip"] * 2


def test_cells_that_are_compared_follow_one_another_in_an_order_of_their_own():
    axes = {
        "profile": ["document", "document-single"],
        "record": ["s1", "s2", "s3"],
        "format": ["json", "avro", "protobuf"],
    }
    of = {"engine": "pipe", "scenario": {}, "metrics": ["client_cpu_us"], "axes": axes, "adjacent": "format"}
    planned = study(**of)
    found = [session.tasks[0].cell.values for session in sessions(planned, cells_of(planned, "here"), 2)]
    groups = [found[at : at + 3] for at in range(0, len(found), 3)]
    assert len(groups) == 2 * 6
    for group in groups:
        assert len({(one["profile"], one["record"]) for one in group}) == 1
        assert {one["format"] for one in group} == {"json", "avro", "protobuf"}
    assert len({tuple(one["format"] for one in group) for group in groups}) > 1
    assert len({(group[0]["profile"], group[0]["record"]) for group in groups[:6]}) == 6
    with pytest.raises(ValidationError, match="adjacent"):
        study(adjacent="nothing")
