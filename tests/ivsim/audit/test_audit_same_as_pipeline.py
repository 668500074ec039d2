"""Audit and pipeline, which share no code, come to the same on logs that no run would be glad of.

The ledger and its figures are in tests/ledger/test_build_and_audit.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateways.receive_log import ReceiveLog
from gateways.receive_log import to_table as received_table
from ivsim.audit import capture_proof, certificate, figures, kafka_records, logs, tables
from ivsim.audit.due import Key, due_of, vehicle_name
from ivsim.audit.ledger import Ledger
from ivsim.audit.page import as_read, unit_of
from ivsim.audit.result import Terms
from ivsim.report.style import number
from ivsim.runs import capture_join
from ivsim.runs.capture_join import with_proof
from ivsim.runs.directory import RunDirectory
from ivsim.runs.link_log import SCHEMA as LINK_SCHEMA
from ivsim.runs.link_log import link_table
from ivsim.runs.reconciliation import agreement
from ivsim.runs.validity import judge, sender_lag_p99_ms
from ivsim.study.engines.echo.metrics import echo_figures, measured
from ivsim.study.statistics import nearest_rank
from ledger.applied import first_containing
from ledger.metrics import METRICS
from schemas.topics import vehicle_id
from simulator.capture.byte_totals import LAYERS, PURPOSES
from simulator.capture.counting import COUNTS, RECORD
from simulator.capture.second_log import MAGIC
from simulator.capture.second_log import to_table as wire_table
from simulator.emission_log import EmissionLog, Kind, Reason
from simulator.emission_table import connections, largest_backlog, read_events, to_table
from simulator.fleet import schedule
from simulator.links.proof.certificate import certificate as fidelity
from simulator.scenario import Scenario
from tests.ivsim.audit import whole
from tests.ivsim.audit.made_up_result import BROKERS
from tests.ivsim.audit.whole import live_agreement, message_figures, played

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND


def terms(**other: Any) -> Terms:
    known: dict[str, Any] = {
        "end": "receiver", "start_at_ns": START, "vehicles": 3, "seed": 5, "interval_ns": SECOND,
        "duration_ns": 4 * SECOND, "loss_timeout_ns": 2 * SECOND, "future_tolerance_ns": 5 * SECOND, "warmup_s": 0.0,
    }  # fmt: skip
    return Terms(**known | other)


@given(
    vehicles=st.integers(1, 30),
    seed=st.integers(0, 2**63 - 1),
    interval_s=st.sampled_from((0.01, 0.3, 1.0, 2.5, 60.0)),
    duration_s=st.sampled_from((0.009, 1.0, 7.25)),
)
def test_what_was_due(vehicles: int, seed: int, interval_s: float, duration_s: float) -> None:
    scenario = Scenario(vehicles=vehicles, seed=seed, interval_s=interval_s, duration_s=duration_s)
    asked = terms(
        vehicles=vehicles, seed=seed, interval_ns=round(interval_s * 1e9), duration_ns=round(duration_s * 1e9)
    )
    assert due_of(asked) == {
        Key(vehicle_id(due.vehicle), due.epoch, due.sequence): START + due.due_offset_ns
        for due in schedule(scenario)
    }


# Any step at any time: stamps repeat, go backwards (the clock was set), and name messages that were never due.
EVENTS = st.lists(
    st.fixed_dictionaries(
        {
            "kind": st.sampled_from([kind for kind in Kind if kind is not Kind.WORDS]),
            "vehicle": st.integers(1, 4),
            "at_ns": st.integers(START - SECOND, START + 9 * SECOND),
            "epoch": st.sampled_from((1, 1, 1, 2)),
            "sequence": st.integers(0, 6),
            "size": st.integers(0, 400),
            "reason": st.sampled_from([int(reason) for reason in Reason]),
            "words": st.sampled_from(("", "5.03", "quota exceeded", "ü" * 60)),
        }
    ),
    max_size=80,
)


def logged(directory: Path, events: Sequence[dict[str, Any]]) -> Path:
    path = directory / "emissions.events"
    log = EmissionLog(path)
    for event in events:
        log.note(**event)
    log.close()
    return path


@given(events=EVENTS, torn=st.integers(0, 31))
def test_emissions_connections_and_backlog(events: list[dict[str, Any]], torn: int) -> None:
    scenario = Scenario(vehicles=3, duration_s=4.0, seed=5)
    with TemporaryDirectory() as directory:
        path = logged(Path(directory), events)
        with path.open("ab") as file:
            file.write(b"\1" * torn)
        read = logs.read_events(path)
        rows = tables.emission_rows(due_of(terms()), read, logs.read_words(path), BROKERS)
        said = to_table(path, scenario, START).to_pylist()
        assert sorted(said, key=str) == sorted(
            ({name: row[name] for name in said[0]} for row in rows), key=str
        )
        assert connections(path).to_pylist() == tables.connection_rows(read)
        assert largest_backlog(path) == tables.largest_backlog(read)


WIRE_TYPES = {
    "vehicle_id": pa.string(),
    "connection": pa.int32(),
    "order": pa.int32(),
    "first_sent_at_ns": pa.int64(),
    "payload_bytes_uplink": pa.int64(),
    "reached_cloud_at_ns": pa.int64(),
}
PURPOSE_TYPES = dict.fromkeys(("vehicle_id", "direction", "purpose", "layer"), pa.string())
OPENED = ("uplink", "connection", "protocol")


def proofs(
    events: list[dict[str, Any]], wire: list[tuple[Any, ...]], purposes: list[tuple[Any, ...]]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the rows of pipeline and audit, of messages on the wire and of purposes whose bytes the capture has seen."""
    rows = [dict(zip(WIRE_TYPES, (vehicle_id(one[0]), *one[1:]), strict=True)) for one in wire]
    spent = [dict(zip(PURPOSE_TYPES, (vehicle_id(one[0]), *one[1:]), strict=True)) for one in purposes]
    captured = pa.Table.from_pylist(rows, pa.schema(list(WIRE_TYPES.items())))
    categories = pa.Table.from_pylist(spent, pa.schema(list(PURPOSE_TYPES.items())))
    with TemporaryDirectory() as directory:
        path = logged(Path(directory), events)
        emissions = to_table(path, Scenario(vehicles=3, duration_s=4.0, seed=5), START)
        said = with_proof(emissions, read_events(path), captured, categories)
        read = logs.read_events(path)
        due = tables.emission_rows(due_of(terms()), read, logs.read_words(path), BROKERS)
    found = [
        {name: row[name] for name in said.column_names}
        for row in capture_proof.proven(due, read, rows, spent)
    ]
    order = lambda row: (row["vehicle_id"], row["sequence"])  # noqa: E731
    return sorted(said.to_pylist(), key=order), sorted(found, key=order)


