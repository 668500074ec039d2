"""What of the twin needs neither Java nor Kafka."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ivsim.audit import figures
from ledger import admission, definitions
from ledger.applied import applied_to_all, first_containing
from ledger.config import LedgerConfig
from ledger.metrics import HOPS, LATENCIES, METRICS
from ledger.values import measured_ns
from ledger.window import read_window
from schemas.errors import Refusal
from schemas.formats import OWN_FORMATS
from twin import checkpoint, rehearsal
from twin.checkpoint_files import files_of
from twin.config import TwinConfig, read_twin_config

Stamped = list[tuple[tuple[int, int], int]]
STAMPED = st.lists(
    st.tuples(st.tuples(st.integers(0, 3), st.integers(1, 9)), st.integers(0, 30)), max_size=30
)


def table_of(rows: Stamped, vehicle: str) -> pa.Table:
    """Return messages or states of a vehicle as the ledger has them."""
    columns = zip(*((epoch, sequence, at) for (epoch, sequence), at in rows), strict=True)
    epochs, sequences, stamps = columns if rows else ((), (), ())
    names = pa.array([vehicle] * len(rows), pa.string())
    types = {"epoch": pa.int64(), "sequence": pa.int64(), "appended_at_ns": pa.int64()}
    found = zip(types.items(), (epochs, sequences, stamps), strict=True)
    return pa.table({"vehicle_id": names, **{name: pa.array(values, kind) for (name, kind), values in found}})


@given(messages=STAMPED, states=STAMPED, restarted=st.booleans())
def test_the_first_state_that_contains_a_message_is_the_definitions(
    messages: Stamped, states: Stamped, restarted: bool
) -> None:
    if not restarted:  # states of newer messages come later
        orders, stamps = sorted(order for order, _ in states), sorted(at for _, at in states)
        states = list(zip(orders, stamps, strict=True))
    expected = [
        min((at for order, at in states if order >= message and at >= appended), default=None)
        for message, appended in messages
    ]
    one, other = table_of(messages, "b"), table_of(states, "b")
    assert applied_to_all(one, other)["applied_at_ns"].to_pylist() == expected
    assert first_containing(messages, states) == expected
    strangers = [((3, 9), 30)]
    found = applied_to_all(
        pa.concat_tables([table_of(messages, "a"), one, table_of(messages, "c")]),
        pa.concat_tables([other, table_of(strangers, "c")]),
    )
    never, others = [None] * len(messages), [30] * len(messages)
    assert found["applied_at_ns"].to_pylist() == [*never, *expected, *others]


def test_metrics_have_unit_population_and_meaning() -> None:
    assert all(
        name == metric.name and metric.unit and metric.population and metric.meaning
        for name, metric in METRICS.items()
    )
    for name in ("due", "delivered", "late", "lost", "unsent", "duplicates", "delivery_ratio", "emission_lag_p99_ms",
                 "wire_bytes_uplink", "overhead_bytes_per_message", "goodput_bps", "twin_updates", "clock_drift_ms"):  # fmt: skip
        assert name in METRICS
    assert all(f"{name}_{q}_ms" in METRICS for name in LATENCIES for q in ("p50", "p95", "p99", "max"))
    assert all(f"lost_at_{hop}" in METRICS for hop in HOPS)


def test_source_knows_every_format() -> None:
    assert admission.FORMAT_NAMES == OWN_FORMATS


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"run_dir": "/nowhere", "bootstrap": "h:1"}', "run_dir: no directory /nowhere"),
        ('{"run_dir": ".", "bootstrap": "h:1", "tigger": 1}', "tigger: Extra inputs"),
        (
            '{"run_dir": ".", "bootstrap": "h:1", "trigger": "fast"}',
            "trigger: Input should be 'realtime' or 'microbatch'",
        ),
        (
            '{"run_dir": ".", "bootstrap": "h:1", "future_tolerance_s": -1}',
            "future_tolerance_s: Input should be greater than or equal to 0",
        ),
        ('{"run_dir": ".", "bootstrap": "h:1", "spark_master": "moon"}', "spark_master: expected local[N]"),
        ('{"run_dir": "."}', "bootstrap: HOST:PORT of Kafka is needed"),
        (
            '{"run_dir": ".", "bootstrap": "h:1", "spark_master": "spark://h:7077", "checkpoint_dir": "/twins"}',
            "checkpoint_dir /twins: executors of spark://h:7077 would keep the state on disks of their own",
        ),
        (
            '{"run_dir": ".", "bootstrap": "h:1", "spark_master": "yarn"}',
            "a URI that all of them reach is needed, such as s3a://BUCKET/PATH",
        ),
        (
            '{"run_dir": ".", "bootstrap": "h:1", "history": true}',
            "history: Input should be a valid string",
        ),
        (
            '{"run_dir": ".", "bootstrap": "h:1", "driver_host": "a b"}',
            "driver_host: expected name or address",
        ),
        ('{"run_dir"', "line 1: "),
    ],
)
def test_bad_configurations_are_refused_by_key(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "twin.json"
    path.write_text(content)
    with pytest.raises(Refusal) as refusal:
        read_twin_config(path)
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_an_empty_jar_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="holds no jar"):
        TwinConfig(run_dir=".", topology="echo", jars_dir=str(tmp_path)).jars()


@pytest.mark.parametrize(
    "changes",
    [
        {"trigger": "microbatch"},
        {"rehearse": False},
        {"spark_master": "spark://host:7077"},
        {"spark_master": "local[10]"},
        {"topic_partitions": 8},
    ],
)
def test_no_rehearsal_where_it_would_take_slots_or_no_boundary_comes(changes: dict[str, Any]) -> None:
    config = TwinConfig(run_dir=".", bootstrap="h:1", **changes)
    assert rehearsal.start(None, config) is None  # type: ignore[arg-type] - no session is asked for anything
    assert rehearsal.finish(None, None, config, lambda: None) == 0  # type: ignore[arg-type]


def test_window_ends_with_the_schedule_or_a_timeout_before_the_stop(tmp_path: Path) -> None:
    config = LedgerConfig(run_dir=str(tmp_path), topology="echo", loss_timeout_s=10.0)
    run = {"start_at_ns": 1_000, "warmup_s": 5.0, "stop_at_ns": 40_000_001_000, "end_at_ns": 20_000_001_000}
    (tmp_path / "run.json").write_text(json.dumps(run))
    partial: list[str] = []
    window = read_window(config, partial)
    assert (window.from_ns, window.to_ns, window.seconds) == (5_000_001_000, 20_000_001_000, 15.0)
    (tmp_path / "run.json").write_text(json.dumps(run | {"end_at_ns": None}))
    assert read_window(config, partial).to_ns == 30_000_001_000
    assert partial == []
    (tmp_path / "run.json").write_text(json.dumps({"start_at_ns": 1_000}))
    assert read_window(config, partial).seconds is None
    assert partial == ["run.json has neither stop_at_ns nor end_at_ns: the window has no end"]


def test_a_checkpoint_has_a_name_that_no_other_has(tmp_path: Path) -> None:
    names = set()
    for number in range(2):
        config = TwinConfig(
            run_dir=str(tmp_path), topology="echo", checkpoint_dir=str(tmp_path / str(number))
        )
        files = files_of(None, config.checkpoint)
        checkpoint.claim(config, files)
        assert checkpoint.claim(config, files) is True
        names.add(name := checkpoint.name_of(files))
        assert checkpoint.name_of(files) == name
    assert len(names) == 2


def test_a_checkpoint_serves_its_own_twin_again(tmp_path: Path) -> None:
    config = TwinConfig(run_dir=str(tmp_path), bootstrap="h:1")
    files = files_of(None, config.checkpoint)
    assert checkpoint.claim(config, files) is False
    assert checkpoint.claim(config, files) is True
    with pytest.raises(Refusal, match="made with trigger = 'realtime', this twin has 'microbatch'"):
        checkpoint.claim(config.model_copy(update={"trigger": "microbatch"}), files)


@given(
    rows=st.lists(st.tuples(st.none() | st.integers(-(2**40), 2**60), st.booleans()), max_size=40),
)
def test_quantiles_are_nearest_ranks_of_the_window(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int | None, bool]]
) -> None:
    path = tmp_path_factory.mktemp("ledger") / "ledger.parquet"
    columns = {column for column, _, _ in LATENCIES.values()} | {"emission_lag_ns"}
    values = pa.array([value for value, _ in rows], pa.int64())
    table = dict.fromkeys(sorted(columns), values)
    pq.write_table(
        pa.table(table | {"in_window": pa.array([inside for _, inside in rows], pa.bool_())}), path
    )
    found = definitions.quantiles(lambda column: measured_ns(path, column))
    measured = [value for value, inside in rows if inside and value is not None]
    for name in LATENCIES:
        for quantile, share in figures.HUNDREDTHS.items():
            value_ns = figures.nearest_rank(measured, share)
            known = value_ns is not None and value_ns >= 0
            assert found[f"{name}_{quantile}_ms"] == (value_ns / 1e6 if known else None)
    assert found["emission_lag_p99_ms"] == found["one_way_delay_p99_ms"]
