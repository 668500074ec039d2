"""What `study plan` says of power holds in made-up worlds whose truth is known."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from bench.worlds import Design, differences_found, latencies, true_mean
from ivsim.commands import study as study_command
from ivsim.study import power
from ivsim.study.clusters import Clusters, difference_of_means, repetition_clusters
from ivsim.study.compare import RELEVANT
from ivsim.study.report import results
from ivsim.study.statistics import Comparison

SKEW = 0.6
TRIALS = 2_000
# What so many trials leave open (three sigma).
SLACK = 3 * math.sqrt(0.05 * 0.95 / TRIALS)


def generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def test_blocks_are_those_of_the_textbook() -> None:
    """A paired t test of half a standard deviation takes 34 pairs for 80 % (Cohen 1988), and one of a whole one 10."""
    pilot = repetition_clusters(np.tile([-1.0, 1.0], 500)).mean_comparison()
    assert pilot is not None
    assert pilot.freedom == 999
    assert power.blocks_for(pilot, 0.5) == 34
    assert power.blocks_for(pilot, 1.0) == 10
    assert power.smallest(pilot, 34) == pytest.approx(0.4943, rel=0.01)
    assert power.blocks_for(pilot, 0.001) is None


def made_up(design: Design, rng: np.random.Generator) -> Clusters:
    """Return a cell of the world, measured once."""
    values = np.array([one[0] for one in latencies(design, 1, rng, skew=SKEW, apart=0.0)])
    _, repetition, unit = np.indices(values.shape)
    flat = [x.ravel() for x in (values, repetition, unit)]
    return Clusters(*flat, design.repetitions, design.vehicles)


def test_a_difference_of_a_margin_is_found_in_four_of_five_trials_at_the_blocks_named() -> None:
    """Over eight pilots of eight blocks, each of which names a number of its own: it is an estimate, too."""
    design, margin = Design("made up", 8, 100, 4), RELEVANT * true_mean(SKEW)
    rng, there, alike, fewer = (generator(seed) for seed in range(1, 5))
    found = []
    for _ in range(8):
        pilot = difference_of_means(made_up(design, rng), made_up(design, rng))
        assert pilot is not None
        blocks = power.blocks_for(pilot, margin)
        assert blocks is not None
        asked, half = (design._replace(repetitions=number) for number in (blocks, blocks // 2))
        found.append(
            [
                differences_found(asked, TRIALS // 8, there, difference=margin),
                # Two that are alike but for the seed.
                differences_found(asked, TRIALS // 8, alike, difference=0.0),
                differences_found(half, TRIALS // 8, fewer, difference=margin),
            ]
        )
    power_there, by_chance, with_half = np.mean(found, axis=0)
    assert 0.78 <= power_there <= 0.92
    assert by_chance <= 0.05 + SLACK
    assert with_half < 0.65


def test_so_it_is_where_each_repetition_has_one_figure() -> None:
    rng, margin = generator(5), 5.0
    pilot = repetition_clusters(rng.normal(0.0, 8.0, 400)).mean_comparison()
    assert pilot is not None
    blocks = power.blocks_for(pilot, margin)
    assert blocks is not None

    def found(difference: float) -> float:
        worlds = rng.normal(difference, 8.0, (TRIALS, blocks))
        compared = [repetition_clusters(world).mean_comparison() for world in worlds]
        return float(np.mean([one is not None and one.more_than_noise for one in compared]))

    assert 0.78 <= found(margin) <= 0.88
    assert found(0.0) <= 0.05 + SLACK


def test_a_pilot_without_spread_finds_whatever_there_is() -> None:
    same = Comparison(1.0, 1.0, 1.0, 0.0, 5, 4.0)
    assert power.smallest(same, 4) == 0.0
    assert power.blocks_for(same, 1e-9) == 4


def test_a_plan_says_what_is_found(made_store: Callable[..., Any]) -> None:
    store, _ = made_store("a", lambda cell: 100.0 if cell.options.protocol == "mqtt" else 130.0)
    (row,) = power.findable(store.study, results(store))
    assert row.smallest is not None
    assert row.blocks == 4  # a spread of 5 ms over 50 messages each finds 5 ms at once
    assert 0.5 < row.smallest < 3.0
    ran = CliRunner().invoke(study_command.app, ["plan", str(store.path), "--width", "10%"])
    assert ran.exit_code == 0, ran.output
    assert "4 blocks find" in ran.output
    assert f"{row.smallest:.2f} ms" in ran.output
    assert "blocks for 5 % of the first  4" in ran.output


def test_what_is_not_known_of_a_difference_is_said(made_store: Callable[..., Any]) -> None:
    headline = {"kind": "steps", "axis": "mode", "steps": [["mqtt qos0", "coap non"]]}
    ratio = headline | {"metrics": ["unsuccessful_ratio"]}
    store, _ = made_store("a", lambda _: 100.0, headline=ratio)
    rows = [power.as_table_row(store.study, one) for one in power.findable(store.study, results(store))]
    assert [row[3] for row in rows] == ["a share of messages has no margin"] * 2
    once, _ = made_store("b", lambda _: 100.0, headline=headline | {"metrics": ["latency_mean_ms"]})
    cells = results(once)
    for cell in cells:
        cell.kept.clear()
    assert {one.why for one in power.findable(once.study, cells)} == {"not measured"}
