"""What `make soak` calls flat and what it says grows, on series that are made up; and its schedule."""

from __future__ import annotations

from collections import defaultdict
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.slope import FEWEST, slope_of
from bench.soak import LEGS, Series, legs, mix_of, table
from ivsim.option_rules import run_options


@given(st.integers(0, 10_000), st.floats(0, 1_000))
def test_noise_is_flat_and_growth_is_found_in_it(seed: int, level: float) -> None:
    stream = Random(seed)
    seconds = [5.0 * index for index in range(120)]
    noise = [level + stream.gauss(0, 0.5) for _ in seconds]
    found = slope_of(seconds, noise)
    assert found is not None
    assert found.low <= found.per_hour <= found.high
    assert found.verdict(least=60.0) == "flat"
    leaking = [value + at_s / 3_600 * 1_000 for at_s, value in zip(seconds, noise, strict=True)]
    grown = slope_of(seconds, leaking)
    assert grown is not None
    assert grown.per_hour == pytest.approx(1_000, abs=40)
    assert grown.verdict(least=60.0) == "grows"


def test_a_warm_up_is_left_out_and_too_few_samples_say_nothing() -> None:
    seconds = [5.0 * index for index in range(100)]
    warming = [min(at_s, 100.0) for at_s in seconds]
    found = slope_of(seconds, warming)
    assert found is not None
    assert (found.median, found.per_hour) == (100.0, 0.0)
    assert slope_of(seconds[:FEWEST], warming[:FEWEST]) is None


def test_what_is_not_sure_is_unclear() -> None:
    for each_s, verdict in ((5.0, "short"), (30.0, "unclear")):
        found = slope_of([each_s * index for index in range(16)], [float(index % 5) for index in range(16)])
        assert found is not None
        assert found.verdict(least=1.0) == verdict


@pytest.mark.parametrize("minutes", [3.0, 5.0, 30.0, 120.0])
def test_a_fault_comes_each_three_minutes_within_the_legs(minutes: float) -> None:
    planned = legs(minutes, 1)
    assert planned == legs(minutes, 1)
    assert [(schedule.protocol, schedule.mode) for schedule, _ in planned] == list(LEGS)
    assert sum(length_s for _, length_s in planned) == pytest.approx(minutes * 60)
    assert sum(len(schedule.faults) for schedule, _ in planned) == round(minutes / 3)
    for schedule, length_s in planned:
        assert all(0 < fault.at_s < fault.end_s < length_s for fault in schedule.faults)


def test_all_protocols_speak_in_each_leg_and_the_first_is_the_one_with_faults() -> None:
    for schedule, _ in legs(30.0, 1):
        parts = run_options(mix=mix_of(schedule), vehicles=500).parts
        assert sorted(part.words for part in parts) == sorted(f"{protocol} {mode}" for protocol, mode in LEGS)
        assert (parts[0].protocol.name, parts[0].mode.name) == (schedule.protocol, schedule.mode)
        assert {len(part.vehicles) for part in parts} <= {165, 170}


def test_the_table_fits_80_columns_and_names_what_grows() -> None:
    series: Series = defaultdict(list)
    for index in range(120):
        at_s = 5.0 * index
        series["gateway-0-of-many", 1_234_567, "memory"].append((at_s, 9_000.0 + 9.0 * at_s))
        series["kafka", 0, "log"].append((at_s, 999.0 * index))
        series["kafka", 7, "descriptors"].append((at_s, 300.0))
    series["echo", 3, "threads"].append((0.0, 1.0))
    lines, growing = table(series)
    assert max(map(len, lines)) <= 80
    assert growing == ["gateway-0-of-many (1234567): memory"]
    assert "1 series are too short" in lines[-1]
