"""What security cost a run, from its capture: handshakes full and resumed, their bytes and time, and the records' bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from simulator.capture.process import CATEGORIES_NAME, HANDSHAKES_NAME
from simulator.capture.tables import attributed_count

_WAYS: Final = ("uplink", "downlink")
_KINDS: Final = {"full": False, "resumed": True}


def security_figures(
    directory: Path,
    *,
    security: str,
    senders: Sequence[Mapping[str, Any]],
    gateways: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the figures for `metrics.json`; None where the capture has none, not 0.

    Of a fleet whose capture attributes the bytes of a sample, counts and bytes are None, and times are the sample's.

    Args:
        directory: of the run.
        security: the option.
        senders: the last event of each, empty where it did not come to say it.
        gateways: the last event of each.

    Returns:
        security: the option; access_refused: how often a vehicle was refused for who it is; sender_cpu_s: of all since the start;
        gateway_cpu_s: of all since they were ready; handshakes_full and handshakes_resumed: counts, before the start too;
        handshake_p50_ms, handshake_p99_ms: from the frame that began a handshake to the one that ended it, at the
        vehicles' end; full_handshake_p50_ms, resumed_handshake_p50_ms: of either kind alone; full_handshake_bytes_mean,
        resumed_handshake_bytes_mean: records of one, both ways; handshake_bytes_<way>: of all together, whole frames, with the
        acknowledgements of TCP;
        record_bytes_<way>: headers, types and tags of the records behind the handshake.
    """
    figures: dict[str, Any] = {
        "security": security,
        "access_refused": _sum(senders, "access_refused"),
        "sender_cpu_s": _sum(senders, "cpu_s"),
        "gateway_cpu_s": _sum(gateways, "cpu_s"),
    }
    handshakes, categories = directory / HANDSHAKES_NAME, directory / CATEGORIES_NAME
    known = handshakes.is_file() and categories.is_file()
    names = ["handshakes_full", "handshakes_resumed", "handshake_p50_ms", "handshake_p99_ms"]
    names += [f"{kind}_handshake_{what}" for kind in _KINDS for what in ("p50_ms", "bytes_mean")]
    names += [f"{what}_bytes_{way}" for what in ("handshake", "record") for way in _WAYS]
    figures |= dict.fromkeys(names)
    if not known:
        return figures
    rows = pq.read_table(handshakes)
    figures |= {
        f"handshake_{name}_ms": _length_ms(rows, share) for name, share in (("p50", 0.5), ("p99", 0.99))
    }
    for kind, is_resumed in _KINDS.items():
        own = rows.filter(pc.equal(rows["resumed"], is_resumed))
        figures[f"{kind}_handshake_p50_ms"] = _length_ms(own, 0.5)
        if "record_bytes" in own.column_names:  # tables of an earlier version have none
            figures[f"{kind}_handshake_bytes_mean"] = pc.mean(own["record_bytes"]).as_py()
    if attributed_count(rows.schema) is not None:
        return figures
    resumed = int(pc.sum(rows.column("resumed")).as_py() or 0)
    figures["handshakes_full"], figures["handshakes_resumed"] = rows.num_rows - resumed, resumed
    table = pq.read_table(categories)
    for way in _WAYS:
        figures[f"handshake_bytes_{way}"] = _bytes(table, purpose="handshake", direction=way)
        figures[f"record_bytes_{way}"] = _bytes(table, purpose="secured", direction=way, layer="protocol")
    return figures


def _length_ms(rows: pa.Table, share: float) -> float | None:
    """Return a quantile of the handshakes' lengths; None of none."""
    if not rows.num_rows:
        return None
    lengths_ns = rows.column("ended_at_ns").to_numpy() - rows.column("begun_at_ns").to_numpy()
    return float(np.quantile(lengths_ns, share, method="inverted_cdf")) / 1e6


def _sum(said: Sequence[Mapping[str, Any]], name: str) -> Any:
    """Return the sum over all processes; None where one did not say it, or there is none."""
    values = [one.get(name) for one in said]
    return None if not values or None in values else sum(values)


def _bytes(table: Any, **wanted: str) -> int:
    for column, value in wanted.items():
        table = table.filter(pc.equal(table.column(column), value))
    return int(pc.sum(table.column("bytes")).as_py() or 0)
