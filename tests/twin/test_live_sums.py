"""The live figures' sums by hand, and their quantiles against all values; without Kafka."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from twin.live_sums import FLEET, WATERMARK_S, LiveSums, Quantiles

SECOND = 1_000_000_000
AT_S = 1_800_000_000


def state(**said: object) -> list[tuple[str, bytes]]:
    """Return headers of a twin's record: one message, sampled at AT_S and received 40 ms later."""
    words = {
        "messages": 1, "duplicates": 0, "gaps": 0, "given_up": 0, "payload_bytes": 300, "received_before": 0,
        "gaps_before": 0, "sampled_at_ns": AT_S * SECOND, "sampled_before_ns": "",
        "received_at_ns": AT_S * SECOND + 40_000_000, "last_received_at_ns": AT_S * SECOND + 40_000_000,
    } | said  # fmt: skip
    return [(name, str(value).encode()) for name, value in words.items()]


def rows(sums: LiveSums) -> dict[tuple[str, int | None], dict[str, Any]]:
    every = [*sums.fleet_rows(), *sums.vehicle_rows()]
    return {(row["vehicle_id"], row["window_start_s"]): row for row in every}


def test_an_update_is_in_the_run_and_window_of_its_vehicle_and_the_fleet() -> None:
    sums = LiveSums(10)
    sums.take_state("a", state(), AT_S * 1_000 + 60)
    found = rows(sums)
    assert set(found) == {("a", None), ("a", AT_S), (FLEET, None), (FLEET, AT_S)}
    for row in found.values():
        assert row["end_to_end_latency_p99_ms"] == 60.0
        assert row["due_to_received_p50_ms"] == 40.0
        assert (row["updates"], row["emitted"]) == (1, None)
    assert (found["a", None]["received"], found[FLEET, None]["received"]) == (1, 1)
    assert (found["a", AT_S]["received_in_window"], found["a", AT_S]["delivery_ratio"]) == (1, 1.0)
    assert rows(sums) == {}  # told once


def test_the_fleet_s_messages_are_those_of_its_vehicles() -> None:
    sums = LiveSums(10)
    sums.take_state("a", state(messages=5, duplicates=1), AT_S * 1_000)
    sums.take_state("b", state(messages=9, given_up=4), AT_S * 1_000)
    found = rows(sums)
    assert (found["a", None]["received"], found["b", None]["received"]) == (4, None)
    assert (found["b", None]["contained"], found["b", None]["given_up"]) == (5, 4)
    fleet = found[FLEET, None]
    assert (fleet["contained"], fleet["given_up"], fleet["received"]) == (9, 4, None)
    sums.take_state("b", state(messages=12, given_up=12), AT_S * 1_000)  # the rest of what it had is given up
    assert next(sums.fleet_rows())["contained"] == 4


def test_the_fleet_s_row_says_up_to_when_it_counts() -> None:
    sums = LiveSums(1)
    sums.take_state("a", state(), AT_S * 1_000 + 700)
    assert rows(sums)[FLEET, None]["counted_to_ms"] == AT_S * 1_000 + 700
    # Records of another partition may be older; a twin that stands still has the owner's counts beside it.
    sums.take_state("b", state(), AT_S * 1_000 + 300)
    assert rows(sums)[FLEET, None]["counted_to_ms"] == AT_S * 1_000 + 700
    sums.take_emissions(b'{"at_ns":1,"fleet_offered":9}', AT_S * 1_000 + 1_900)
    sums.take_state("a", state(messages=2), AT_S * 1_000 + 800)
    assert rows(sums)[FLEET, None]["counted_to_ms"] == AT_S * 1_000 + 1_900


def test_a_tombstone_undoes_nothing() -> None:
    sums = LiveSums(10)
    sums.take_state("a", state(messages=5), AT_S * 1_000)
    sums.take_state("a", None, AT_S * 1_000)
    assert rows(sums)[FLEET, None]["contained"] == 5


def test_a_message_that_is_not_the_newest_has_no_delay_of_its_own() -> None:
    sums = LiveSums(10)
    sums.take_state("a", state(last_received_at_ns=AT_S * SECOND), AT_S * 1_000 + 60)
    assert rows(sums)["a", None]["end_to_end_latency_p50_ms"] is None


def test_owners_counts_are_summed_where_they_belong() -> None:
    sums = LiveSums(10)
    for second in (AT_S, AT_S + 1, AT_S + 10):
        sums.take_emissions(
            json.dumps({"vehicle_id": "a", "second": second, "emitted": 2, "unsent": 1}).encode(), 1
        )
    link = {"vehicle_id": "a", "second": 5, "direction": "uplink", "wire_bytes": 900}
    sums.take_link(json.dumps(link).encode(), AT_S * 1_000)  # seconds of the run: placed by the append stamp
    sums.take_link(json.dumps({"vehicle_id": "a", "second": 5, "rtt_ms": 3.5}).encode(), AT_S * 1_000)
    found = rows(sums)
    assert (found["a", None]["emitted"], found["a", None]["unsent"]) == (6, 3)
    assert (found["a", AT_S]["emitted"], found["a", AT_S + 10]["emitted"]) == (4, 2)
    assert (found[FLEET, AT_S]["wire_bytes_uplink"], found[FLEET, AT_S]["wire_bytes_downlink"]) == (900, None)
    assert found["a", None]["received"] is None  # no twin has said anything


