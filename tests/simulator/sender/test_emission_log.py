from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateways.protocols.backoff import Backoff
from schemas.config import read_config
from schemas.errors import Refusal
from simulator.emission_log import RECORD, EmissionLog, Kind, Reason
from simulator.emission_table import EVENT, connections, largest_backlog, read_events, read_words, to_table
from simulator.fleet import schedule
from simulator.outbox import Outbox
from simulator.scenario import Scenario
from simulator.sender_config import SenderConfig
from simulator.wakeup import Wakeup

SCENARIO = Scenario(vehicles=3, duration_s=4.0)


def written(path: Path, events: list[tuple]) -> Path:
    log = EmissionLog(path)
    for kind, vehicle, sequence, at_ns, reason in events:
        log.note(kind, vehicle, at_ns, epoch=1, sequence=sequence, size=10, reason=reason)
    log.close()
    return path


def test_record_and_array_have_the_same_layout() -> None:
    assert RECORD.size == EVENT.itemsize == 32


def test_every_message_due_has_one_row_in_order(tmp_path: Path) -> None:
    path = written(
        tmp_path / "e",
        [
            (Kind.EMITTED, 1, 1, 100, 0),
            (Kind.ACKNOWLEDGED, 1, 1, 150, 0),
            (Kind.ACKNOWLEDGED, 1, 1, 160, 0),
            (Kind.RECEIVED, 1, 1, 170, 0),
            (Kind.REFUSED, 1, 1, 180, Reason.REFUSED_BY_PEER),
            (Kind.UNANSWERED, 3, 1, 190, Reason.NO_ANSWER),
            (Kind.BUFFERED, 2, 1, 90, 0),
            (Kind.UNSENT, 2, 1, 95, Reason.DROPPED_OLDEST),
            (Kind.EMITTED, 99, 1, 100, 0),
        ],
    )
    rows = to_table(path, SCENARIO, 1_000).to_pylist()
    due = list(schedule(SCENARIO))
    assert [(int(r["vehicle_id"][-6:]), r["epoch"], r["sequence"], r["due_at_ns"]) for r in rows] == [
        (d.vehicle, d.epoch, d.sequence, 1_000 + d.due_offset_ns) for d in due
    ]
    by_key = {(int(r["vehicle_id"][-6:]), r["sequence"]): r for r in rows}
    first = by_key[1, 1]
    assert (first["emitted_at_ns"], first["acknowledged_at_ns"], first["received_at_ns"]) == (100, 150, 170)
    assert (first["payload_bytes"], first["unsent_reason"], first["buffered"]) == (10, None, False)
    assert (first["refused_at_ns"], first["unanswered_at_ns"]) == (180, None)
    assert (by_key[3, 1]["refused_at_ns"], by_key[3, 1]["unanswered_at_ns"]) == (None, 190)
    second = by_key[2, 1]
    assert (second["emitted_at_ns"], second["unsent_reason"], second["buffered"]) == (
        None,
        "dropped_oldest",
        True,
    )
    assert by_key[3, 1]["unsent_reason"] == "sender_ended"


def test_a_refusal_keeps_what_the_peer_said(tmp_path: Path) -> None:
    log = EmissionLog(tmp_path / "e")
    long = "\N{EURO SIGN}" * 200  # cut within a character
    for vehicle, kind, words in (
        (1, Kind.POSTPONED, "basic.return 312 NO_ROUTE, and quite some words more"),
        (1, Kind.REFUSED, "the second word on it"),
        (2, Kind.REFUSED, "5.03 Service Unavailable"),
        (3, Kind.REFUSED, long),
    ):
        log.note(kind, vehicle, vehicle * 10, epoch=1, sequence=1, words=words)
    log.note(Kind.REFUSED, 1, 5, epoch=1, sequence=2, words="5.03 Service Unavailable")
    log.close()
    rows = {
        (int(r["vehicle_id"][-6:]), r["sequence"]): r
        for r in to_table(tmp_path / "e", SCENARIO, 0).to_pylist()
    }
    assert (rows[1, 1]["refused_at_ns"], rows[1, 1]["refused_reason"]) == (
        10,
        "basic.return 312 NO_ROUTE, and quite some words more",
    )
    assert rows[2, 1]["refused_reason"] == rows[1, 2]["refused_reason"] == "5.03 Service Unavailable"
    assert rows[3, 1]["refused_reason"] == "\N{EURO SIGN}" * 32
    assert rows[3, 2]["refused_reason"] is rows[3, 2]["refused_at_ns"] is None
    assert (tmp_path / "e").stat().st_size == 32 * (5 + 3 + 1 + 1 + 4)