@given(
    events=EVENTS,
    wire=st.lists(
        st.tuples(
            st.integers(1, 4),
            st.integers(0, 2),
            st.integers(0, 5),
            st.none() | st.integers(START - SECOND, START + 9 * SECOND),
            st.integers(0, 400),
            st.none() | st.integers(START, START + 9 * SECOND),
        ),
        max_size=20,
        unique_by=lambda row: row[:3],
    ),
    purposes=st.lists(
        st.tuples(
            st.integers(1, 4),
            st.sampled_from(("uplink", "downlink")),
            st.sampled_from(PURPOSES),
            st.sampled_from(LAYERS),
        ),
        max_size=6,
    ),
    opened=st.sets(st.integers(1, 4)),
    fitting=st.booleans(),
)
def test_what_the_capture_proves(
    events: list[dict[str, Any]],
    wire: list[tuple[Any, ...]],
    purposes: list[tuple[Any, ...]],
    opened: set[int],
    fitting: bool,
) -> None:
    if fitting:  # of one size, first the connections, then what was sent, so that rows join
        events = sorted(
            (e | {"size": 7} for e in events), key=lambda e: (e["kind"] != Kind.CONNECTED, e["at_ns"])
        )
        wire = [(v, c, o, START + 10 * SECOND, 7 if s % 4 else s % 7, r) for v, c, o, _, s, r in wire]
    said, found = proofs(events, wire, purposes + [(vehicle, *OPENED) for vehicle in opened])
    assert said == found


