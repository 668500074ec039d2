"""Figures of an echo cell from its emission and wire tables, by the ledger's definitions, without Spark."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gateways.protocols import PROTOCOLS
from ivsim.study.engines.echo import ledger
from ivsim.study.statistics import nearest_rank
from ledger.definitions import ratio
from ledger.metrics import METRICS, QUANTILES, Metric

Floats = npt.NDArray[np.float64]
_NS_PER_MS: Final = 1e6
_WAYS: Final = ("uplink", "downlink")
# TCP's repeats are left out, as in the paper; a message that the protocol itself sends again is its own doing.
_PARTS: Final = ("protocol", "transport", "ip", "link", "acknowledgement", "unattributed")


_DUE: Final = "due in the window"
_OWN: Final = (
    Metric("left_out", "1", _DUE, "not counted as due: what came back was an earlier session's message"),
    Metric("latency_mean_ms", "ms", "received", "received beside the vehicle minus due, mean"),
    Metric("latency_p50_ms", "ms", "received", "received beside the vehicle minus due, median"),
    Metric("latency_p99_ms", "ms", "received", "received beside the vehicle minus due, p99"),
    Metric("unsuccessful_ratio", "ratio", _DUE, "never received, or unsent, of those due"),
    Metric(
        "message_overhead_bytes",
        "B",
        "received",
        "bytes of a message's frames, both crossings, without TCP repeats and payload",
    ),
    Metric(
        "crossing_overhead_bytes", "B", "received", "message_overhead_bytes per crossing of the link: half"
    ),
    Metric("payload_bytes_mean", "B", "emitted", "mean payload"),
    Metric("sender_cpu_us_per_message", "us", "emitted", "CPU of the vehicles' process, both ends"),
    Metric("vehicle_month_bytes", "B", "received", "wire bytes of a vehicle in 30 days of 2 h a day"),
)
# What of a run's figures an echo cell has, by the same definitions.
_SHARED: Final = (
    *(
        "due",
        "delivered",
        "late",
        "lost",
        "refused",
        "unsent",
        "delivery_ratio",
        "emission_lag_p99_ms",
        "clock_drift_ms",
    ),
    *(
        f"{name}_{quantile}_ms"
        for name in ("one_way_delay", "acknowledgement_time")
        for quantile in QUANTILES
    ),
)
ECHO_METRICS: Final[dict[str, Metric]] = {
    **{name: METRICS[name] for name in _SHARED},
    **{metric.name: metric for metric in _OWN},
}


class EchoCell(NamedTuple):
    """The measured messages of one echo cell, one entry a message due in the window.

    Attributes:
        vehicle: the place of the vehicle in its cell, from 0: the same in every cell of a study.
        sequence: of the vehicle's messages.
        due_ms: when it was due since the window's beginning; with `vehicle` the key by which two cells' messages are paired.
        latency_ms: received minus due; NaN for a message never received.
        delay_ms: received minus emitted; NaN likewise.
        delivered: received within the loss timeout.
        rows: the messages with fates and delays, as `cell_ledger` returns them.
        left_out: messages that are in none of these, since what came back was an earlier session's.
    """

    vehicle: npt.NDArray[np.int64]
    sequence: npt.NDArray[np.int64]
    due_ms: npt.NDArray[np.int64]
    latency_ms: Floats
    delay_ms: Floats
    emitted: npt.NDArray[np.bool_]
    delivered: npt.NDArray[np.bool_]
    acknowledged_ms: Floats
    payload_bytes: npt.NDArray[np.int64]
    rows: pa.Table
    left_out: int

    @property
    def received(self) -> npt.NDArray[np.bool_]:
        return np.isfinite(self.latency_ms)


def _ms(table: pa.Table, name: str, since: str) -> Floats:
    """Return one stamp minus another, in ms; NaN where either is missing."""
    difference = pc.subtract(table[name], table[since])
    valid = np.asarray(difference.is_valid())
    return np.where(valid, np.asarray(difference.fill_null(0)) / _NS_PER_MS, np.nan)


def measured(
    emissions: pa.Table, first_vehicle: int, from_ns: int, to_ns: int, loss_timeout_s: float
) -> EchoCell:
    """Return the messages due from `from_ns` (inclusive) to `to_ns` (exclusive) of an emission table.

    Args:
        emissions: emissions.parquet of one cell.
        first_vehicle: the number of the cell's first vehicle.
        from_ns: begin of the measurement window.
        to_ns: its end.
        loss_timeout_s: what comes later after its emission is late.
    """
    due = ledger.cell_ledger(emissions, from_ns, to_ns, loss_timeout_s)
    # A receiver that had `message042` of an earlier session first: when this one's came is not known.
    earlier = pc.less(due["received_at_ns"], due["emitted_at_ns"]).fill_null(False)
    rows = due.filter(pc.invert(earlier))
    return EchoCell(
        vehicle=_numbers(rows["vehicle_id"]) - first_vehicle,
        sequence=rows["sequence"].to_numpy(),
        due_ms=np.rint((rows["due_at_ns"].to_numpy() - from_ns) / _NS_PER_MS).astype(np.int64),
        latency_ms=_ms(rows, "received_at_ns", "due_at_ns"),
        delay_ms=_ms(rows, "received_at_ns", "emitted_at_ns"),
        emitted=np.asarray(rows["emitted_at_ns"].is_valid()),
        delivered=np.asarray(pc.equal(rows["fate"], "delivered")),
        acknowledged_ms=_ms(rows, "acknowledged_at_ns", "emitted_at_ns"),
        payload_bytes=np.asarray(rows["payload_bytes"].fill_null(0)).astype(np.int64),
        rows=rows,
        left_out=due.num_rows - rows.num_rows,
    )


def echo_figures(cell: EchoCell) -> dict[str, Any]:
    """Return the figures of METRICS that an echo cell has, and the study's own; None where undefined."""
    found = ledger.counts(cell.rows) | ledger.quantiles(cell.rows)
    latency = cell.latency_ms[cell.received]
    own = {
        "delivery_ratio": ratio(found["delivered"], found["due"]),
        "unsuccessful_ratio": ratio(int((~cell.received).sum()), found["due"]),
        "left_out": cell.left_out,
        "latency_mean_ms": float(latency.mean()) if latency.size else None,
        "latency_p50_ms": nearest_rank(latency, 0.5),
        "latency_p99_ms": nearest_rank(latency, 0.99),
        "payload_bytes_mean": float(cell.payload_bytes[cell.emitted].mean()) if cell.emitted.any() else None,
    }
    return {name: found[name] for name in _SHARED if name in found} | own


