"""Results that were cut short, changed by hand or made by an older ivsim are refused by the file's name, and stay."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ivsim.runs.checksums import write_checksums
from ivsim.runs.directory import RunDirectory
from ivsim.study.cells import Cell
from ivsim.study.engines.codec.observations import CodecObservations
from ivsim.study.engines.whole_run.age_of_information import mean_age
from ivsim.study.engines.whole_run.observations import LedgerObservations
from ivsim.study.report import write_report
from ivsim.study.store import Store
from schemas.errors import Refusal

Make = Callable[..., Any]
WHERE = "cells/mode=mqtt-qos0_loss=0.0/2"


def halved(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def edited(path: Path) -> None:
    text = path.read_text()
    changed = text.replace("0", "1", 1)
    assert changed != text
    path.write_text(changed)


def without_a_column(path: Path) -> None:
    pq.write_table(pq.read_table(path).drop_columns(["received_at_ns"]), path)


def state_of(directory: Path) -> dict[str, str]:
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize(
    ("file", "damage", "why"),
    [
        (f"{WHERE}/emissions.parquet", halved, "no whole Parquet file"),
        (f"{WHERE}/emissions.parquet", emptied, "no whole Parquet file"),
        (f"{WHERE}/emissions.parquet", Path.unlink, "missing; its repetition has to be measured again"),
        (f"{WHERE}/emissions.parquet", without_a_column, "received_at_ns"),
        (f"{WHERE}/wire_messages.parquet", halved, "no whole Parquet file"),
        (f"{WHERE}/run.json", edited, "changed since it was written"),
        (f"{WHERE}/run.json", emptied, "no JSON"),
        (f"{WHERE}/state.json", edited, "changed since it was written"),
        (f"{WHERE}/state.json", halved, "no JSON"),
        ("study.json", edited, "changed since it was written"),
    ],
)
def test_a_damaged_result_is_refused_by_name_and_left_as_it_is(
    made_store: Make, tmp_path: Path, file: str, damage: Callable[[Path], None], why: str
):
    store, _ = made_store("a", lambda _cell: 100.0)
    damage(store.path / file)
    before = state_of(tmp_path)
    with pytest.raises(Refusal, match=why) as refused:
        write_report(Store.open(store.path), store.path)
    assert str(store.path / file) in str(refused.value)
    assert state_of(tmp_path) == before


def ledger(path: Path, rows: int = 400) -> None:
    """Write a ledger of ten vehicles."""
    rng = np.random.default_rng(1)
    delay = pa.array((rng.gamma(4, 5e6, rows)).astype(np.int64))
    pq.write_table(
        pa.table(
            {
                "vehicle_id": [f"vehicle-{k % 10:06d}" for k in range(rows)],
                "in_window": [True] * rows,
                "fate": ["delivered" if k % 20 else "lost" for k in range(rows)],
                "due_at_ns": list(range(rows)),
                "applied_at_ns": [k + 5_000_000 for k in range(rows)],
                **{
                    f"{name}_ns": delay
                    for name in (
                        *("one_way_delay", "bridge_delay", "processing_delay"),
                        *("end_to_end_latency", "acknowledgement_time"),
                    )
                },
            }
        ),
        path / "ledger.parquet",
    )
    write_checksums(RunDirectory(path))


def runs(tmp_path: Path) -> list[Path]:
    found = [tmp_path / str(k) for k in range(3)]
    for path in found:
        path.mkdir()
        ledger(path)
    return found


def test_a_ledgers_figures_are_of_vehicles_within_repetitions(tmp_path: Path):
    found = LedgerObservations(runs(tmp_path))
    ratio, median = found.interval("delivery_ratio"), found.interval("one_way_delay_p50_ms")
    assert (ratio.estimate, ratio.unit, ratio.units, ratio.repetitions) == (0.95, "vehicle", 30, 3)
    assert ratio.low < 0.95 < ratio.high
    assert median.low < median.estimate < median.high
    assert found.interval("one_way_delay_max_ms") is None


def test_a_ledger_cut_short_is_refused_by_name(tmp_path: Path):
    paths = runs(tmp_path)
    halved(paths[1] / "ledger.parquet")
    with pytest.raises(Refusal, match=r"1/ledger\.parquet: changed since the run wrote it"):
        LedgerObservations(paths).interval("delivery_ratio")
    write_checksums(RunDirectory(paths[1]))
    with pytest.raises(Refusal, match=r"1/ledger\.parquet: no whole Parquet file"):
        LedgerObservations(paths).interval("delivery_ratio")


def test_a_manifest_that_is_none_is_refused_by_name(tmp_path: Path):
    (tmp_path / "manifest.json").write_text('{"start_at_ns": "yesterday"}')
    ledger(tmp_path)
    with pytest.raises(Refusal, match=r"manifest\.json: start_at_ns 'yesterday'"):
        mean_age(tmp_path)


def test_times_of_an_older_version_are_refused_by_name(tmp_path: Path):
    table = pa.table({"variant": ["stub"], "operation": ["encode"], "time_us": [1.0]})
    pq.write_table(table, tmp_path / "times.parquet")
    found = CodecObservations(Cell("c", "", {}, None), [tmp_path])
    with pytest.raises(Refusal, match=r"times\.parquet: no column vehicle: made by an older ivsim"):
        found.interval("encode_us")