@given(
    steps=st.lists(
        st.tuples(
            st.integers(1, 2), st.sampled_from("cceeeer"), st.integers(1, 3), st.sampled_from((7, 7, 9))
        ),
        min_size=4,
        max_size=16,
    ),
    wire=st.lists(
        st.tuples(
            st.integers(1, 2),
            st.integers(0, 2),
            st.integers(0, 2),
            st.none() | st.integers(-1, 17),
            st.sampled_from((7, 7, 5)),
        ),
        max_size=4,
        unique_by=lambda row: row[:3],
    ),
    obscure=st.lists(
        st.tuples(st.integers(1, 2), st.sampled_from(PURPOSES), st.sampled_from(LAYERS)), max_size=2
    ),
    opened=st.sets(st.integers(1, 2)),
)
def test_what_the_capture_proves_of_few_connections(
    steps: list[tuple[Any, ...]],
    wire: list[tuple[Any, ...]],
    obscure: list[tuple[Any, ...]],
    opened: set[int],
) -> None:
    """What vehicles do is in order here, and much of it joins: connect, emit, learn that it could not be sent."""
    kinds = {"c": Kind.CONNECTED, "e": Kind.EMITTED, "r": Kind.REFUSED}
    events = [
        {"kind": kinds[kind], "vehicle": vehicle, "at_ns": START + 10 * number, "epoch": 1, "sequence": sequence,
         "size": size, "reason": Reason.BEYOND_PEERS_LIMIT}
        for number, (vehicle, kind, sequence, size) in enumerate(steps)
    ]  # fmt: skip
    seen = [(v, c, o, None if at is None else START + 10 * at + 5, s, START) for v, c, o, at, s in wire]
    cells = [(vehicle, *OPENED) for vehicle in opened]
    said, found = proofs(events, seen, cells + [(vehicle, "uplink", *cell) for vehicle, *cell in obscure])
    assert said == found


def two_connections(kind_of_second: str = "connection") -> tuple[list[dict[str, Any]], list[Any], list[Any]]:
    """Return what a vehicle did, and what was captured: its first connection published, its second one did not."""
    events = []
    for sequence in (1, 2):
        events.append({"kind": Kind.CONNECTED, "vehicle": 1, "at_ns": START + sequence * SECOND})
        named = {"vehicle": 1, "epoch": 1, "sequence": sequence, "size": 100}
        events.append({"kind": Kind.EMITTED, "at_ns": START + sequence * SECOND + 1_000, **named})
    wire = [(1, 0, 0, START + SECOND + 2_000, 100, START + SECOND + 3_000)]
    return events, wire, [(1, *OPENED), (1, "uplink", kind_of_second, "protocol")]


def held_back(rows: list[dict[str, Any]]) -> list[int]:
    return [row["sequence"] for row in rows if row["vehicle_id"] == vehicle_id(1) and row["held_back"]]


@pytest.mark.parametrize(("kind_of_second", "held"), [("connection", [2]), ("handshake", []), ("opaque", [])])
def test_a_connection_without_a_publish(kind_of_second: str, held: list[int]) -> None:
    said, found = proofs(*two_connections(kind_of_second))
    assert held_back(found) == held
    assert said == found


def test_a_stream_that_left_late_may_be_of_the_connection_without_a_publish() -> None:
    """Both streams of the capture begin to publish while the second connection is up."""
    events, _, purposes = two_connections()
    wire = [(1, number, 0, START + 2 * SECOND + 2_000 + number, 100, None) for number in (0, 1)]
    said, found = proofs(events, wire, purposes)
    assert held_back(found) == []
    assert said == found


def test_a_publish_that_does_not_fit_may_be_of_the_connection_without_one() -> None:
    events, _, purposes = two_connections()
    events[1]["size"] = 200
    said, found = proofs(events, [(1, 0, 0, START + 2 * SECOND + 2_000, 200, None)], purposes)
    assert held_back(found) == []
    assert said == found


