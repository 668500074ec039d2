"""The link log as columns: the same rows, the same table and the same certificate as read row by row, in flat memory."""

from __future__ import annotations

import itertools
import random
import time
import tracemalloc
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ivsim.runs import link_log
from ivsim.runs.link_log import SCHEMA, link_table, write_link_log
from schemas.topics import end_id
from simulator.capture.counting import COUNTS, RECORD
from simulator.capture.second_log import MAGIC
from simulator.capture.second_log import to_table as wire_table
from simulator.links import step_log
from simulator.links.base import DIRECTIONS, Applied, Condition, GilbertElliott, LinkCounts, wait_until
from simulator.links.proof import run_seconds
from simulator.links.proof.certificate import certificate, check_punctual
from simulator.links.proof.probe_times import ProbedRows, ProbeTimes
from simulator.links.replay import LinkReplay
from simulator.links.step_log import Second, StepLog
from tests.simulator.links.row_by_row import LinkCounter, Row, counts, probe_columns, rows_of
from tests.simulator.links.row_by_row_checks import checks_by_row

REPLAY = {"applied_late_max_ms": 5.0, "failure": None, "steps": 40}
START = 1_700_000_000_000_000_000
PROBE_BYTES = 48
BURSTS = GilbertElliott(0.01, 0.25)
CONDITIONS = [
    Condition(),
    Condition(0.0, 20.0),
    Condition(1e6, 35.0, 0.1, jitter_ms=2.0),
    Condition(2e5, 20.0, gilbert_elliott=BURSTS, reorder_ratio=0.02),
]
SEEDS = st.integers(0, 2**32)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a few rows be many parts: of the file, of link.parquet and of the vehicles that are judged together."""
    monkeypatch.setattr(step_log, "ROWS_TOGETHER", 7)
    monkeypatch.setattr(link_log, "ROWS_TOGETHER", 9)
    monkeypatch.setattr(run_seconds, "ROWS_TOGETHER", 30)


def made_up(drawn: random.Random, vehicles: int, seconds: int) -> list[Row]:
    """Return rows of a link near, at and above what it was asked for, with probes; some vehicles are not counted."""
    right = drawn.random() < 0.4  # a link that does what it was asked
    rates = drawn.choice([(1e6, 2e6), (None, 5e6, 1e6), (0.0, 3e4, 600.0), (None, 0.0, 1e6), (1e6,)])
    delays = drawn.choice([(35.0,), (0.0, 20.0), (35.0, 435.0), (10.25, 4_500.0)])
    loss = drawn.choice([(0.0,), (0.1, 0.3), (0.0, 0.013, 1.0)])
    jitter, reorder = drawn.choice([0.0, 0.0, 2.5]), drawn.choice([0.0, 0.0, 0.0, 0.1])
    load, noted = drawn.choice([0.01, 0.5, 1.0, 1.2]), drawn.random() < 0.7
    uncounted = {(v, d) for v in range(vehicles) for d in DIRECTIONS if drawn.random() < 0.1}
    rows = []
    for second in range(seconds):
        if drawn.random() < 0.03:
            continue  # a second that was not played
        for vehicle, direction in itertools.product(range(vehicles), DIRECTIONS):
            rate, delay_ms = drawn.choice(rates), drawn.choice(delays)
            bytes_ = 0 if right and rate == 0 else round((rate or 1e5) / 8 * load * drawn.uniform(0.9, 1.05))
            packets = bytes_ // 1_000 + 1
            lost = sum(drawn.random() < loss[0] for _ in range(min(packets, 30)))
            queued = round((rate or 0) / 8 * drawn.choice([0, 0.5, 1]) * (load >= 1))
            count = [bytes_, packets, lost + (full := drawn.randrange(3) * (load > 1)), full, queued]
            if (vehicle, direction) in uncounted or (drawn.random() < 0.5 and second == seconds - 1):
                count = [None] * 5
            sent = vehicle < 2 and drawn.random() < 0.95
            came = sent and drawn.random() < 0.97 and not (right and rate == 0)
            late_ms = 0.5 if right else drawn.choice([0.5, 0.5, 0.5, 0.5, 12.0, 60.0, -0.3, 2_000.0])
            at_ns = START + second * 10**9
            rows.append(
                dict.fromkeys(step_log.SCHEMA.names)
                | dict(zip(step_log.COUNTS, count, strict=True))
                | {
                    "second": second, "vehicle_id": end_id(3 - vehicle % 2 + 10 * vehicle), "direction": direction,
                    "asked_rate_bps": rate, "asked_delay_ms": delay_ms, "asked_loss_ratio": drawn.choice(loss),
                    "asked_jitter_ms": jitter, "asked_reorder_ratio": reorder,
                    "asked_burst_packets": drawn.choice([None, 1.0, 4.0]),
                    "applied_at_ns": at_ns + drawn.randrange(10**8) if noted else None, "update_ms": 1.5,
                    "counted_at_ns": at_ns + drawn.randrange(9 * 10**8, 11 * 10**8) if noted else None,
                    "probe_sent": int(sent), "probe_received": int(came), "probe_bytes": PROBE_BYTES * sent,
                    "probe_delay_ms": delay_ms + late_ms + 448 / (rate or 1e6) * 1e3 if came else None,
                }
            )  # fmt: skip
    return rows


def tables(rows: list[Row]) -> list[pa.Table]:
    """Return rows as one table a few seconds."""
    made = pa.Table.from_pylist(rows, schema=SCHEMA)
    parts = [made.filter(pc.equal(pc.divide(made["second"], 4), part)) for part in range(30)]
    return [part for part in parts if len(part)]


@given(SEEDS, st.integers(1, 3), st.integers(0, 40))
def test_the_certificate_is_the_one_of_row_by_row(seed: int, vehicles: int, seconds: int) -> None:
    rows = made_up(random.Random(seed), vehicles, seconds)
    found = certificate("uml", tables(rows), REPLAY)
    expected = [check_punctual(REPLAY), *checks_by_row(rows, DIRECTIONS)]
    assert found["checks"] == [check.as_dict() for check in expected]
    for direction in DIRECTIONS:
        own = [row["probe_bytes"] for row in rows if row["direction"] == direction]
        assert found[f"probe_bytes_{direction}"] == sum(own)


def test_the_made_up_rows_reach_every_verdict() -> None:
    """Otherwise the test above would compare little."""
    found = {
        (check.parameter, check.verdict)
        for seed in range(100)
        for check in checks_by_row(made_up(random.Random(seed), 2, 40), DIRECTIONS)
    }
    assert found == set(
        itertools.product(("delay", "loss", "rate", "outage"), ("pass", "off", "unproven"))
    ) - {("outage", "unproven")}


def played(drawn: random.Random, vehicles: list[int], seconds: int) -> list[Second]:
    """Return a replay's steps; a vehicle may come later, and not every one is always counted."""
    totals = dict.fromkeys(itertools.product(vehicles, DIRECTIONS), (0, 0, 0, 0))
    steps = []
    for second in range(-1, seconds):
        asked = {
            v: (drawn.choice(CONDITIONS), drawn.choice(CONDITIONS)) for v in vehicles if v != 2 or second > 3
        }
        for key, total in totals.items():
            totals[key] = tuple(count + drawn.randrange(5_000) for count in total)  # type: ignore[assignment]
        rows = [
            LinkCounter(*key, *total, drawn.randrange(9_000), 3)
            for key, total in totals.items()
            if drawn.random() < 0.95
        ]
        at_ns = START + second * 10**9
        counted_at_ns = at_ns + 10**9 if second < seconds - 1 else 0
        times = at_ns, at_ns + drawn.randrange(10**8), drawn.randrange(10**7)
        steps.append(Second(second, asked, *times, counts(rows), counted_at_ns))
    return steps


