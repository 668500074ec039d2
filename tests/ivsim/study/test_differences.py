"""A report has a table of what its headline's cells differ in: with interval, n and verdict."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from ivsim.study.differences import differences, section
from ivsim.study.model import cells_of
from ivsim.study.report import results, sections
from ivsim.study.results import CellResult

Make = Callable[..., tuple[Any, list[Any]]]
STEPS = {
    "kind": "steps",
    "axis": "mode",
    "steps": [["mqtt qos0", "coap non"]],
    "metrics": ["latency_mean_ms"],
}
CHOOSE = {"kind": "choose", "axis": "mode", "metrics": ["latency_mean_ms", "unsuccessful_ratio"]}


def by_mode(cell: Any) -> float:
    return 100.0 if cell.options.protocol == "mqtt" else 130.0


def flat(_: Any) -> float:
    return 100.0


def test_each_step_has_its_difference_interval_n_and_verdict(made_store: Make) -> None:
    store, _ = made_store("a", by_mode, headline=STEPS)
    found = differences(store.study, results(store))
    assert [(one.pair.step, one.pair.beside) for one in found] == [
        ("MQTT QoS 0 to CoAP NON", "loss 0.0"), ("MQTT QoS 0 to CoAP NON", "loss 0.25"),
    ]  # fmt: skip
    for one in found:
        assert one.row.verdict == "yes"
        assert one.row.comparison is not None
        assert one.row.comparison.low < 30 < one.row.comparison.high
    table = section(store.study, found)
    assert table.startswith(
        "## Differences\n\n| from, to | beside | metric | difference | by | n | more than noise |"
    )
    assert table.count("| message | 15 vehicles | yes |") == 2
    parts = sections(store, results(store))
    assert parts[2] == table
    # The headline has the figures of the table.
    for figure in re.findall(r"\| \+(\S+ \[\S+, \S+\]) ms \|", table):
        assert figure in parts[0]


def test_all_pairs_of_what_is_to_be_chosen_are_in_the_table(made_store: Make) -> None:
    modes = {"mode": ["mqtt qos0", "mqtt qos1", "coap non"], "loss": [0.0, 0.25]}
    store, _ = made_store("a", by_mode, headline=CHOOSE, axes=modes)
    found = differences(store.study, results(store))
    assert len(found) == 3 * 2 * 2, "pairs of modes, losses, metrics"
    assert {one.row.verdict for one in found if "QoS 1" in one.pair.step and "CoAP" not in one.pair.step} == {
        "no"
    }


def test_without_a_headline_of_its_own_the_ends_are_compared(made_store: Make) -> None:
    store, _ = made_store("a", by_mode)
    (one,) = differences(store.study, results(store))
    assert one.row.metric == "latency_mean_ms"
    assert one.pair.step.startswith("MQTT QoS 0, loss ")
    assert " to CoAP NON, loss " in one.pair.step
    assert one.row.verdict == "yes"


def test_what_does_not_differ_is_no_difference(made_store: Make) -> None:
    store, _ = made_store("a", flat, headline=STEPS)
    assert {one.row.verdict for one in differences(store.study, results(store))} == {"no"}


def test_two_repetitions_give_no_verdict(made_store: Make) -> None:
    modes = {"mode": ["mqtt qos0", "mqtt qos1", "coap non"], "loss": [0.0, 0.25]}
    store, _ = made_store("a", by_mode, headline=CHOOSE, axes=modes, repetitions=2)
    found = differences(store.study, results(store))
    assert {one.row.verdict for one in found} == {"too few repetitions"}


@pytest.mark.parametrize("headline", [STEPS, CHOOSE, {}])
def test_of_one_cell_there_is_none(made_store: Make, headline: dict[str, Any]) -> None:
    store, _ = made_store("a", by_mode, headline=headline, axes={"mode": ["mqtt qos0"]})
    found = differences(store.study, results(store))
    assert (found, section(store.study, found)) == ([], "")


def test_a_metric_is_compared_where_a_table_shows_it_and_the_cells_have_it(made_store: Make) -> None:
    modes = {"mode": ["mqtt qos0", "coap non"]}
    sweeps = {"near": {"axes": modes}, "far": {"axes": modes, "metrics": ["unsuccessful_ratio"]}}
    for chosen in (STEPS, CHOOSE | {"metrics": ["latency_mean_ms"]}, {}):
        store, _ = made_store(f"a{len(chosen)}", by_mode, headline=chosen, axes={}, sweeps=sweeps)
        found = differences(store.study, results(store))
        assert [(one.pair.beside or one.pair.below.cell.sweep) for one in found] == ["near"]


def test_what_a_kind_of_cell_cannot_have_is_not_compared(made_study: Any) -> None:
    changed = {
        "engine": "whole_run",
        "metrics": ["overhead_bytes_per_message", "full_handshake_bytes_mean"],
        "axes": {"mode": ["mqtt qos1"], "security": ["plain", "tls", "mtls"]},
        "headline": {
            "kind": "steps",
            "axis": "security",
            "steps": [["plain", "tls"], ["tls", "mtls"]],
            "metrics": ["overhead_bytes_per_message", "full_handshake_bytes_mean"],
        },
    }
    study = type(made_study).model_validate(made_study.model_dump() | changed)
    nothing_yet = [CellResult(cell) for cell in cells_of(study, "made up")]
    assert [(one.pair.step, one.row.metric) for one in differences(study, nothing_yet)] == [
        ("plain to tls", "overhead_bytes_per_message"),
        ("tls to mtls", "overhead_bytes_per_message"),
        ("tls to mtls", "full_handshake_bytes_mean"),
    ]
