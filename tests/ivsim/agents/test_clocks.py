"""What four timestamps say of another clock: within its bound, however unequal the ways were."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ivsim.agents.clocks import DRIFT_PER_S, ClockLine, Exchange, Reading, reading_of, surest

NOW = 1_764_000_000_000_000_000
DELAYS = st.integers(0, 10**10)
AHEAD = st.integers(-(10**15), 10**15)


def exchange(ahead_ns: int, there_ns: int, back_ns: int, took_ns: int, at_ns: int = NOW) -> Exchange:
    """Return what both clocks say of a question that goes there, is worked on, and comes back."""
    received = at_ns + there_ns
    answered = received + took_ns
    return Exchange(at_ns, received + ahead_ns, answered + ahead_ns, answered + back_ns)


@given(AHEAD, DELAYS, DELAYS, DELAYS)
def test_the_true_offset_is_within_the_bound_whatever_the_ways_took(
    ahead_ns: int, there_ns: int, back_ns: int, took_ns: int
) -> None:
    found = reading_of(exchange(ahead_ns, there_ns, back_ns, took_ns))
    assert abs(found.ahead_ns - ahead_ns) <= found.uncertainty_ns
    assert exchange(ahead_ns, there_ns, back_ns, took_ns).delay_ns == there_ns + back_ns


@example(0, 0, 0, 33_334, 1.0)
@given(AHEAD, DELAYS, DELAYS, DELAYS, st.floats(-1.0, 1.0))
def test_the_bound_holds_while_the_other_clock_drifts_as_far_as_allowed(
    ahead_ns: int, there_ns: int, back_ns: int, took_ns: int, share: float
) -> None:
    """The other clock goes wrong by up to 15 ppm during the exchange; it may be that far off at either end."""
    one = exchange(ahead_ns, there_ns, back_ns, took_ns)
    drift_ns = round(share * DRIFT_PER_S * took_ns)
    found = reading_of(one._replace(answered_at_ns=max(one.received_at_ns, one.answered_at_ns + drift_ns)))
    assert abs(found.ahead_ns - ahead_ns) <= found.uncertainty_ns + 1


def test_equal_ways_give_the_offset_itself_and_half_the_way_is_the_bound() -> None:
    found = reading_of(exchange(5_000, 700, 700, 100))
    assert (found.ahead_ns, found.uncertainty_ns) == (5_000, 701)
    assert reading_of(exchange(5_000, 1_400, 0, 100)).ahead_ns == 5_700


def test_the_surest_is_the_one_that_took_least_and_a_clock_that_was_set_says_nothing() -> None:
    slow, fast = exchange(3, 9_000, 1_000, 5), exchange(3, 40, 20, 5)
    found = surest([slow, fast])
    assert found is not None
    assert found == reading_of(fast)
    stepped = Exchange(NOW, NOW, NOW + 500, NOW + 100)
    with pytest.raises(ValueError, match="a clock was set meanwhile"):
        reading_of(stepped)
    assert surest([stepped]) is None
    assert surest([]) is None


@given(
    AHEAD,
    st.integers(-(10**8), 10**8),
    st.integers(1, 10**13),
    st.floats(0.0, 1.0),
    st.floats(0.0, 1.0),
    st.integers(0, 10**6),
)
def test_a_time_is_ours_to_within_the_uncertainty_while_the_clock_moves_one_way(
    ahead_ns: int, moved_ns: int, span_ns: int, share: float, way: float, uncertainty_ns: int
) -> None:
    """Wherever between both readings the offset was, at whatever point in between."""
    before = Reading(NOW, ahead_ns, uncertainty_ns)
    line = ClockLine(before, Reading(NOW + span_ns, ahead_ns + moved_ns, uncertainty_ns))
    theirs_ns = NOW + round(share * span_ns)
    true_ns = theirs_ns - (ahead_ns + round(way * moved_ns))
    found = int(line.ours(np.array([theirs_ns], np.int64))[0])
    assert abs(found - true_ns) <= line.uncertainty_ns + 1


def test_a_clock_that_goes_evenly_is_translated_to_the_nanosecond() -> None:
    line = ClockLine(Reading(NOW, 1_000, 1), Reading(NOW + 10**12, 51_000, 1))
    theirs = np.array([NOW - 5, NOW, NOW + 10**12 // 2, NOW + 10**12, NOW + 2 * 10**12], np.int64)
    assert (theirs - line.ours(theirs)).tolist() == [1_000, 1_000, 26_000, 51_000, 51_000]
    assert line.figures() == {
        "clock_ahead_before_ms": 0.001,
        "clock_ahead_after_ms": 0.051,
        "clock_uncertainty_ms": 0.050001,
    }
    assert ClockLine(line.after, line.after).ours(theirs).tolist() == (theirs - 51_000).tolist()