class WireCell(NamedTuple):
    """Bytes of the link of one echo cell, one entry a message published in the window.

    `pure_bytes`, TCP segments that only acknowledge, are contained in the overhead. `vehicle` is its place in the cell.
    """

    vehicle: npt.NDArray[np.int64]
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
    numbers = _numbers(messages["vehicle_id"])
    sent = np.asarray(messages.column("first_sent_at_ns").fill_null(0)).astype(np.int64)
    inside = (
        (numbers >= vehicles.start) & (numbers < vehicles.stop) & (sent >= window[0]) & (sent < window[1])
    )
    table = messages.filter(pa.array(inside))
    published, arrived = int((cell.emitted | cell.received).sum()), int(cell.received.sum())
    if not table.num_rows or not arrived:
        return WireCell(np.empty(0, np.int64), np.empty(0), np.empty(0), np.empty(0))
    overhead = np.sum([_total(table, part) for part in _PARTS], axis=0)
    repeats = _total(table, "retransmitted")
    wire = overhead + repeats + _total(table, "payload")
    if PROTOCOLS[table.column("protocol")[0].as_py()].repeats == "protocol":
        overhead = overhead + repeats
    unseen = _unseen(table, float(cell.payload_bytes[cell.received].sum()) / published)
    scale = published / arrived
    pure = _total(table, "tcp_acknowledgement")
    return WireCell(numbers[inside] - vehicles.start, (overhead - unseen) * scale, wire * scale, pure * scale)


def _numbers(names: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Return the vehicles' numbers."""
    few = names.combine_chunks().dictionary_encode()
    numbers = np.array([int(name[-6:]) for name in few.dictionary.to_pylist()], np.int64)
    return numbers.take(np.asarray(few.indices))


def _total(table: pa.Table, part: str, ways: tuple[str, ...] = _WAYS) -> Floats:
    return np.asarray(sum(table.column(f"{part}_bytes_{way}").to_numpy() for way in ways), np.float64)


def _unseen(table: pa.Table, returned: float) -> float:
    """Return the payload bytes, a message, that came back in blocks (CoAP): the capture knows them as unattributed.

    `returned`: the payload bytes, a message, that came back at all.
    """
    seen = float(_total(table, "payload", ("downlink",)).mean())
    return min(max(0.0, returned - seen), float(_total(table, "unattributed").mean()))