def kept(steps: list[Second], directory: str) -> StepLog:
    log = StepLog(Path(directory) / "steps")
    for step in steps:
        log.append(step)
    return log


def in_dicts(parts: Any) -> list[Row]:
    return [row for part in parts for row in part.to_pylist()]


@given(SEEDS, st.lists(st.integers(1, 12), unique=True, max_size=5), st.integers(0, 12))
def test_steps_and_probes_come_back_row_by_row(seed: int, vehicles: list[int], seconds: int) -> None:
    drawn = random.Random(seed)
    steps = played(drawn, vehicles, seconds)
    probed = vehicles[:3]
    times = ProbeTimes(probed, PROBE_BYTES)
    probes: dict[tuple[int, str, str], tuple[int, int | None]] = {}
    for second, vehicle, direction in itertools.product(range(seconds + 70), probed, DIRECTIONS):
        if drawn.random() < 0.9:
            sent_at_ns = START + second * 10**9
            times.sent(second, vehicle, direction, sent_at_ns)
            probes[second, end_id(vehicle), direction] = sent_at_ns, None
    late = list(probes)
    drawn.shuffle(late)
    for second, name, direction in late[: len(late) * 2 // 3]:
        vehicle, at_ns = (
            next(v for v in probed if end_id(v) == name),
            START + second * 10**9 + drawn.randrange(10**10),
        )
        assert times.came(second, vehicle, direction, at_ns)  # type: ignore[arg-type]
        assert not times.came(second, vehicle, direction, at_ns + 1)  # type: ignore[arg-type]
        probes[second, name, direction] = START + second * 10**9, at_ns
    expected = [row | probe_columns(row, probes, PROBE_BYTES) for row in rows_of(steps)]
    with TemporaryDirectory() as directory:
        log = kept(steps, directory)
        assert in_dicts(ProbedRows(log, times)) == expected
        assert in_dicts(log) == rows_of(steps)  # again, from the beginning
    first: dict[Any, tuple[int, int]] = {}
    for step in steps[1:]:
        for vehicle, pair in step.asked.items():
            first.setdefault(pair, (vehicle, step.second))
    assert log.distinct() == [(*place, *pair) for pair, place in first.items()]


def test_nothing_but_a_probe_that_was_sent_can_come() -> None:
    times = ProbeTimes([4], PROBE_BYTES)
    times.sent(2, 4, "uplink", START)
    others = [
        (2, 4, "downlink"),
        (1, 4, "uplink"),
        (3, 4, "uplink"),
        (2**32 - 1, 4, "uplink"),
        (2, 5, "uplink"),
    ]
    assert not any(times.came(second, vehicle, way, START) for second, vehicle, way in others)  # type: ignore[arg-type]
    assert times.count() == (1, 0)
    assert times.came(2, 4, "uplink", START + 1)
    assert times.count() == (1, 1)


@given(SEEDS, st.integers(0, 6), st.booleans())
def test_the_table_is_joined_part_by_part_as_in_one(seed: int, seconds: int, captured: bool) -> None:
    drawn = random.Random(seed)
    steps = played(drawn, [1, 2, 3], seconds)
    records = np.zeros(drawn.randrange(60), RECORD)
    for record in records:
        record["second"], record["vehicle"] = drawn.randrange(-1, 9), drawn.randrange(5)
        record["direction"], record["counts"] = drawn.randrange(2), np.arange(len(COUNTS))
    with TemporaryDirectory() as directory:
        wire, path = Path(directory) / "wire.events", Path(directory) / "link.parquet"
        if captured:
            wire.write_bytes(MAGIC + records.tobytes())
        log = kept(steps, directory)
        write_link_log(path, log, wire)
        found = pq.read_table(path)
        assert found.equals(link_table(log, wire))
        expected = in_one(rows_of(steps), wire)
    assert found.schema.equals(expected.schema)
    assert found.to_pylist() == expected.to_pylist()


def in_one(rows: list[Row], wire_events: Path) -> pa.Table:
    """Return link.parquet as a whole."""
    left = pa.Table.from_pylist(rows, schema=SCHEMA)
    if not wire_events.is_file():
        for name in link_log.WIRE:
            left = left.append_column(name, pa.nulls(len(left), pa.int64()))
        return left
    seen = wire_table(wire_events)
    seen = seen.filter(pc.is_valid(seen["vehicle_id"])).select([*link_log.KEY, *link_log.WIRE.values()])
    joined = left.join(
        seen.rename_columns([*link_log.KEY, *link_log.WIRE]), list(link_log.KEY), join_type="full outer"
    )
    for name in link_log.WIRE:
        filled = pc.fill_null(joined[name], 0)
        joined = joined.set_column(joined.schema.get_field_index(name), name, filled)
    return joined.sort_by([(name, "ascending") for name in link_log.KEY])


VEHICLES, SECONDS = 200, 600
MOST_BYTES = (
    12_000_000  # 100 a vehicle-second; kept as objects it was 600 while the run went, and 4,000 at its end
)


class Counting:
    """A link on which something passes each second."""

    name = "uml"

    def __init__(self) -> None:
        self.updates = 0

    def update(self, _conditions: Any) -> None:
        self.updates += 1

    def prepare(self, conditions: Any, at_s: float, *, count: bool = False) -> Any:
        def apply() -> Applied:
            found = self.counters() if count else LinkCounts.none()
            began_s = wait_until(at_s)
            self.update(conditions)
            return Applied(began_s, time.monotonic(), found, began_s)

        return apply

    def counters(self) -> LinkCounts:
        n = self.updates
        return counts(
            [
                LinkCounter(vehicle, direction, 3_000 * n + vehicle, 10 * n, n // 10, 0, 0, 0)
                for vehicle in range(1, VEHICLES + 1)
                for direction in DIRECTIONS
            ]
        )


@pytest.mark.full
def test_memory_does_not_grow_with_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.undo()
    pairs = [(Condition(1e5 + k, 20.0), Condition(2e5 + k, 20.0)) for k in range(50)]
    link: Any = Counting()
    times = ProbeTimes(range(1, 33), PROBE_BYTES)
    for second, vehicle, direction in itertools.product(range(SECONDS), range(1, 33), DIRECTIONS):
        times.sent(second, vehicle, direction, START)
    # What was due before now is played at once.
    start_at_ns = time.time_ns() - SECONDS * 10**9

    def schedule(second: int) -> dict[int, tuple[Condition, Condition]]:
        return {vehicle: pairs[(second + vehicle) % 50] for vehicle in range(1, VEHICLES + 1)}

    tracemalloc.start()
    try:
        with LinkReplay(link, schedule, start_at_ns, tmp_path / "steps") as replay:
            end_s = time.monotonic() + 120
            while link.updates <= SECONDS and replay.failure is None:
                assert time.monotonic() < end_s
                time.sleep(0.01)
        while_played = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        rows = ProbedRows(replay.rows(), times)
        write_link_log(tmp_path / "link.parquet", rows, tmp_path / "none")
        found = certificate("uml", rows, replay.properties())
        at_the_end = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert replay.failure is None
    assert pq.read_metadata(tmp_path / "link.parquet").num_rows >= 2 * VEHICLES * SECONDS
    assert found["checks"]
    assert while_played < MOST_BYTES
    assert at_the_end < 10 * MOST_BYTES


def test_a_disk_that_takes_no_more_ends_the_replay_and_loses_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "later"
    link: Any = Counting()
    pair = Condition(1e6), Condition(1e6)
    with LinkReplay(
        link, lambda _second: {1: pair, 2: pair}, time.time_ns() - 10**10, directory / "steps"
    ) as replay:
        end_s = time.monotonic() + 20
        while replay.failure is None:
            assert time.monotonic() < end_s
            time.sleep(0.01)
    assert isinstance(replay.failure, OSError)
    assert {row["second"] for row in in_dicts(replay.rows())} == set(range(replay.properties()["steps"]))
