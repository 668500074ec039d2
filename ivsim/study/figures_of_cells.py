"""Figures of an echo cell from its emission and wire tables, by the ledger's definitions, without Spark."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ivsim.study.statistics import nearest_rank
from twin.metrics import METRICS, QUANTILES, Metric

Floats = npt.NDArray[np.float64]
_NS_PER_MS: Final = 1e6
_WAYS: Final = ("uplink", "downlink")
# TCP's repeats are left out, as in the paper; a CoAP message sent again is the protocol's own doing.
_PARTS: Final = ("protocol", "transport", "ip", "link", "acknowledgement", "unattributed")


def _extra() -> list[Metric]:
    due = "due in the window"
    return [
        Metric("latency_mean_ms", "ms", "received", "received beside the vehicle minus due, mean (echo)"),
        Metric("latency_p50_ms", "ms", "received", "received beside the vehicle minus due, median (echo)"),
        Metric("latency_p99_ms", "ms", "received", "received beside the vehicle minus due, p99 (echo)"),
        Metric("unsuccessful_ratio", "ratio", due, "never received, or unsent, of those due"),
        Metric(
            "message_overhead_bytes",
            "B",
            "received",
            "bytes of a message's frames, both crossings, without TCP repeats and payload (echo)",
        ),
        Metric(
            "crossing_overhead_bytes",
            "B",
            "received",
            "message_overhead_bytes per crossing of the link: half",
        ),
        Metric("payload_bytes_mean", "B", "emitted", "mean payload"),
        Metric("pacer_cpu_us_per_message", "us", "emitted", "CPU of the vehicles' process, both ends"),
        Metric("vehicle_month_bytes", "B", "received", "wire bytes of a vehicle in 30 days of 2 h a day"),
        Metric("recovery_s", "s", "the run", "end of the outage to the last message due in it at its end"),
        Metric("backlog_messages", "1", "the run", "most messages due and not yet at their end, per vehicle"),
        Metric("age_mean_s", "s", "the run", "time average of the age of information, mean over vehicles"),
        Metric("age_peak_s", "s", "the run", "largest age of information, mean over vehicles"),
    ]


STUDY_METRICS: Final[dict[str, Metric]] = {**METRICS, **{metric.name: metric for metric in _extra()}}


class EchoCell(NamedTuple):
    """The measured messages of one echo cell, one entry a message due in the window.

    Attributes:
        vehicle: the place of the vehicle in its cell, from 0: the same in every cell of a study.
        sequence: with `vehicle` the key by which messages of two cells are paired.
        latency_ms: received minus due; NaN for a message never received.
        delay_ms: received minus emitted; NaN likewise.
    """

    vehicle: npt.NDArray[np.int64]
    sequence: npt.NDArray[np.int64]
    latency_ms: Floats
    delay_ms: Floats
    emitted: npt.NDArray[np.bool_]
    lag_ms: Floats
    acknowledged_ms: Floats
    payload_bytes: npt.NDArray[np.int64]

    @property
    def received(self) -> npt.NDArray[np.bool_]:
        return np.isfinite(self.latency_ms)


def _ns(table: pa.Table, name: str) -> Floats:
    """Return a stamp relative to the due time, in ms; NaN where there is none."""
    column = table.column(name)
    due = table.column("due_at_ns").to_numpy()
    valid = np.asarray(column.is_valid())
    stamps = np.asarray(column.fill_null(0)).astype(np.int64)
    return np.where(valid, (stamps - due) / _NS_PER_MS, np.nan)


def measured(emissions: pa.Table, first_vehicle: int, from_ns: int, to_ns: int) -> EchoCell:
    """Return the messages due from `from_ns` (inclusive) to `to_ns` (exclusive) of an emission table.

    Args:
        emissions: emissions.parquet of one cell.
        first_vehicle: the number of the cell's first vehicle.
        from_ns: begin of the measurement window.
        to_ns: its end.
    """
    due = emissions.column("due_at_ns").to_numpy()
    # A receiver that had `message042` of an earlier session first: when this one's came is not known.
    stale = np.nan_to_num(_ns(emissions, "received_at_ns") - _ns(emissions, "emitted_at_ns")) < 0
    table = emissions.filter(pa.array((due >= from_ns) & (due < to_ns) & ~stale))
    numbers = [int(name[-6:]) for name in table.column("vehicle_id").to_pylist()]
    emitted, received = _ns(table, "emitted_at_ns"), _ns(table, "received_at_ns")
    return EchoCell(
        vehicle=np.array(numbers, np.int64) - first_vehicle,
        sequence=table.column("sequence").to_numpy(),
        latency_ms=received,
        delay_ms=received - emitted,
        emitted=np.isfinite(emitted),
        lag_ms=emitted,
        acknowledged_ms=_ns(table, "acknowledged_at_ns") - emitted,
        payload_bytes=np.asarray(table.column("payload_bytes").fill_null(0)).astype(np.int64),
    )


def echo_figures(cell: EchoCell, loss_timeout_s: float) -> dict[str, Any]:
    """Return the figures of METRICS that an echo cell has, and the study's own; None where undefined."""
    arrived = cell.received
    # As the ledger: what arrived without an emission stamp counts from due.
    since = np.where(np.isfinite(cell.delay_ms), cell.delay_ms, cell.latency_ms)
    delivered = arrived & (since <= loss_timeout_s * 1_000)
    lost = ~arrived & cell.emitted
    due = int(arrived.size)
    latency = cell.latency_ms[arrived]
    found: dict[str, Any] = {
        "due": due,
        "delivered": int(delivered.sum()),
        "late": int((arrived & ~delivered).sum()),
        "lost": int(lost.sum()),
        "unsent": int((~arrived & ~cell.emitted).sum()),
        "delivery_ratio": float(delivered.sum() / due) if due else None,
        "unsuccessful_ratio": float((~arrived).sum() / due) if due else None,
        "latency_mean_ms": float(latency.mean()) if latency.size else None,
        "latency_p50_ms": nearest_rank(latency, 0.5),
        "latency_p99_ms": nearest_rank(latency, 0.99),
        "emission_lag_p99_ms": nearest_rank(cell.lag_ms[cell.emitted], 0.99),
        "payload_bytes_mean": float(cell.payload_bytes[cell.emitted].mean()) if cell.emitted.any() else None,
    }
    acknowledged = cell.acknowledged_ms[np.isfinite(cell.acknowledged_ms)]
    for quantile, share in QUANTILES.items():
        found[f"one_way_delay_{quantile}_ms"] = nearest_rank(cell.delay_ms[delivered], share)
        found[f"acknowledgement_time_{quantile}_ms"] = nearest_rank(acknowledged, share)
    return found