@pytest.mark.parametrize(
    ("name", "broken", "kind_of_second"),
    [
        ("_silent", lambda given, *_: np.zeros(len(given.connected_at_ns), np.bool_), "connection"),
        ("_silent", lambda given, *_: np.ones(len(given.connected_at_ns), np.bool_), "connection"),
        ("_read", lambda given, _: np.ones(len(given.names), np.bool_), "handshake"),
    ],
    ids=["says link", "takes every connection for one without", "takes TLS for silence"],
)
def test_a_pipeline_that_is_wrong_about_it_is_found_out(
    monkeypatch: pytest.MonkeyPatch, name: str, broken: Any, kind_of_second: str
) -> None:
    case = two_connections(kind_of_second)
    said, found = proofs(*case)
    assert said == found
    monkeypatch.setattr(capture_join, name, broken)
    said, found = proofs(*case)
    assert held_back(said) != held_back(found)


@given(
    taken=st.lists(
        st.tuples(st.integers(1, 4), st.integers(0, 2**31 - 1), st.integers(-1, 2**60), st.integers(1, 2**62)),
        max_size=30,
    ),
    torn=st.integers(0, 51),
)  # fmt: skip
def test_what_gateways_took(taken: list[tuple[int, int, int, int]], torn: int) -> None:
    with TemporaryDirectory() as directory:
        path = Path(directory) / "received-0.events"
        log = ReceiveLog(path)
        for vehicle, *rest in taken:
            log.append(vehicle_id(vehicle).encode(), *rest)
        log.close()
        with path.open("ab") as file:
            file.write(b"\1" * torn)
        assert received_table(path).to_pylist() == list(tables.received_rows(logs.read_taken(path)))


CELLS = st.lists(
    st.tuples(st.integers(-1, 4), st.integers(0, 3), st.integers(0, 2), st.integers(0, 10**9)), max_size=40
)


@given(
    cells=CELLS,
    asked=st.lists(
        st.tuples(st.integers(0, 4), st.integers(1, 3), st.sampled_from(("uplink", "downlink"))),
        unique=True,
        max_size=20,
    ),
    captured=st.booleans(),
)
def test_what_the_capture_counted(
    cells: list[tuple[int, int, int, int]], asked: list[tuple[int, int, str]], captured: bool
) -> None:
    records = np.zeros(len(cells), RECORD)
    for record, (second, vehicle, way, count) in zip(records, cells, strict=True):
        record["second"], record["vehicle"], record["direction"] = second, vehicle, way
        record["counts"] = np.arange(len(COUNTS)) + count
    rows = [
        dict.fromkeys(LINK_SCHEMA.names) | {"second": s, "vehicle_id": vehicle_id(v), "direction": way}
        for s, v, way in asked
    ]
    with TemporaryDirectory() as directory:
        path = Path(directory) / "wire.events"
        if captured:
            path.write_bytes(MAGIC + records.tobytes() + b"\1" * 5)
            assert by_text(wire_table(path).to_pylist()) == by_text(
                tables.wire_rows(logs.read_wire(path) or {})
            )
        said = link_table([pa.Table.from_pylist(rows, schema=LINK_SCHEMA)], path).to_pylist()
        found = tables.link_wire(rows, logs.read_wire(path))
    kept = ("second", "vehicle_id", "direction", *tables.WIRE_COLUMNS)
    assert by_text([{name: row[name] for name in kept} for row in said]) == by_text(found)


def by_text(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=str)


ORDERS = st.tuples(st.integers(0, 3), st.integers(1, 8))


@given(
    states=st.lists(st.tuples(ORDERS, st.integers(0, 30)), max_size=30),
    messages=st.lists(st.tuples(ORDERS, st.integers(0, 30)), max_size=30),
)
def test_when_the_twin_contained_a_message(
    states: list[tuple[Any, int]], messages: list[tuple[Any, int]]
) -> None:
    applied = kafka_records.Applied(states)
    assert first_containing(messages, states) == [applied.first(order, at) for order, at in messages]


@given(
    values=st.lists(st.integers(-(10**12), 10**12), max_size=400), share=st.sampled_from((50, 95, 99, 100))
)
def test_a_percentile_is_the_nearest_rank(values: list[int], share: int) -> None:
    found = figures.nearest_rank(values, share)
    assert found == nearest_rank(values, share / 100)
    if found is not None:
        assert found in values
        assert sum(value <= found for value in values) * 100 >= share * len(values)
        below = [value for value in values if value < found]
        assert len(below) * 100 < share * len(values)


