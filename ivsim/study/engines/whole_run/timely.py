"""Messages that are in the twin in time, and what each costs on the link, of one run; pure but for reading its ledger."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.compute as pc

from ivsim.runs.directory import RunDirectory
from ivsim.study.sealed import read_table
from ledger.metrics import DIRECTIONS, Metric

TIMELY_METRICS: Final[dict[str, Metric]] = {
    metric.name: metric
    for metric in (
        Metric("timely_ratio", "ratio", "due in the window", "in the twin within batch_limit_ms of due"),
        Metric(
            "link_bytes_per_timely_message",
            "B",
            "due after the warm-up, in the twin within batch_limit_ms of due",
            "wire bytes of both directions / such messages",
        ),
    )
}


def timely_figures(directory: Path, metrics: Mapping[str, Any], limit_ms: float) -> dict[str, float]:
    """Return those of TIMELY_METRICS that are known.

    None is where a message's fate is not known or nothing was due; bytes a message need the link's bytes, too, and a message.

    Args:
        directory: of the run.
        metrics: of the run: what was captured on its link, and where its window begins.
        limit_ms: of the time from due until the twin has the message.
    """
    path = RunDirectory(directory).ledger
    if not path.is_file():
        return {}
    table = read_table(path, ["due_at_ns", "fate", "in_window", "end_to_end_latency_ns"])
    unknown = np.asarray(pc.equal(table.column("fate"), "unknown"), np.bool_)
    # What never came to the twin has no latency.
    latency_ns = np.asarray(table.column("end_to_end_latency_ns").fill_null(-1)).astype(np.int64)
    timely = (latency_ns >= 0) & (latency_ns <= limit_ms * 1e6)
    inside = np.asarray(table.column("in_window"), np.bool_)
    found: dict[str, float] = {}
    if inside.any() and not unknown[inside].any():
        found["timely_ratio"] = float(timely[inside].mean())
    # The link's bytes are those from the end of the warm-up on, where the window begins.
    due = np.asarray(table.column("due_at_ns")).astype(np.int64)
    after = due >= due[inside].min(initial=np.iinfo(np.int64).max)
    carried = [metrics.get(f"wire_bytes_{way}") for way in DIRECTIONS]
    if None not in carried and timely[after].any() and not unknown[after].any():
        found["link_bytes_per_timely_message"] = sum(carried) / int(timely[after].sum())  # type: ignore[arg-type]
    return found
