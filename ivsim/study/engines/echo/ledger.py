"""The ledger of an echo cell: a whole run's definitions (ledger/definitions.py), evaluated by DuckDB, without Spark."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ledger import definitions
from ledger.sql import listed, over_table

# What the definitions read of an emission log.
_READ: Final = (
    *("vehicle_id", "epoch", "sequence", "due_at_ns", "emitted_at_ns", "acknowledged_at_ns", "refused_at_ns"),
    *("received_at_ns", "payload_bytes", "unsent_reason", "buffered"),
)
# Stamps of an emission log that an echo cell's has not: no capture proves anything, and who refused does not matter.
_ABSENT: Final = {"reached_cloud_at_ns": pa.int64(), "held_back": pa.bool_(), "refused_by": pa.string()}


def cell_ledger(emissions: pa.Table, from_ns: int, to_ns: int, loss_timeout_s: float) -> pa.Table:
    """Return the messages due from `from_ns` (inclusive) to `to_ns` (exclusive), in the order of the table.

    Each row has its stamps, its fate, and its delays in ns; KeyError names a column that is missing. An echo
    cell stays until its last loss timeout is over, so that no fate is unknown.
    """
    due = emissions["due_at_ns"]
    table = emissions.select(_READ).filter(pc.and_(pc.greater_equal(due, from_ns), pc.less(due, to_ns)))
    for name, kind in _ABSENT.items():
        table = table.append_column(name, pa.nulls(table.num_rows, kind))
    return over_table(_LEDGER.format(fate=definitions.fate(round(loss_timeout_s * 1e9))), table)


def counts(ledger: pa.Table) -> dict[str, int]:
    """Return definitions.COUNTS of a cell's ledger."""
    (row,) = over_table(_COUNTS, ledger).to_pylist()
    return {name: int(value) for name, value in row.items()}


def quantiles(ledger: pa.Table) -> dict[str, Any]:
    """Return definitions.quantiles of a cell's ledger."""

    def column(name: str) -> npt.NDArray[np.int64]:
        return np.asarray(ledger[name].drop_null(), np.int64)

    return definitions.quantiles(column)


# One level for each definition that others name: stamps, fate, hop and delays. The text is all our own.
_LEDGER: Final = (
    f"select *, {definitions.HOP} as hop, {listed(definitions.DELAYS)}, true as in_window from "  # noqa: S608
    f"(select *, {{fate}} as fate from (select *, {listed(definitions.ECHO)} from rows))"
)
_COUNTS: Final = f"select {listed(definitions.COUNTS)} from rows"  # noqa: S608
