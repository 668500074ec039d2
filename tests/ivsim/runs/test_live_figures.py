"""Figures of all senders together, and the cores of each kind of part, of numbers that are made up."""

from __future__ import annotations

from typing import Any

import pytest

from ivsim.runs.directory import RunDirectory
from ivsim.runs.live_figures import added, by_kind, cores_between
from tests.ivsim.runs.test_live_publisher import publisher
from twin.service.live_metrics import Figures

UNKNOWN = dict.fromkeys(("offered", "emitted", "acknowledged", "unsent", "emission_lag_max_ms"))


def said(due: int, emitted: int, lag_ns: int | None) -> dict[str, Any]:
    return {
        "due": due,
        "emitted": emitted,
        "acknowledged": emitted - 1,
        "unsent": 1,
        "emission_lag_max_ns": lag_ns,
    }


def test_senders_are_added_and_the_longest_lag_counts() -> None:
    found = added([said(10, 9, 2_500_000), said(20, 20, 40_000)], 2)
    assert found == {
        "offered": 30,
        "emitted": 29,
        "acknowledged": 27,
        "unsent": 2,
        "emission_lag_max_ms": 2.5,
    }


def test_who_emits_nothing_has_no_lag() -> None:
    assert added([said(2, 2, None), said(1, 1, 5_000_000)], 2)["emission_lag_max_ms"] == 5.0
    assert added([said(2, 2, None)], 1)["emission_lag_max_ms"] is None


@pytest.mark.parametrize(("known", "senders"), [([], 0), ([said(1, 1, 0)], 2)])
def test_what_one_has_not_said_is_unknown_of_all(known: list[dict[str, Any]], senders: int) -> None:
    assert added(known, senders) == UNKNOWN


def test_parts_of_a_kind_are_one_and_stand_along_the_way_of_a_message() -> None:
    found = by_kind(
        {"runner": 1.0, "gateway-0": 2.0, "sender-0": 3.0, "gateway-1": 4.0, "kafka": 5.0, "page": 6.0}
    )
    assert list(found.items()) == [
        ("sender", 3.0),
        ("gateway", 6.0),
        ("kafka", 5.0),
        ("page", 6.0),
        ("runner", 1.0),
    ]


def test_cores_are_of_the_time_between_two_looks() -> None:
    """Not known of a part that came meanwhile, and of one of whose processes one has ended."""
    found = cores_between(
        {"sender": 1.0, "gateway": 9.0, "kafka": 5.0}, {"sender": 2.5, "gateway": 4.0, "spark": 3.0}, 2.0
    )
    assert found == {"sender": 0.75}


def test_the_page_takes_what_the_run_tells(tmp_path: Any) -> None:
    (published, sent), figures = publisher(RunDirectory(tmp_path)), Figures(1)
    values: list[bytes] = []
    sent.produce = lambda topic, value: values.append(value)  # type: ignore[method-assign]
    published.tell_sources(added([said(10, 9, 2_500_000)], 1), {"sender": 0.25})
    published.tell_sources(UNKNOWN, {})
    figures.take_emissions(values[0])
    assert figures.fleet()["sources"] == {
        "offered": 10,
        "emitted": 9,
        "emissionLagMaxMs": 2.5,
        "cores": {"sender": 0.25},
    }
    figures.take_emissions(values[1])
    assert figures.fleet()["sources"]["offered"] is None
