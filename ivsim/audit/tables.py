"""The run's derived tables once more, from its binary logs: emissions, connections, received, and the link's wire columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ivsim.audit import logs
from ivsim.audit.due import Key, end_name, vehicle_name
from ivsim.audit.logs import Event, Steps, WireCounts
from ivsim.audit.result import BadResult, Result, Terms

Row = dict[str, Any]
# The steps of a connection.
STEPS: Final = {
    logs.CONNECTING: "connecting",
    logs.CONNECTED: "connected",
    logs.DISCONNECTED: "disconnected",
    logs.CONNECT_FAILED: "connect_failed",
    logs.CONNECT_DUE: "connect_due",
}
# column of link.parquet <- count of the capture
WIRE_COLUMNS: Final = {
    "wire_bytes": "ip_bytes",
    "wire_packets": "packets",
    "retransmitted_bytes": "tcp_retransmitted_bytes",
    "pure_ack_packets": "tcp_pure_ack_packets",
    "keep_alive_packets": "tcp_keep_alive_packets",
}


def emission_rows(
    due: Mapping[Key, int], events: Sequence[Event], words: Mapping[int, str], peers: Mapping[str, str]
) -> list[Row]:
    """Return a row per message due; what the log does not name was never taken by the sender.

    Args:
        due: due_at_ns of every message.
        events: the emission log.
        words: what its numbers of words stand for.
        peers: by vehicle who answers it and so may refuse its message: broker or gateway.
    """
    steps = logs.steps_of(events)
    return [
        _emission(key, due_at_ns, steps.get(key, Steps()), words, peers[key.vehicle_id])
        for key, due_at_ns in due.items()
    ]


def _emission(key: Key, due_at_ns: int, steps: Steps, words: Mapping[int, str], peer: str) -> Row:
    emitted, unsent, refusal = steps.first.get(logs.EMITTED), steps.first.get(logs.UNSENT), steps.refusal
    reason = logs.REASONS.index("sender_ended") if unsent is None else unsent.reason
    return {
        **key._asdict(),
        "sampled_at_ns": due_at_ns,
        "due_at_ns": due_at_ns,
        "emitted_at_ns": steps.at(logs.EMITTED),
        "acknowledged_at_ns": steps.at(logs.ACKNOWLEDGED),
        "refused_at_ns": None if refusal is None else refusal.at_ns,
        "refused_reason": None if refusal is None else words.get(refusal.words),
        "refused_by": None if refusal is None else peer,
        "unanswered_at_ns": steps.at(logs.UNANSWERED),
        "received_at_ns": steps.at(logs.RECEIVED),
        "payload_bytes": None if emitted is None else emitted.size,
        "unsent_reason": logs.REASONS[reason] if emitted is None else None,
        "buffered": logs.BUFFERED in steps.first,
        "reached_cloud_at_ns": None,
        "held_back": None,
    }


def connection_rows(events: Iterable[Event]) -> list[Row]:
    """Return a row per step of a connection, in the order of the log."""
    rows: list[Row] = []
    began: dict[int, int] = {}
    for event in events:
        if event.kind not in STEPS:
            continue
        is_up = event.kind == logs.CONNECTED
        rows.append(
            {
                "vehicle_id": vehicle_name(event.vehicle),
                "event": STEPS[event.kind],
                "at_ns": event.at_ns,
                "handshake_ns": event.at_ns - began[event.vehicle]
                if is_up and event.vehicle in began
                else None,
                "session_present": bool(event.size) if is_up else None,
                "backlog": event.sequence,
            }
        )
        if event.kind == logs.CONNECTING:
            began[event.vehicle] = event.at_ns
    return rows


def largest_backlog(events: Iterable[Event]) -> int:
    """Return the most messages that waited in one vehicle between two of its steps.

    A full outbox notes the newcomer before it notes who had to go: a wait that ends with the very next note of the
    vehicle, by giving a message up, never was.
    """
    waiting: dict[int, set[int]] = defaultdict(set)
    noted: dict[int, int] = {}
    most = 0
    for event in events:
        if event.kind not in {logs.BUFFERED, logs.EMITTED, logs.UNSENT}:
            continue
        if event.kind != logs.UNSENT:
            most = max(most, noted.get(event.vehicle, 0))
        if event.kind == logs.BUFFERED:
            waiting[event.vehicle].add(event.sequence)
        else:
            waiting[event.vehicle].discard(event.sequence)
        noted[event.vehicle] = len(waiting[event.vehicle])
    return max([most, *noted.values()])


def received_rows(taken: Iterable[tuple[Key, int]], stamp: str = "received_at_ns") -> Iterator[Row]:
    """Yield a row per message that a gateway took, or noted otherwise, in the order of its log."""
    return ({**key._asdict(), stamp: at} for key, at in taken)


def wire_rows(counts: WireCounts) -> list[Row]:
    """Return wire.parquet's rows."""
    return [
        {
            "second": key.second,
            "vehicle_id": end_name(key.vehicle),
            "direction": key.direction,
            **cell,
        }
        for key, cell in counts.items()
    ]


def link_wire(link: Sequence[Row], counts: WireCounts | None) -> list[Row]:
    """Return what link.parquet should have in its wire columns: for each of its rows, and for cells it lacks.

    Without a capture each is None, and not 0; with one, a second without a frame is a measured 0.
    """
    cells = {
        (key.second, name, key.direction): cell
        for key, cell in (counts or {}).items()
        if (name := end_name(key.vehicle)) is not None
    }
    keys = dict.fromkeys([(row["second"], row["vehicle_id"], row["direction"]) for row in link])
    found = []
    for key in [*keys, *(key for key in cells if key not in keys)]:
        cell = cells.get(key, {})
        wire = {name: None if counts is None else cell.get(of, 0) for name, of in WIRE_COLUMNS.items()}
        found.append(dict(zip(("second", "vehicle_id", "direction"), key, strict=True)) | wire)
    return found


def stop_of(result: Result) -> int | None:
    """Return when the run stopped, by run.json; None where it stayed until every message had its chance."""
    stop = result.json("run.json").get("stop_at_ns")
    if stop is not None and not isinstance(stop, int):
        raise BadResult(f"{result.file('run.json')}: stop_at_ns: {stop!r}: must be an integer or null")
    return stop


def window_of(stop_at_ns: int | None, terms: Terms) -> tuple[int, int]:
    """Return begin and end of the measurement: after the warm-up, ending with the schedule or a timeout before the stop."""
    ends = [terms.start_at_ns + terms.duration_ns]
    if stop_at_ns is not None:
        ends.append(stop_at_ns - terms.loss_timeout_ns)
    return terms.start_at_ns + round(terms.warmup_s * 1e9), min(ends)


def run_facts(result: Result, backlog_max: int) -> Row:
    """Return what run.json should say beside the stamp of the stop."""
    terms = result.terms
    return {
        "start_at_ns": terms.start_at_ns,
        "warmup_s": terms.warmup_s,
        "end_at_ns": terms.start_at_ns + terms.duration_ns,
        "stop_at_ns": stop_of(result),
        "backlog_max": backlog_max,
    }