def test_a_peer_with_ever_new_words_does_not_fill_the_log(tmp_path: Path) -> None:
    log = EmissionLog(tmp_path / "e")
    for number in range(1_002):
        log.note(Kind.REFUSED, 1, 10, epoch=1, sequence=1 + number % 4, words=f"error {number}")
    log.close()
    events = read_events(tmp_path / "e")
    words = read_words(events)
    assert len(words) == 1_001
    said = [words[int(e["words"])] for e in events if e["kind"] == Kind.REFUSED]
    assert (said[0], said[999], said[1_000:]) == ("error 0", "error 999", ["other words"] * 2)


def test_a_torn_last_record_is_left_out(tmp_path: Path) -> None:
    path = written(tmp_path / "e", [(Kind.EMITTED, 1, 1, 100, 0), (Kind.EMITTED, 2, 1, 100, 0)])
    os.truncate(path, 2 * RECORD.size - 3)
    assert len(read_events(path)) == 1


def test_a_sender_that_never_began_leaves_every_row(tmp_path: Path) -> None:
    rows = to_table(tmp_path / "missing", SCENARIO, 0).to_pylist()
    assert len(rows) == 12
    assert {row["unsent_reason"] for row in rows} == {"sender_ended"}


def test_a_shard_has_its_own_rows_alone(tmp_path: Path) -> None:
    rows = to_table(tmp_path / "missing", SCENARIO, 0, vehicles=[2]).to_pylist()
    assert {row["vehicle_id"][-1] for row in rows} == {"2"}


@given(
    st.integers(0, 5),
    st.sampled_from(["drop_oldest", "drop_newest"]),
    st.lists(st.booleans(), max_size=60),
)
def test_outbox_loses_nothing_without_saying_so(limit: int, policy, moves: list[bool]) -> None:
    outbox: Outbox[int] = Outbox(limit, policy)
    put, out, dropped = 0, [], []
    for move in moves:
        if move:
            gone = outbox.put(put)
            put += 1
            if gone is not None:
                dropped.append(gone)
        elif outbox:
            out.append(outbox.get())
        assert len(outbox) <= limit
    assert sorted(out + dropped + outbox.clear()) == list(range(put))
    assert out == sorted(out)


@given(st.integers(0, 40))
def test_backoff_doubles_with_jitter_up_to_its_limit(attempts: int) -> None:
    backoff = Backoff(0.5, 8.0)
    for attempt in range(attempts):
        whole_s = min(8.0, 0.5 * 2.0**attempt)
        assert whole_s / 2 <= backoff.next_s() <= whole_s
    backoff.reset()
    assert backoff.next_s() <= 0.5


