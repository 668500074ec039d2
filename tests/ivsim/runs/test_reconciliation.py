"""Live figures against ledger and link log: what the ledger does not know is not compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ivsim.runs.directory import RunDirectory
from ivsim.runs.reconciliation import agreement

LIVE = {"received": 2, "duplicates": 0, "emitted": 3, "wire_bytes_uplink": 50, "wire_bytes_downlink": 20}


def compared(path: Path, fates: list[str], live: dict[str, Any]) -> dict[str, Any]:
    """Compare one vehicle's live figures with a ledger of these fates, all emitted."""
    directory = RunDirectory(path)
    count = len(fates)
    ledger = {
        "vehicle_id": ["a"] * count,
        "copies": pa.array([1 if fate == "delivered" else None for fate in fates], pa.int64()),
        "emitted_at_ns": list(range(count)),
        "fate": fates,
    }
    pq.write_table(pa.table(ledger), directory.ledger)
    link = {"vehicle_id": ["a", "a"], "direction": ["uplink", "downlink"], "wire_bytes": [50, 20]}
    pq.write_table(pa.table(link), directory.link)
    return agreement(directory, {}, {"a": live})


def test_the_same_counts_agree_and_one_that_differs_is_named(tmp_path: Path) -> None:
    fates = ["delivered", "delivered", "lost"]
    assert compared(tmp_path, fates, LIVE) == {"verdict": "agree", "counts_compared": 5, "differences": []}
    found = compared(tmp_path, fates, LIVE | {"received": 3})
    assert found["verdict"] == "differ"
    assert found["differences"] == [{"vehicle_id": "a", "figure": "received", "live": 3, "ledger": 2}]


def test_a_vehicle_with_an_unknown_fate_is_compared_in_what_is_known(tmp_path: Path) -> None:
    fates = ["delivered", "unknown", "unknown"]
    assert compared(tmp_path, fates, LIVE)["counts_compared"] == 3
    assert compared(tmp_path, fates, LIVE)["verdict"] == "agree"
    assert compared(tmp_path, fates, LIVE | {"emitted": 4})["verdict"] == "differ"
