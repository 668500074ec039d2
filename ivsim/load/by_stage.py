"""What each stage of a load test came to, from the ledger; it measures nothing."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ivsim.options import RunOptions
from ivsim.share import share_of
from schemas.quantiles import nearest_rank_ms

_COLUMNS = ["due_at_ns", "fate", "emitted_at_ns", "emission_lag_ns", "end_to_end_latency_ns"]


class StageFigures(NamedTuple):
    """One stage; its messages are those due in it, whenever they arrived. None is not measured.

    Attributes:
        begin_vehicles, end_vehicles: how many sent.
        offered_per_s, emitted_per_s, delivered_per_s: messages due, emitted and delivered, over the stage's length.
        delivery_ratio: delivered / due; None while the fate of one is unknown.
        emission_lag_p99_ms, end_to_end_latency_p50_ms, end_to_end_latency_p99_ms: nearest ranks.
    """

    duration_s: float
    begin_vehicles: int
    end_vehicles: int
    due: int
    offered_per_s: float
    emitted_per_s: float
    delivered_per_s: float | None
    delivery_ratio: float | None
    emission_lag_p99_ms: float | None
    end_to_end_latency_p50_ms: float | None
    end_to_end_latency_p99_ms: float | None


def stage_figures(ledger: Path, options: RunOptions, start_at_ns: int) -> list[StageFigures]:
    """Return the figures of each stage in order; a run without stages is one stage. Empty without a ledger."""
    if not ledger.is_file():
        return []
    rows = pq.read_table(ledger, columns=_COLUMNS)
    begin_ns = start_at_ns
    found = []
    for length_s, begin, end in options.stages or ((options.duration_s, options.vehicles, options.vehicles),):
        end_ns = begin_ns + round(length_s * 1e9)
        due = rows["due_at_ns"]
        own = rows.filter(pc.and_(pc.greater_equal(due, begin_ns), pc.less(due, end_ns)))
        found.append(_of(own, length_s, _sending(options, begin), _sending(options, end)))
        begin_ns = end_ns
    return found


def _sending(options: RunOptions, vehicles: int) -> int:
    """Return for how many the run sends where so many of the fleet do: all of them, or those of its share."""
    return vehicles if options.share is None else len(share_of(options.share).vehicles(vehicles))


def _of(rows: pa.Table, length_s: float, begin: int, end: int) -> StageFigures:
    fates = {one["values"]: one["counts"] for one in rows["fate"].value_counts().to_pylist()}
    known = "unknown" not in fates
    delivered = fates.get("delivered", 0) if known else None
    arrived = rows.filter(pc.equal(rows["fate"], "delivered"))
    latencies_ns = _sorted(arrived["end_to_end_latency_ns"] if known else rows["end_to_end_latency_ns"][:0])
    emitted = len(rows) - rows["emitted_at_ns"].null_count
    return StageFigures(
        duration_s=length_s,
        begin_vehicles=begin,
        end_vehicles=end,
        due=len(rows),
        offered_per_s=len(rows) / length_s,
        emitted_per_s=emitted / length_s,
        delivered_per_s=None if delivered is None else delivered / length_s,
        delivery_ratio=delivered / len(rows) if delivered is not None and len(rows) else None,
        emission_lag_p99_ms=nearest_rank_ms(_sorted(rows["emission_lag_ns"]), 0.99),
        end_to_end_latency_p50_ms=nearest_rank_ms(latencies_ns, 0.5),
        end_to_end_latency_p99_ms=nearest_rank_ms(latencies_ns, 0.99),
    )


def _sorted(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    return np.sort(column.drop_null().to_numpy())