class WireCell(NamedTuple):
    """Bytes of the link of one echo cell, one entry a message published in the window.

    `pure_bytes`, TCP segments that only acknowledge, are contained in the overhead.
    """

    overhead_bytes: Floats
    wire_bytes: Floats
    pure_bytes: Floats


def wire_of(messages: pa.Table, vehicles: range, window: tuple[int, int], cell: EchoCell) -> WireCell:
    """Return each message's overhead on the link, both crossings together; the mean is per received message.

    What messages that never arrived have cost beside their payload is spread evenly over those that did: the mean
    of the messages that the link had in the window, times those published of the window over those received.
    A slow link has others in the window than were due in it, so their number says nothing about either.

    Args:
        messages: wire_messages.parquet of the capture.
        vehicles: the numbers of the cell.
        window: begin and end in ns, against the stamp of the first byte sent.
        cell: the messages due in the window.
    """
    numbers = np.array([int(name[-6:]) for name in messages.column("vehicle_id").to_pylist()], np.int64)
    sent = np.asarray(messages.column("first_sent_at_ns").fill_null(0)).astype(np.int64)
    inside = (
        (numbers >= vehicles.start) & (numbers < vehicles.stop) & (sent >= window[0]) & (sent < window[1])
    )
    table = messages.filter(pa.array(inside))
    published, arrived = int((cell.emitted | cell.received).sum()), int(cell.received.sum())
    if not table.num_rows or not arrived:
        return WireCell(np.empty(0), np.empty(0), np.empty(0))
    overhead = np.sum([_total(table, part) for part in _PARTS], axis=0)
    repeats = _total(table, "retransmitted")
    wire = overhead + repeats + _total(table, "payload")
    if table.column("protocol")[0].as_py() == "coap":
        overhead = overhead + repeats
    unseen = _unseen(table, float(cell.payload_bytes[cell.received].sum()) / published)
    scale = published / arrived
    pure = _total(table, "tcp_acknowledgement")
    return WireCell((overhead - unseen) * scale, wire * scale, pure * scale)


def _total(table: pa.Table, part: str, ways: tuple[str, ...] = _WAYS) -> Floats:
    return np.asarray(sum(table.column(f"{part}_bytes_{way}").to_numpy() for way in ways), np.float64)


def _unseen(table: pa.Table, returned: float) -> float:
    """Return the payload bytes, a message, that came back in blocks (CoAP): the capture knows them as unattributed.

    `returned`: the payload bytes, a message, that came back at all.
    """
    seen = float(_total(table, "payload", ("downlink",)).mean())
    return min(max(0.0, returned - seen), float(_total(table, "unattributed").mean()))