@pytest.mark.parametrize(
    "value",
    [
        b"", b"no json", b"[]", b"7", b'{"emitted": 2}', b'{"vehicle_id": 4, "second": 1800000000, "emitted": 2}',
        *(
            b'{"vehicle_id": "a", "second": 1800000000, "emitted": %b}' % count
            for count in (b"-1", b"true", b"1.5", b'"2"', b"9007199254740993", b"1" + b"0" * 400)
        ),
        b'{"vehicle_id": "a", "second": true, "emitted": 1}', b'{"vehicle_id": "a", "second": -1, "emitted": 1}',
    ],
)  # fmt: skip
def test_what_is_none_of_ours_is_counted_and_passed_over(value: bytes) -> None:
    sums = LiveSums(10)
    sums.take_emissions(value, AT_S * 1_000)
    assert (rows(sums), sums.refused) == ({}, 1)


def test_a_row_that_is_none_of_ours_takes_no_other_with_it() -> None:
    sums = LiveSums(10)
    good = [{"vehicle_id": name, "second": AT_S, "emitted": 2} for name in "ab"]
    sums.take_emissions(json.dumps([good[0], 7, {"emitted": -1}, good[1]]).encode(), AT_S * 1_000)
    assert (rows(sums)[FLEET, AT_S]["emitted"], sums.refused) == (4, 2)


def test_what_is_of_no_vehicle_is_for_the_page_alone() -> None:
    sums = LiveSums(10)
    sums.take_emissions(b'{"at_ns":1,"fleet_offered":9,"fleet_emitted":8,"cores_kafka":0.1}', AT_S * 1_000)
    assert (rows(sums), sums.refused) == ({}, 0)


@pytest.mark.parametrize("number", ["x", "", "-5", "1" + "0" * 30, "1" + "0" * 400, "1" * 5_000])
@pytest.mark.parametrize("name", ["messages", "gaps", "payload_bytes", "received_at_ns", "sampled_before_ns"])
def test_so_is_a_twin_s_record_that_is_none(name: str, number: str) -> None:
    if (name, number) == ("sampled_before_ns", ""):
        return  # a twin's first update
    sums = LiveSums(10)
    sums.take_state("a", state(**{name: number}), AT_S * 1_000)
    assert (rows(sums), sums.refused) == ({}, 1)


def test_a_twin_s_record_without_one_of_its_headers_is_none() -> None:
    sums = LiveSums(10)
    for name, _ in state():
        sums.take_state("a", [header for header in state() if header[0] != name], AT_S * 1_000)
    assert (rows(sums), sums.refused) == ({}, len(state()))


def test_a_window_is_closed_behind_the_watermark_and_a_run_never() -> None:
    sums = LiveSums(10)
    late = AT_S + WATERMARK_S + 20
    sums.take_emissions(json.dumps({"vehicle_id": "a", "second": AT_S, "emitted": 1}).encode(), late * 1_000)
    sums.take_emissions(json.dumps({"vehicle_id": "a", "second": late, "emitted": 1}).encode(), late * 1_000)
    assert ("a", AT_S) in rows(sums)
    sums.forget_windows()
    sums.take_emissions(json.dumps({"vehicle_id": "a", "second": AT_S, "emitted": 1}).encode(), late * 1_000)
    found = rows(sums)
    assert ("a", AT_S) not in found
    assert found["a", None]["emitted"] == 3


def test_a_second_that_lies_ahead_closes_no_window() -> None:
    sums = LiveSums(10)
    sums.take_emissions(
        json.dumps({"vehicle_id": "a", "second": AT_S * 40, "emitted": 1}).encode(), AT_S * 1_000
    )
    sums.take_emissions(json.dumps({"vehicle_id": "a", "second": AT_S, "emitted": 1}).encode(), AT_S * 1_000)
    assert rows(sums)["a", AT_S]["emitted"] == 1


def test_of_a_large_fleet_the_longest_waiting_are_told_first() -> None:
    sums = LiveSums(10)
    for name in "abc":
        sums.take_state(name, state(), AT_S * 1_000)
    first = [row["vehicle_id"] for row in sums.vehicle_rows(2)]
    sums.take_state("a", state(messages=2), AT_S * 1_000)
    rest = [row["vehicle_id"] for row in sums.vehicle_rows()]
    assert (first, rest) == (["a", "a"], ["b", "b", "c", "c", "a", "a"])


def test_few_delays_are_exact() -> None:
    values = Quantiles()
    for value in range(1, 301):
        values.add(float(value))
    assert values.at([0.5, 0.95, 0.99]) == [150.0, 285.0, 297.0]


def test_many_delays_are_within_the_stated_ranks() -> None:
    rng = np.random.default_rng(7)
    delays = rng.lognormal(4.0, 1.0, 200_000).astype(np.float32)
    values = Quantiles()
    for value in delays:
        values.add(float(value))
    ordered = np.sort(delays)
    # Twice of what is stated: that holds in 997 of 1,000 cases, twice as much in all but some of a million.
    for rank, within in ((0.5, 0.008), (0.95, 0.0008), (0.99, 0.0002)):
        (found,) = values.at([rank])
        assert found is not None
        assert abs(np.searchsorted(ordered, np.float32(found), "right") / len(ordered) - rank) <= within