def test_the_rank_is_the_same_for_every_number_of_values() -> None:
    """A share is no binary fraction: 0.99 x n must not come out just above a whole number."""
    counts = np.arange(1, 7_000_000)
    for hundredths in (50, 95, 99, 100):
        assert np.array_equal(np.ceil(hundredths / 100 * counts), -(-hundredths * counts // 100)), hundredths


@given(events=EVENTS, from_s=st.integers(-1, 3), length_s=st.integers(0, 6))
def test_echo_cells(events: list[dict[str, Any]], from_s: int, length_s: int) -> None:
    window = START + from_s * SECOND, START + (from_s + length_s) * SECOND
    with TemporaryDirectory() as directory:
        path = logged(Path(directory), events)
        emissions = to_table(path, Scenario(vehicles=3, duration_s=4.0, seed=5), START)
        read = logs.read_events(path)
    said = echo_figures(measured(emissions, 1, *window, 2.0))
    due = [
        row
        for row in tables.emission_rows(due_of(terms()), read, {}, BROKERS)
        # What came before it was sent is an earlier session's: when its own came is not known.
        if row["received_at_ns"] is None
        or row["emitted_at_ns"] is None
        or row["received_at_ns"] >= row["emitted_at_ns"]
    ]
    rows = Ledger({}, kafka_records.Kafka(), terms(), window).rows(due)
    found = message_figures(rows, window, kafka=False)
    assert found["due"] == sum(found[fate] for fate in figures.FATES)
    compared = [name for name in said if name in found]
    assert len(compared) >= 15
    for name in compared:
        assert same(said[name], found[name]), (name, said[name], found[name])


def same(said: float | None, found: float | None) -> bool:
    if said is None or found is None:
        return said is found
    return abs(said - found) <= 1e-9 * max(1.0, abs(found))


LEDGER = st.lists(
    st.fixed_dictionaries(
        {
            "vehicle_id": st.integers(1, 3).map(vehicle_name),
            "copies": st.none() | st.integers(1, 3),
            "emitted_at_ns": st.none() | st.integers(1, 9),
            "fate": st.sampled_from((*figures.FATES, "delivered", "delivered")),
            "emission_lag_ns": st.none() | st.integers(-(10**9), 3 * 10**9),
            "buffered": st.booleans(),
        }
    ),
    max_size=20,
)


@given(
    rows=LEDGER,
    link=st.lists(
        st.tuples(st.integers(1, 3), st.sampled_from(("uplink", "downlink")), st.none() | st.integers(0, 99)),
        max_size=10,
    ),
    live=st.dictionaries(
        st.integers(1, 4).map(vehicle_name),
        st.dictionaries(st.sampled_from(certificate.LIVE_COUNTS), st.none() | st.integers(0, 9)),
    ),
)
def test_live_figures_and_the_senders_own_lag(
    rows: list[dict[str, Any]], link: list[tuple[int, str, int | None]], live: dict[str, Any]
) -> None:
    wire = [{"vehicle_id": vehicle_id(v), "direction": way, "wire_bytes": b} for v, way, b in link]
    types = pa.schema(
        [("vehicle_id", pa.string()), ("copies", pa.int64()), ("emitted_at_ns", pa.int64()), ("fate", pa.string()),
         ("emission_lag_ns", pa.int64()), ("buffered", pa.bool_())]
    )  # fmt: skip
    link_types = pa.schema(
        [("vehicle_id", pa.string()), ("direction", pa.string()), ("wire_bytes", pa.int64())]
    )
    with TemporaryDirectory() as name:
        directory = RunDirectory(Path(name))
        pq.write_table(pa.Table.from_pylist(rows, types), directory.ledger)
        pq.write_table(pa.Table.from_pylist(wire, link_types), directory.link)
        said = agreement(directory, {}, live)
        lag = sender_lag_p99_ms(directory.ledger)
    assert said == live_agreement({"vehicles": live}, rows, wire)
    assert lag == whole.sender_lag_p99_ms(rows)


CHECKS = st.lists(
    st.fixed_dictionaries(
        {
            "parameter": st.sampled_from((certificate.CHANGES, "loss", "delay")),
            "direction": st.sampled_from(("uplink", "downlink")),
            "verdict": st.sampled_from(("pass", "off", "unproven")),
            "achieved_value": st.none() | st.floats(0, 5_000),
            "achieved": st.just("some"),
        }
    ),
    max_size=4,
)


@given(
    partial=st.booleans(),
    unknown=st.integers(0, 1),
    checks=CHECKS,
    live=st.sampled_from((None, "agree", "differ", "not read to its end")),
    lag=st.none() | st.floats(0, 3_000),
    drift=st.none() | st.floats(-3, 3),
    drops=st.none() | st.integers(0, 2),
)
def test_validity(
    partial: bool,
    unknown: int,
    checks: list[dict[str, Any]],
    live: str | None,
    lag: float | None,
    drift: float | None,
    drops: int | None,
) -> None:
    verdicts = [check["verdict"] for check in checks]
    verdict = "off" if "off" in verdicts else "pass"
    metrics = {
        "partial": partial,
        "partial_reason": None,
        "unknown": unknown,
        "due": 5,
        "clock_drift_ms": drift,
        "certificate": {"verdict": verdict, "checks": checks},
        "live": {"verdict": live} if live else {},
    }
    said = judge(metrics, sender_lag_p99_ms=lag, capture_drops=drops)
    assert (said.verdict, [cause.name for cause in said.causes]) == certificate.validity(metrics, lag, drops)


@given(
    seed=st.integers(0, 2**32),
    vehicles=st.integers(1, 3),
    seconds=st.integers(0, 6),
    counted=st.booleans(),
    late=st.integers(0, 3 * 10**8),
)
def test_certificate_and_replay(seed: int, vehicles: int, seconds: int, counted: bool, late: int) -> None:
    random = Random(seed)
    rows = [
        {"second": second, "vehicle_id": vehicle_id(vehicle), "direction": way,
         "asked_rate_bps": random.choice((None, 0.0, 1e5, 3e6)), "asked_delay_ms": random.choice((0.0, 20.5)),
         "asked_loss_ratio": random.choice((0.0, 0.013, 0.3)), "asked_jitter_ms": 0.0, "asked_reorder_ratio": 0.0,
         "asked_burst_packets": 1.0, "applied_at_ns": START + second * SECOND + random.randrange(late + 1),
         "update_ms": random.random(), "counted_at_ns": START + (second + 1) * SECOND,
         "qdisc_bytes": random.randrange(10**5) if counted else None,
         "qdisc_packets": random.randrange(90) if counted else None, "drops": random.randint(3, 9) if counted else None,
         "queue_drops": random.randrange(4) if counted else None, "backlog_bytes": 0 if counted else None,
         "probe_sent": 1, "probe_received": 1, "probe_delay_ms": random.uniform(0, 90), "probe_bytes": 48}
        for second in range(seconds) for vehicle in range(1, vehicles + 1) for way in ("uplink", "downlink")
    ]  # fmt: skip
    of_log = played(rows, START)
    replay = of_log.replay()
    assert replay["steps"] == seconds
    assert replay["applied_late_max_ms"] <= late / 1e6 + 0.001
    said = fidelity("netem", [pa.Table.from_pylist(rows, schema=LINK_SCHEMA)], replay | {"failure": None})
    found = of_log.certified(said)
    assert certificate.said_of(said, list(found)) == found
    assert {"verdict", "probe_bytes_uplink"} <= set(found)
    if seconds and counted:
        assert {"loss uplink kernel", "loss downlink asked_value", "change each second verdict"} <= set(found)


@given(
    value=st.none() | st.integers(-(10**12), 10**12) | st.floats(-1e9, 1e12),
    name=st.sampled_from(sorted(METRICS)),
)
def test_how_the_report_prints_a_figure(value: float | None, name: str) -> None:
    unit = METRICS[name].unit
    assert unit_of(name) == ("" if unit == "1" else unit)
    assert as_read(value, unit_of(name)) == number(value, unit)


def test_the_binary_layouts_are_those_of_the_logs() -> None:
    assert logs.WIRE_COUNTS == COUNTS
    assert tuple(reason.name.lower() for reason in Reason) == logs.REASONS
    kinds = {kind.name: kind.value for kind in Kind if hasattr(logs, kind.name)}
    assert {name: getattr(logs, name) for name in kinds} == kinds
    assert len(kinds) == len(Kind)
