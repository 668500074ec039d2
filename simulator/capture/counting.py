"""Bytes and packets per second, vehicle and direction, by class; counts frames and understands no message."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from simulator.capture.fields import (
    ACK,
    FIN,
    LINK_HEADER_BYTES,
    MAX_FRAME_BYTES,
    RST,
    SYN,
    Fields,
    Frames,
    Ints,
    read_fields,
)
from simulator.capture.retransmissions import SequenceTracker, Verdicts

COUNTS = (
    "packets",
    "ip_bytes",
    "link_bytes",
    "ip_header_bytes",
    "tcp_packets",
    "tcp_header_bytes",
    "tcp_payload_bytes",
    "tcp_pure_ack_packets",
    "tcp_pure_ack_bytes",
    "tcp_control_packets",
    "tcp_control_bytes",
    "tcp_keep_alive_packets",
    "tcp_retransmitted_packets",
    "tcp_retransmitted_bytes",
    "tcp_retransmitted_payload_bytes",
    "udp_packets",
    "udp_payload_bytes",
    "other_packets",
    "other_bytes",
    "super_frames",
)
KEYS = ("second", "vehicle", "direction")


def record(counts: int) -> np.dtype[np.void]:
    """Return the type of a record with so many counts."""
    return np.dtype(
        [("second", "<i4"), ("vehicle", "<u4"), ("direction", "<u4"), ("counts", "<i8", (counts,))]
    )


# One record of the crash-safe log: what a vehicle's direction gained in a second, to be summed over records.
RECORD = record(len(COUNTS))
BEFORE_START = -1
_NS = 1_000_000_000
Records = npt.NDArray[np.void]


class Counter:
    """Counts batches of frames; `take` hands over what came together since the last time."""

    def __init__(self, start_at_ns: int | None = None) -> None:
        self.start_at_ns = start_at_ns
        self._sequences = SequenceTracker()
        self._parts: list[Records] = []

    def add(self, frames: Frames) -> Fields | None:
        """Count one batch, in the order of capture; return its fields (None for an empty one)."""
        if not len(frames):
            return None
        fields = read_fields(frames)
        values = _values(frames, fields, self._sequences.judge(fields))
        seconds = self._seconds(frames.at_ns)
        key = (seconds + 1) << 20 | fields.vehicle.astype(np.int64) << 2 | fields.direction
        order = np.argsort(key, kind="stable")
        ordered = key[order]
        heads = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
        part = np.zeros(len(heads), RECORD)
        first = ordered[heads]
        part["second"], part["vehicle"] = (first >> 20) - 1, first >> 2 & 0x3FFFF
        part["direction"] = first & 3
        part["counts"] = np.add.reduceat(values[:, order], heads, axis=1).T
        self._parts.append(part)
        return fields

    def take(self) -> Records:
        """Return the records since the last call, one per second, vehicle and direction, and forget them."""
        parts, self._parts = self._parts, []
        return merge(np.concatenate(parts)) if parts else np.zeros(0, RECORD)

    def _seconds(self, at_ns: Ints) -> Ints:
        if self.start_at_ns is None:
            return np.full(len(at_ns), BEFORE_START, np.int64)
        return np.maximum((at_ns - self.start_at_ns) // _NS, BEFORE_START)


def merge(records: Records) -> Records:
    """Return the sums of records with the same second, vehicle and direction, sorted by these."""
    if not len(records):
        return records
    ordered = records[np.lexsort((records["direction"], records["vehicle"], records["second"]))]
    new = np.ones(len(ordered), np.bool_)
    new[1:] = np.any([ordered[name][1:] != ordered[name][:-1] for name in KEYS], axis=0)
    heads = np.flatnonzero(new)
    result: Records = ordered[heads].copy()
    result["counts"] = np.add.reduceat(ordered["counts"], heads, axis=0)
    return result


def _values(frames: Frames, fields: Fields, verdicts: Verdicts) -> npt.NDArray[np.int64]:
    """Return the counts of every frame: one row a name of `COUNTS`, one column a frame."""
    link = frames.link_bytes
    ip = link - LINK_HEADER_BYTES
    tcp, udp = fields.tcp, fields.udp
    other = ~(tcp | udp)
    control = tcp & ((fields.flags & (SYN | FIN | RST)) > 0)
    acknowledges = (fields.flags & ACK) > 0
    pure = tcp & ~control & ~verdicts.keep_alive & (fields.application_bytes == 0) & acknowledges
    return np.stack(
        [
            np.ones(len(link), np.int64),
            ip,
            link,
            fields.ip_header_bytes,
            tcp,
            fields.transport_header_bytes * tcp,
            fields.application_bytes * tcp,
            pure,
            ip * pure,
            control,
            ip * control,
            verdicts.keep_alive,
            verdicts.retransmitted,
            ip * verdicts.retransmitted,
            verdicts.overlap_bytes,
            udp,
            fields.application_bytes * udp,
            other,
            ip * other,
            link > MAX_FRAME_BYTES,
        ]
    ).astype(np.int64, copy=False)
