"""What a schedule keeps between seconds changes nothing that it asks for."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.link_schedule import Impairments, LinkSchedule
from simulator.traces import Trace

SECONDS = np.arange(7.0)
ROAD = Trace(SECONDS, 2_000.0 + SECONDS, 9_000.0 - SECONDS, 40.0 + SECONDS % 3)
TUNNEL = Trace(
    np.arange(3.0), np.array([0.0, 4.0, 3.0]), np.array([0.0, 5.0, 9.0]), np.array([90.0, 8.0, 8.0]),
    np.array([0.5, 0.0, 0.1]),
)  # fmt: skip


@settings(max_examples=20, deadline=None)
@given(
    schedule=st.builds(
        LinkSchedule,
        trace=st.just(ROAD),
        vehicles=st.integers(1, 12),
        seed=st.integers(0, 99),
        rtt=st.sampled_from([None, 30.0, TUNNEL]),
        loss_ratio=st.sampled_from([0.0, 0.02]),
        uplink_loss=st.booleans(),
        downlink_loss=st.booleans(),
        offsets=st.booleans(),
        outages=st.sampled_from([(), ((3, 2.0),)]),
        rate_factor=st.sampled_from([1.0, 0.5]),
        egress_only=st.booleans(),
        blackouts=st.sampled_from([(), ((2, 4, 3),)]),
        others=st.sampled_from([(), (TUNNEL,)]),
        impairments=st.sampled_from(
            [Impairments(), Impairments(jitter_ms=3.0, burst_packets=4.0, reorder_ratio=0.1)]
        ),
    )
)
def test_a_second_is_the_same_whatever_was_asked_before(schedule):
    for second in range(20):
        if second == 12:
            schedule.cut(13, 2.0)
        alone = replace(schedule, cuts=list(schedule.cuts))
        assert schedule.at(second) == alone.at(second)
        for vehicle in range(1, schedule.vehicles + 1):
            length_s = max(1, int(schedule.trace_of(vehicle).duration_s))
            drawn = random.Random(f"road/{schedule.seed}/{vehicle}").randrange(length_s)
            assert schedule.offset_s(vehicle) == (drawn if schedule.offsets else 0)


def test_a_run_keeps_as_many_conditions_as_the_trace_has():
    schedule = LinkSchedule(ROAD, 500, 1)
    kept = [schedule.at(second) for second in range(30)]
    assert len({id(pair) for conditions in kept for pair in conditions.values()}) == 7
