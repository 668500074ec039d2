"""A trace holds good values only, and wraps around."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import Refusal
from simulator.traces import Step, Trace
from simulator.traces.describe import facts


def trace(**columns: list[float]) -> Trace:
    arrays = {name: np.array(values, dtype=float) for name, values in columns.items()}
    steps = len(next(iter(arrays.values())))
    return Trace(arrays.pop("time_s", np.arange(steps, dtype=float)), **arrays)


def test_places_are_no_columns_of_the_link():
    t = trace(rtt_ms=[1, 2], latitude_deg=[-90, 90], longitude_deg=[-180, 180])
    assert list(t.columns()) == ["rtt_ms"]
    assert list(t.places()) == ["latitude_deg", "longitude_deg"]
    assert list(t.in_frames().all_columns()) == ["rtt_ms", "latitude_deg", "longitude_deg"]
    assert trace(rtt_ms=[1]).places() == {}
    assert [line for line in facts(t) if "deg" in line] == [
        "latitude_deg: -90 to 90",
        "longitude_deg: -180 to 180",
    ]


def test_step_holds_until_the_next_one():
    t = trace(uplink_kbps=[1, 2, 3], rtt_ms=[10, 20, 30])
    assert t.step_at(1.999) == Step(2.0, None, 20.0, None)
    assert t.step_at(2) == Step(3.0, None, 30.0, None)


def test_trace_starts_again_after_its_last_step():
    t = trace(uplink_kbps=[1, 2, 3])
    assert t.duration_s == 3
    assert [t.step_at(s).uplink_kbps for s in (2.5, 3, 4, 302)] == [3, 1, 2, 3]


def test_offset_moves_the_entry():
    t = trace(uplink_kbps=[1, 2, 3])
    assert [t.step_at(s, offset_s=2).uplink_kbps for s in range(4)] == [3, 1, 2, 3]


@given(st.floats(0, 1e6), st.floats(0, 1e6))
def test_every_second_has_a_step(second, offset_s):
    t = trace(time_s=[0, 0.5, 7], downlink_kbps=[1, 2, 3])
    assert t.step_at(second, offset_s).downlink_kbps in {1.0, 2.0, 3.0}


def test_rate_of_zero_is_an_outage_not_an_error():
    assert trace(uplink_kbps=[5, 0, 5]).step_at(1).uplink_kbps == 0


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"uplink_kbps": []}, "no data rows"),
        ({"time_s": [0, 1]}, "none of the columns"),
        ({"uplink_kbps": [1, math.nan]}, "data row 2: uplink_kbps is nan"),
        ({"uplink_kbps": [1, -1]}, "data row 2: uplink_kbps is -1"),
        ({"downlink_kbps": [math.inf]}, "downlink_kbps is inf"),
        ({"loss_ratio": [0, 1.5]}, "loss_ratio is 1.5, must be 0 to 1"),
        ({"uplink_kbps": [2e7]}, "unit: kbps"),
        ({"time_s": [0, 2, 1], "rtt_ms": [1, 1, 1]}, "data row 3: time_s goes from 2 to 1"),
        ({"time_s": [0, 1, 1], "rtt_ms": [1, 1, 1]}, "data row 3: time_s goes from 1 to 1"),
        ({"time_s": [1, 2], "rtt_ms": [1, 1]}, "time_s starts at 1"),
        ({"time_s": [0, 1], "rtt_ms": [1]}, "1 values for 2 times"),
        ({"latitude_deg": [1], "longitude_deg": [1]}, "none of the columns uplink_kbps"),
        ({"rtt_ms": [1], "latitude_deg": [1]}, "latitude_deg without longitude_deg"),
        ({"rtt_ms": [1], "longitude_deg": [1]}, "longitude_deg without latitude_deg"),
        ({"rtt_ms": [1], "latitude_deg": [-90.1], "longitude_deg": [1]}, "must be -90 to 90 .unit: deg"),
        ({"rtt_ms": [1], "latitude_deg": [1], "longitude_deg": [math.nan]}, "longitude_deg is nan"),
    ],
)
def test_bad_values_are_refused(columns, reason):
    with pytest.raises(Refusal, match=reason):
        trace(**columns)
