"""`--share` and `--start-at`: which vehicles a share has, and what cannot be one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ivsim.option_rules import run_options
from ivsim.options import RunOptions
from ivsim.runs import preflight, processes
from ivsim.runs.directory import RunDirectory
from ivsim.runs.shards import sender_shares
from ivsim.share import instant_ns
from ivsim.testbed.credentials import PLAIN
from schemas.errors import Refusal

TARGET: dict[str, Any] = {"target": "mqtt://127.0.0.1:1883", "topology": "peer", "link": "direct"}
AT = "2026-11-30T09:00:00Z"


def share(**more: Any) -> RunOptions:
    return run_options(**TARGET | {"share": "2/3", "start_at": AT, "vehicles": 8} | more)


def test_a_share_has_each_nth_vehicle_and_its_senders_have_these_alone() -> None:
    options = share(shards="2")
    assert (options.sending, options.vehicles) == (3, 8)
    assert [one.vehicles for one in sender_shares(options)] == [[2, 8], [5]]
    (alone,) = sender_shares(share())
    assert alone.vehicles == [2, 5, 8]


@pytest.mark.parametrize("shards", ["1", "2"])
def test_the_senders_are_told_the_vehicles_of_the_share_and_no_others(shards: str, tmp_path: Path) -> None:
    """One sender alone sent for the whole fleet: no ledger showed it, since what it sent for others was due in none."""
    options = share(shards=shards)
    dealt = sender_shares(options)
    plan: Any = SimpleNamespace(
        options=options, directory=RunDirectory(tmp_path), run_id="r-1", senders=dealt, shards=len(dealt)
    )
    endpoints: Any = SimpleNamespace(
        host=lambda _: "192.0.2.1", ports={"mqtt": 1883}, credentials=PLAIN, vehicles_namespace="v"
    )
    told = [spec.config for spec in processes.senders(plan, endpoints)]
    driven = [config.numbers() for config in told]  # type: ignore[union-attr]
    assert sorted(chain.from_iterable(driven)) == [2, 5, 8]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"start_at": None}, "--share 2/3: needs --start-at, one time for all shares"),
        ({"share": "4/3"}, "--share '4/3': write K/N with K from 1 to N, and N up to 1000"),
        ({"share": "2/9"}, "--share 2/9: each needs a vehicle at least: --vehicles is 8"),
        ({"shards": "4"}, "--shards 4: each needs a vehicle at least: --share 2/3 of --vehicles 8 has 3"),
        ({"agents": ("192.0.2.7:7070",)}, "--agent 192.0.2.7:7070: not with --share 2/3: a share is one machine's"),
        ({"start_at": "09:00"}, "--start-at '09:00': write date, time and offset from UTC, such as 2026-11-30T09:00:00Z"),
        ({"start_at": "2026-11-30T09:00:00"}, "--start-at '2026-11-30T09:00:00': write date, time and offset"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_share_is_refused(more: dict[str, Any], says: str) -> None:
    with pytest.raises(Refusal) as refused:
        share(**more)
    assert str(refused.value).startswith(says)


@pytest.mark.parametrize(("ahead_s", "says"), [(-90, "90 s ago"), (7_200, "7,200 s ahead")])
def test_a_start_that_is_over_or_far_ahead_is_refused(
    ahead_s: int, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight.time, "time_ns", lambda: instant_ns(AT))
    at = (datetime(2026, 11, 30, 9, tzinfo=UTC) + timedelta(seconds=ahead_s)).isoformat()
    with pytest.raises(Refusal) as refused:
        preflight.check_start(share(start_at=at))
    assert str(refused.value) == f"--start-at {at}: is {says}; allowed are up to 3,600 s ahead"
    preflight.check_start(share(start_at="2026-11-30T10:30:00+00:30"))


def test_an_instant_is_the_same_in_each_zone() -> None:
    assert (
        instant_ns("2026-11-30T10:00:00.25+01:00")
        == instant_ns("2026-11-30T09:00:00.25Z")
        == 1_796_029_200_250_000_000
    )
