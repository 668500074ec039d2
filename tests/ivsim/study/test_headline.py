"""The first paragraph of a report: differences that are more than noise, what to choose by them, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from ivsim.study.differences import differences
from ivsim.study.engines.base import engine_named
from ivsim.study.headline import Extremes, headline, opening
from ivsim.study.headline_words import Claim, joined, place_of
from ivsim.study.pairs import Row, plural, units_of
from ivsim.study.report import results
from ivsim.study.statistics import Comparison, Interval, holm
from ivsim.study.summary import scale_of

Make = Callable[..., tuple[Any, list[Any]]]
MODES = ["mqtt qos0", "mqtt qos1", "amqp auto", "coap non"]
AXES = {"mode": MODES, "loss": [0.0, 0.25]}
CHOOSE = {"kind": "choose", "axis": "mode", "metrics": ["latency_mean_ms"]}
STEPS = {
    "kind": "steps",
    "axis": "mode",
    "steps": [["mqtt qos0", "mqtt qos1"], ["mqtt qos1", "amqp auto"]],
    "metrics": ["latency_mean_ms"],
}
# Figures with their interval: 30.2 [27.5, 32.9]
D = r"\d+\.?\d* \[\d+\.?\d*, \d+\.?\d*\]"


def latencies(*by_mode: float, lossy: tuple[float, ...] = ()) -> Callable[[Any], float]:
    """Return the mean latency of each of MODES; `lossy` where a quarter is lost."""

    def mean(cell: Any) -> float:
        figures = lossy if lossy and cell.values.get("loss") == 0.25 else by_mode
        return figures[MODES.index(cell.values["mode"])]

    return mean


def first_words(store: Any) -> str:
    found = results(store)
    study = store.study
    return headline(study.headline_kind, study.measured_by, found, differences(study, found))


def said(made_store: Make, mean: Callable[[Any], float], **fields: Any) -> str:
    return first_words(made_store("a", mean, **({"axes": AXES} | fields))[0])


def test_one_choice_under_all_conditions_is_said_once(made_store: Make) -> None:
    text = said(made_store, latencies(100, 140, 130, 160), headline=CHOOSE)
    assert re.fullmatch(
        rf"For least latency_mean_ms choose MQTT QoS 0 on both losses: {D} to {D} ms below the next \(AMQP auto\),"
        r" n = 15 vehicles\.( Of 12 differences compared, \d (is|are) no more than noise\.)?",
        text,
    )


def test_values_that_are_too_close_are_named_together(made_store: Make) -> None:
    text = said(made_store, latencies(100, 100.2, 130, 160), headline=CHOOSE)
    assert "choose MQTT QoS 0 or MQTT QoS 1 (too close to call) on both losses: MQTT QoS " in text
    assert "ms below the next (AMQP auto), n = 15 vehicles. Of 12 differences compared, 2 are no more" in text


def test_another_choice_under_another_condition_stands_behind_it(made_store: Make) -> None:
    mean = latencies(100, 140, 130, 160, lossy=(100, 140, 130, 50))
    text = said(made_store, mean, headline=CHOOSE)
    assert re.search(
        rf"choose MQTT QoS 0 on loss 0\.0: {D} ms below the next \(AMQP auto\); CoAP NON on", text
    )
    assert re.search(rf"CoAP NON on loss 0\.25: {D} ms below the next \(MQTT QoS 0\), n = 15 vehicles", text)


def test_a_condition_that_decides_nothing_says_so(made_store: Make) -> None:
    text = said(made_store, latencies(100, 140, 130, 160, lossy=(90, 90, 90, 90)), headline=CHOOSE)
    assert "n = 15 vehicles; on loss 0.25 no difference is more than noise. Of 12" in text
    both = CHOOSE | {"metrics": ["latency_mean_ms", "unsuccessful_ratio"]}
    store, _ = made_store("b", latencies(100, 140, 130, 160), headline=both, axes=AXES)
    assert "unsuccessful_ratio decides nothing: on both losses no difference is more than noise. Of 24" in (
        first_words(store)
    )


def test_of_some_metrics_more_is_better(made_store: Make) -> None:
    text = said(made_store, latencies(100, 140, 130, 160), headline=CHOOSE | {"higher": ["latency_mean_ms"]})
    assert re.match(
        rf"For most latency_mean_ms choose CoAP NON on both losses: {D} to {D} ms above the", text
    )
    assert "the next (MQTT QoS 1)" in text


def test_a_value_without_a_verdict_is_not_passed_over(made_store: Make) -> None:
    store, cells = made_store("a", latencies(100, 140, 130, 160), headline=CHOOSE, axes={"mode": MODES})
    for one in store.all_kept(cells)[:3]:
        store.fail(one.task, "the link broke")
    text = first_words(store)
    assert re.match(
        rf"For least latency_mean_ms choose AMQP auto: {D} ms below the next \(MQTT QoS 1\), without a verdict on"
        r" MQTT QoS 0, n",
        text,
    )
    assert text.endswith(" Of 6 differences compared, 3 are without a verdict (not measured).")


def test_choices_too_many_for_a_sentence_have_their_figures_in_a_table(made_store: Make) -> None:
    best = {0.0: "mqtt qos0", 0.1: "mqtt qos1", 0.2: "amqp auto", 0.3: "coap non"}

    def mean(cell: Any) -> float:
        loss = cell.values["loss"]
        return 100.0 if loss not in best or best[loss] == cell.values["mode"] else 150.0

    axes = {"mode": MODES, "loss": [*best, 0.4]}
    store, _ = made_store("a", mean, headline=CHOOSE, axes=axes)
    study, found = store.study, results(store)
    sentence, rows, note = opening(
        study.headline_kind, study.measured_by, found, differences(study, found)
    ).split("\n\n")
    assert sentence == (
        "**For least latency_mean_ms choose MQTT QoS 0 on loss 0.0; MQTT QoS 1 on loss 0.1; AMQP auto on loss 0.2; CoAP NON"
        " on loss 0.3; on loss 0.4 no difference is more than noise. Of 30 differences compared, 18 are no more than noise.**"
    )
    lines = [[one.strip() for one in line.strip("|").split("|")] for line in rows.splitlines()]
    assert [line[1:3] for line in lines[2:]] == [
        ["loss 0.0", "MQTT QoS 0"],
        ["loss 0.1", "MQTT QoS 1"],
        ["loss 0.2", "AMQP auto"],
        ["loss 0.3", "CoAP NON"],
        ["loss 0.4", "no difference is more than noise"],
    ]
    for _, _, _, behind, share, n in lines[2:6]:
        assert re.fullmatch(rf"(MQTT QoS \d|AMQP auto|CoAP NON): {D} ms", behind)
        assert re.fullmatch(rf"{D} %", share)
        # 50 ms of 150 ms.
        assert float(behind.partition(": ")[2].split()[0]) == pytest.approx(50, abs=4)
        assert float(share.split()[0]) == pytest.approx(33.3, abs=3)
        assert n == "15 vehicles"
    assert lines[6][3:] == ["\N{EN DASH}"] * 3
    assert note == "The difference and its 95 % interval, and both in per cent of the next's figure."


def test_a_headline_with_room_for_its_figures_has_no_table(made_store: Make) -> None:
    store, _ = made_store("a", latencies(100, 140, 130, 160), headline=CHOOSE, axes=AXES)
    study, found = store.study, results(store)
    apart = differences(study, found)
    words = headline(study.headline_kind, study.measured_by, found, apart)
    assert opening(study.headline_kind, study.measured_by, found, apart) == f"**{words}**"


def test_steps_say_the_smallest_and_the_largest_difference(made_store: Make) -> None:
    mean = latencies(100, 140, 140, 160, lossy=(100, 120, 160, 160))
    text = said(made_store, mean, headline=STEPS)
    first, second = re.fullmatch(
        rf"MQTT QoS 0 to MQTT QoS 1: latency_mean_ms ({D}) to ({D}) ms more on both losses; MQTT QoS 1 to AMQP auto:"
        rf" latency_mean_ms {D} ms more on loss 0\.25 \(1 of 2; 1 is no more than noise\), n = 15 vehicles\."
        r" Of 4 differences compared, 1 is no more than noise\.",
        text,
    ).groups()  # type: ignore[union-attr]
    assert float(first.split()[0]) == pytest.approx(20, abs=4)
    assert float(second.split()[0]) == pytest.approx(40, abs=4)


def test_many_steps_have_their_intervals_in_a_table(made_store: Make) -> None:
    modes = ["mqtt qos0", "mqtt qos1", "mqtt qos2", "amqp auto", "amqp manual", "coap non"]
    steps = [[low, high] for low, high in pairwise(modes)]

    def mean(cell: Any) -> float:
        return 100.0 + 20 * modes.index(cell.values["mode"])

    axes = {"mode": modes, "loss": [0.0, 0.25]}
    store, _ = made_store("a", mean, headline=STEPS | {"steps": steps}, axes=axes)
    study, found = store.study, results(store)
    apart = differences(study, found)
    text = opening(study.headline_kind, study.measured_by, found, apart)
    words, rows, note = text.split("\n\n")
    F = r"\d+\.\d to \d+\.\d"  # noqa: N806 - two figures
    assert re.match(
        rf"\*\*MQTT QoS 0 to MQTT QoS 1: latency_mean_ms {F} ms more; MQTT QoS 1 to MQTT QoS 2: l", words
    )
    assert "[" not in words
    assert rows.splitlines()[0] == "| step | metric | difference | n |"
    assert len(rows.splitlines()) == 2 + 5
    assert re.search(
        rf"\| MQTT QoS 0 to MQTT QoS 1 \| latency_mean_ms \| {D} to {D} ms more on both losses \| 15 vehicles \|",
        rows,
    )
    assert "95 % interval" in note


def test_a_step_that_costs_little_is_told_and_no_choice_is_made_by_it(made_store: Make) -> None:
    mean = latencies(1_000, 1_030, 1_030, 1_030)
    few = {"axes": {"mode": MODES[:3]}}
    steps = said(made_store, mean, headline=STEPS, **few)
    assert re.match(
        rf"MQTT QoS 0 to MQTT QoS 1: latency_mean_ms {D} ms more, n = 15 vehicles\. Of 2 diff", steps
    )
    assert steps.endswith("Of 2 differences compared, 1 is no more than noise.")
    store, _ = made_store("b", mean, headline=CHOOSE, **few)
    assert first_words(store).startswith("Of 3 differences compared, ")
    assert "2 are too small to matter" in first_words(store)
    store, _ = made_store(
        "d",
        latencies(1_000, 1_200, 1_300, 1_400, lossy=(1_000, 1_030, 1_030, 1_030)),
        headline=CHOOSE,
        axes=AXES,
    )
    assert "n = 15 vehicles; on loss 0.25 differences are too small to matter. Of 12" in first_words(store)
    store, _ = made_store(
        "c", mean, headline={"kind": "extremes", "metric": "latency_mean_ms"}, axes={"mode": MODES[:2]}
    )
    assert first_words(store) == "The difference that it compares is too small to matter."


def test_steps_that_go_both_ways_say_where(made_store: Make) -> None:
    text = said(made_store, latencies(100, 140, 140, 160, lossy=(140, 100, 100, 160)), headline=STEPS)
    assert re.match(
        rf"MQTT QoS 0 to MQTT QoS 1: latency_mean_ms {D} ms more on loss 0\.0 and {D} ms less on loss 0\.25, n",
        text,
    )
    assert "AMQP" not in text, "what is no more than noise is counted, not said"


def test_steps_stand_for_each_value_of_an_axis_between_opening_and_closing(made_store: Make) -> None:
    chosen = STEPS | {"each": "loss", "opening": "Per message:", "steps": [["mqtt qos0", "mqtt qos1"]]}
    chosen |= {"closing": "{lost} were lost.", "closing_where": {"loss": 0.0}}
    text = said(made_store, latencies(100, 140, 130, 160), headline=chosen)
    assert re.fullmatch(
        rf"Per message: loss 0\.0, MQTT QoS 0 to MQTT QoS 1: latency_mean_ms {D} ms more; loss 0\.25, MQTT QoS 0 to"
        rf" MQTT QoS 1: latency_mean_ms {D} ms more, n = 15 vehicles\. 0 were lost\.",
        text,
    )


def test_extremes_say_their_difference(made_store: Make) -> None:
    text = said(made_store, latencies(100, 140, 130, 160), axes={"mode": MODES, "loss": [0.25]})
    assert re.fullmatch(
        rf"latency_mean_ms is {D} ms less for MQTT QoS 0, loss 0\.25 \({D} ms\) than for CoAP NON, loss 0\.25 \({D} ms\),"
        r" n = 15 vehicles\.",
        text,
    )


def test_ends_that_are_chosen_by_their_figures_are_tested_as_all_pairs(
    made_store: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert holm([0.02, 0.04]) == [True, True]
    assert holm([0.02, 0.001], 10) == [False, True]
    store, _ = made_store("a", latencies(100, 140, 130, 160), axes=AXES)
    assert store.study.headline_kind.tests(results(store)) == 8 * 7 / 2
    assert " ms less for MQTT QoS 0, loss " in first_words(store)
    monkeypatch.setattr(Extremes, "tests", lambda *_: 10**60)
    assert first_words(store) == "The difference that it compares is no more than noise."


@pytest.mark.parametrize("chosen", [CHOOSE, STEPS])
def test_what_no_difference_supports_is_not_said(made_store: Make, chosen: dict[str, Any]) -> None:
    compared = 12 if chosen is CHOOSE else 4
    assert said(made_store, latencies(100, 100, 100, 100), headline=chosen) == (
        f"None of the {compared} differences that it compares is more than noise."
    )


def test_ends_that_differ_by_noise_are_not_named(made_store: Make) -> None:
    assert said(made_store, latencies(100, 100, 100, 100)) == (
        "The difference that it compares is no more than noise."
    )


@pytest.mark.parametrize("chosen", [CHOOSE, STEPS, {}])
def test_too_few_repetitions_give_no_verdict(made_store: Make, chosen: dict[str, Any]) -> None:
    assert said(made_store, latencies(100, 140, 130, 160), headline=chosen, repetitions=2) == (
        "No verdict on any difference: too few repetitions."
    )


@pytest.mark.parametrize("chosen", [CHOOSE, STEPS, {}])
def test_one_cell_is_compared_with_none(made_store: Make, chosen: dict[str, Any]) -> None:
    one = {"mode": ["mqtt qos0"]}
    assert said(made_store, latencies(100, 0, 0, 0), headline=chosen, axes=one) == "It compares no two cells."


def conditions(*chosen: str) -> list[tuple[tuple[str, str], ...]]:
    """Return conditions of two modes and three losses, by the beginnings of mode and loss; all without."""
    every = [(mode, loss) for mode in ("mqtt qos0", "coap non") for loss in ("0.0", "0.1", "0.25")]
    return [
        (("sweep", ""), ("mode", mode), ("loss", loss))
        for mode, loss in every
        if not chosen or f"{mode[0]}{loss}" in chosen
    ]


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ((), " in all 6 combinations of mode and loss"),
        (("m0.0", "m0.1", "m0.25"), " on MQTT QoS 0"),
        (("m0.1", "c0.1", "m0.25", "c0.25"), " on loss 0.1 and loss 0.25"),
        (("m0.0", "c0.25"), " on MQTT QoS 0 with loss 0.0 and CoAP NON with loss 0.25"),
        (("m0.0", "m0.1", "m0.25", "c0.0", "c0.1"), " in 5 of 6 combinations of mode and loss"),
    ],
)
def test_conditions_are_named_as_shortly_as_they_can(chosen: tuple[str, ...], said: str) -> None:
    assert place_of(engine_named("echo"), conditions(*chosen), conditions()) == said


def test_conditions_of_two_axes_are_named_by_the_one_that_decides(made_store: Make) -> None:
    def mean(cell: Any) -> float:
        fast = ("coap non" if cell.values["loss"] else "mqtt qos0") == cell.values["mode"]
        return 100.0 if fast else 150.0

    axes = {"mode": ["mqtt qos0", "coap non"], "loss": [0.0, 0.25], "format": ["json", "avro"]}
    text = said(made_store, mean, headline=CHOOSE, axes=axes)
    assert re.search(r"choose MQTT QoS 0 on loss 0\.0: .*; CoAP NON on loss 0\.25: ", text)


@pytest.mark.parametrize(
    ("side", "by", "n"),
    [
        ({"unit": "vehicle", "units": 15, "repetitions": 3}, "message", "15 vehicles"),
        ({"unit": "vehicle", "units": 15, "repetitions": 3}, "repetition", "3 repetitions"),
        ({"unit": "repetition", "units": 12, "repetitions": 3}, "repetition", "3 repetitions"),
        ({"unit": "batch of messages in a row", "units": 60}, "apart", "60 batches of messages in a row"),
        ({}, "apart", "900 measurements"),
    ],
)
def test_n_is_of_the_unit_that_was_compared(side: dict[str, Any], by: str, n: str) -> None:
    one = Interval(1.0, 0.9, 1.1, 900, **side)
    row = Row("a", "lost", one, one, Comparison(1.0, 0.9, 1.1, 0.01, side.get("repetitions", 0)), "yes", by)
    assert units_of([row]) == n


def test_n_of_several_is_from_the_fewest_to_the_most() -> None:
    few, many = (Interval(1.0, 0.9, 1.1, 900, "vehicle", units) for units in (14, 15))
    rows = [Row("a", "lost", one, many, None, "not measured") for one in (many, few)]
    assert units_of(rows) == "14 to 15 vehicles"


def test_claims_have_their_n_together_apart_or_not_at_all() -> None:
    def claim(text: str, units: int) -> Claim:
        side = Interval(1.0, 0.9, 1.1, 900, "vehicle", units)
        return Claim(text, [Row("a", "lost", side, side, None, "not measured")])

    alike, apart = ([("x: ", [claim("one", 15), claim("two", units)])] for units in (15, 30))
    assert joined(alike) == "x: one, two, n = 15 vehicles"
    assert joined(apart) == "x: one (n = 15 vehicles), two (n = 30 vehicles)"
    assert joined(alike, with_n=False) == joined(apart, with_n=False) == "x: one, two"


@pytest.mark.parametrize(
    ("largest", "unit", "shown"),
    [
        (-2.5e9, "B", (1e-9, "GB")),
        (2.5e6, "B", (1e-6, "MB")),
        (12_186, "B", (1, "B")),
        (0.1, "ratio", (100, "percentage points")),
        (2e9, "1", (1, "")),
        (2e9, "us", (1, "us")),
    ],
)
def test_a_difference_has_a_unit_that_suits_it(largest: float, unit: str, shown: tuple[float, str]) -> None:
    factor, name = scale_of(largest, unit)
    assert (factor, name) == (pytest.approx(shown[0]), shown[1])


@pytest.mark.parametrize(
    ("noun", "many"),
    [
        ("trace", "traces"),
        ("loss", "losses"),
        ("batch of messages", "batches of messages"),
        ("platform_durability", "platform_durabilities"),
        ("delay", "delays"),
        ("bytes", "bytes"),
    ],
)
def test_several_have_a_plural(noun: str, many: str) -> None:
    assert plural(noun) == many
