"""The order is drawn from the seed, blocks stay whole, and no session has more than the machine can bear."""

from __future__ import annotations

from typing import Any

from ivsim.study.model import Study, cells_of
from ivsim.study.places import conditions, groups_of, places_of
from ivsim.study.plan import MOST_PACERS, MOST_VEHICLES, sending, sessions

MODES = ["mqtt qos0", "mqtt qos1", "amqp auto", "coap non"]


def study(**fields: Any) -> Study:
    base = {
        "title": "t",
        "question": "q",
        "metrics": ["latency_mean_ms"],
        "scenario": {"topology": "echo", "vehicles": 100, "trace": "paper-lte-car"},
        "axes": {"mode": MODES, "loss": [0.0, 0.01, 0.05, 0.1, 0.25]},
    }
    return Study.model_validate(base | fields)


def test_every_task_is_in_one_session_and_blocks_stay_whole():
    planned = study(repetitions=2)
    found = sessions(planned, cells_of(planned, "here"), 2)
    names = [task.name for session in found for task in session.tasks]
    assert len(names) == len(set(names)) == 40
    for session in found:
        assert session.vehicles <= MOST_VEHICLES
        assert len({sending(task.cell) for task in session.tasks}) <= MOST_PACERS
        for loss in {task.cell.values["loss"] for task in session.tasks}:
            assert {t.cell.values["mode"] for t in session.tasks if t.cell.values["loss"] == loss} == set(
                MODES
            )


def test_the_same_seed_gives_the_same_order_and_another_another():
    many = {"axes": {"mode": MODES, "loss": [k / 100 for k in range(40)]}}
    one, same, other = study(seed=1, **many), study(seed=1, **many), study(seed=2, **many)

    def order(s: Study) -> list[float]:
        return [x.tasks[0].cell.values["loss"] for x in sessions(s, cells_of(s, "here"), 1)]

    assert order(one) == order(same)
    assert order(one) != order(other)


def test_axes_apart_never_share_a_session():
    planned = study(apart=["loss"], scenario={"topology": "echo", "vehicles": 5})
    for session in sessions(planned, cells_of(planned, "here"), 1):
        assert len({task.cell.values["loss"] for task in session.tasks}) == 1


def test_a_gateway_cell_runs_alone():
    planned = study(scenario={"vehicles": 5}, axes={"mode": MODES, "early_ack": [False, True]})
    found = sessions(planned, cells_of(planned, "here"), 1)
    assert [len(session.tasks) for session in found] == [1] * 8


def test_vehicle_j_of_every_cell_has_the_same_road_but_for_what_the_cell_asks():
    planned = study(
        scenario={"topology": "echo", "vehicles": 6, "trace": "paper-lte-car", "shaping": "cloud_egress"}
    )
    (session,) = sessions(planned, cells_of(planned, "here"), 1)
    places = places_of(session)
    assert [n for place in places for n in place.vehicles] == list(range(1, 6 * 20 + 1))
    asked = conditions(places, 3)
    first = places[0]
    for place in places:
        for own, other in zip(place.vehicles, first.vehicles, strict=True):
            up, down = asked[own]
            assert (up.rate_bps, up.delay_ms, up.loss_ratio) == (None, 0.0, 0.0)
            assert (down.rate_bps, down.delay_ms) == (asked[other][1].rate_bps, asked[other][1].delay_ms)
            assert down.loss_ratio == place.task.cell.values["loss"]


def test_a_zero_of_the_series_is_no_limit_where_one_netem_shapes():
    planned = study(
        scenario={"topology": "echo", "vehicles": 40, "trace": "paper-lte-car", "shaping": "cloud_egress"}
    )
    (cell, *_) = cells_of(planned, "here")
    (session,) = sessions(planned, [cell], 1)
    rates = [
        down.rate_bps for second in range(60) for _, down in conditions(places_of(session), second).values()
    ]
    assert None in rates
    assert 0.0 not in rates


def test_cells_of_one_mode_and_payload_share_a_process_and_send_alike(tmp_path):
    planned = study(scenario={"topology": "echo", "vehicles": 6})
    (session,) = sessions(planned, cells_of(planned, "here"), 1)
    groups = groups_of(places_of(session), tmp_path)
    assert [len(group.places) for group in groups] == [5] * 4
    assert all(group.scenario.alike_every == 6 for group in groups)