async def test_wakeup_rings_once_and_never_early() -> None:
    rung: list[int] = []
    done = asyncio.Event()

    def ring() -> None:
        rung.append(time.time_ns())
        done.set()

    wakeup = Wakeup(ring)
    at_ns = time.time_ns() + 20_000_000
    wakeup.arm(at_ns)
    await asyncio.wait_for(done.wait(), 5)
    assert rung[0] >= at_ns
    done.clear()
    wakeup.arm(at_ns - 1_000_000_000)
    await asyncio.wait_for(done.wait(), 5)
    assert len(rung) == 2
    wakeup.close()
    wakeup.close()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("{", "no JSON"),
        ("{}", "scenario"),
        ('{"scenario": {"vehicles": -1}}', "scenario.vehicles"),
    ],
)
def test_wrong_configurations_are_refused_by_name(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "sender.json"
    path.write_text(text)
    with pytest.raises(Refusal, match=named):
        read_config(path, SenderConfig)


def test_connections_have_handshake_and_backlog(tmp_path: Path) -> None:
    log = EmissionLog(tmp_path / "e")
    log.note(Kind.CONNECT_DUE, 1, 90)
    log.note(Kind.CONNECTING, 1, 100)
    log.note(Kind.CONNECT_FAILED, 1, 150)
    log.note(Kind.CONNECTING, 1, 200)
    log.note(Kind.CONNECTED, 1, 270, sequence=4, size=1)
    log.note(Kind.EMITTED, 1, 280, epoch=1, sequence=1)
    log.note(Kind.DISCONNECTED, 1, 300)
    log.close()
    rows = connections(tmp_path / "e").to_pylist()
    assert [(r["event"], r["handshake_ns"], r["session_present"], r["backlog"]) for r in rows] == [
        ("connect_due", None, None, 0),
        ("connecting", None, None, 0),
        ("connect_failed", None, None, 0),
        ("connecting", None, None, 0),
        ("connected", 70, True, 4),
        ("disconnected", None, None, 0),
    ]
    assert connections(tmp_path / "missing").num_rows == 0


def test_the_largest_backlog_is_one_vehicles(tmp_path: Path) -> None:
    log = EmissionLog(tmp_path / "e")
    for vehicle, sequence in ((1, 1), (2, 1), (1, 2), (1, 3)):
        log.note(Kind.BUFFERED, vehicle, 100, epoch=1, sequence=sequence)
    log.note(Kind.EMITTED, 2, 120, epoch=1, sequence=9)
    for sequence in (1, 2):
        log.note(Kind.EMITTED, 1, 120, epoch=1, sequence=sequence)
    log.close()
    assert largest_backlog(tmp_path / "e") == 3
    assert largest_backlog(tmp_path / "missing") == 0


def test_a_full_outbox_is_not_one_more_than_full(tmp_path: Path) -> None:
    log = EmissionLog(tmp_path / "e")
    for sequence in range(1, 8):
        log.note(Kind.BUFFERED, 1, 100, epoch=1, sequence=sequence)
        if sequence > 5:
            log.note(Kind.UNSENT, 1, 100, epoch=1, sequence=sequence - 5)
    log.note(Kind.EMITTED, 1, 120, epoch=1, sequence=3)
    log.close()
    assert largest_backlog(tmp_path / "e") == 5


def by_sets(steps: list[tuple[Kind, int, int]]) -> int:
    waiting: dict[int, set[int]] = {}
    most = 0
    for kind, vehicle, sequence in steps:
        mine = waiting.setdefault(vehicle, set())
        if kind is not Kind.UNSENT:
            most = max(most, len(mine))
        if kind is Kind.BUFFERED:
            mine.add(sequence)
        else:
            mine.discard(sequence)
    return max([most, *map(len, waiting.values())])


STEP = st.tuples(
    st.sampled_from([Kind.BUFFERED, Kind.EMITTED, Kind.UNSENT]), st.integers(1, 3), st.integers(1, 6)
)


@given(st.lists(STEP, max_size=60))
def test_the_largest_backlog_is_that_of_the_steps_one_by_one(steps: list[tuple[Kind, int, int]]) -> None:
    events = np.zeros(len(steps), EVENT)
    for name, at in (("kind", 0), ("vehicle", 1), ("sequence", 2)):
        events[name] = [step[at] for step in steps]
    assert largest_backlog(events) == by_sets(steps)
