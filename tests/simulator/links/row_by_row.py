"""The link log read row by row, each row a dict: what the columns of `LinkSeconds` are held against."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from schemas.topics import end_id
from simulator.links.base import DIRECTIONS, Condition, Direction, GilbertElliott, LinkCounts
from simulator.links.queueing import FLOOR_BYTES, FRAME_BYTES, QUEUE_MIN_BYTES, queue_bytes_of, rate_bytes
from simulator.links.step_log import Second

Row = dict[str, Any]
SECOND_NS: Final = 1_000_000_000


class LinkCounter(NamedTuple):
    """One row of `LinkCounts`."""

    vehicle: int
    direction: Direction
    bytes: int
    packets: int
    drops: int
    queue_drops: int
    backlog_bytes: int
    backlog_packets: int


def counters(counts: LinkCounts) -> list[LinkCounter]:
    """Return each row of the counts."""
    return [
        LinkCounter(vehicle, DIRECTIONS[way], *values)
        for vehicle, way, values in zip(
            counts.vehicles.tolist(), counts.ways.tolist(), counts.values.tolist(), strict=True
        )
    ]


def counts(rows: Sequence[LinkCounter]) -> LinkCounts:
    """Return rows as columns."""
    values = np.array([row[2:] for row in rows], np.int64).reshape(-1, 6)
    vehicles, ways = ([row.vehicle for row in rows], [DIRECTIONS.index(row.direction) for row in rows])
    return LinkCounts(np.array(vehicles, np.int64), np.array(ways, np.int64), values)


@dataclass(frozen=True)
class LinkSecond:
    """One row of the link log of one vehicle and direction, with its neighbours.

    Attributes:
        row: the row itself; `before` is the second before, None where there is none.
        following: the seconds after it, in order.
        capacity_bytes: what a link that is never idle passes in the step; None where a rate in force is unlimited.
        outage_left_s: whole seconds without a rate after this one, where this one has none.
    """

    row: Row
    before: Row | None
    following: Sequence[Row]
    capacity_bytes: float | None
    outage_left_s: int

    @property
    def rate_bps(self) -> float | None:
        rate: float | None = self.row["asked_rate_bps"]
        return rate

    @property
    def served_frame_by_frame(self) -> bool:
        """Whether the rate is none at all or one that each second can follow (docs/decisions/link-rate.md)."""
        rate = self.rate_bps
        return rate is None or rate / 8 >= FLOOR_BYTES

    @property
    def line_bytes(self) -> float:
        """What the delay line holds at the rate, and the frames in service: more than that waits for the rate."""
        delay_ms: float = self.row["asked_delay_ms"]
        return (self.rate_bps or 0.0) / 8 * delay_ms / 1e3 + 4 * FRAME_BYTES

    @property
    def queued_through(self) -> bool:
        """Whether packets waited for the rate at the step's begin and end."""
        if self.before is None or self.row["qdisc_bytes"] is None or not self.rate_bps:
            return False
        line = max(
            self.line_bytes, (self.before["asked_rate_bps"] or 0.0) / 8 * self.row["asked_delay_ms"] / 1e3
        )
        return bool(min(self.before["backlog_bytes"], self.row["backlog_bytes"]) > line)

    @property
    def utilisation(self) -> float:
        """The share of the step in which the rate was in use; 0 without a rate, 1 where nobody counted."""
        rate = self.rate_bps
        if rate is None:
            return 0.0
        if self.row["qdisc_bytes"] is None or rate == 0:
            return 1.0
        passed: float = self.row["qdisc_bytes"] * 8 / rate
        return passed

    def longest_wait_ms(self) -> float | None:
        """Return how long a packet sent in this second can have waited for the rate; None where nothing bounds it.

        Ahead of it is at most what waited before, or what came in the second; it is served at the lowest rate that
        holds until then.
        """
        if self.rate_bps is None:
            return 0.0
        if self.row["qdisc_bytes"] is None:
            return None
        waited = 0 if self.before is None else self.before["backlog_bytes"]
        ahead = max(waited, self.row["qdisc_bytes"] + self.row["backlog_bytes"])
        rates = [row["asked_rate_bps"] for row in (self.row, *self.following)]
        # When in its second the packet was sent is not in the log: at its begin, or when the next one began.
        waits = [_drained_in_s(ahead, rates[first:]) for first in (0, 1) if rates[first:]]
        return None if None in waits else max(wait for wait in waits if wait is not None) * 1e3


def _drained_in_s(ahead_bytes: float, rates_bps: Sequence[float | None]) -> float | None:
    """Return how long it takes to serve `ahead_bytes`, a second at each rate, and at the last one for good."""
    left, wait_s = float(ahead_bytes), 0.0
    for index, rate in enumerate(rates_bps):
        if rate is None:
            return wait_s
        if rate and (left <= rate / 8 or index == len(rates_bps) - 1):
            return wait_s + left * 8 / rate
        left -= rate / 8
        wait_s += 1.0
    return None


def seconds_of(rows: Sequence[Row]) -> Iterator[LinkSecond]:
    """Yield every row of one direction with its neighbours, vehicle by vehicle."""
    by_vehicle: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_vehicle[row["vehicle_id"]].append(row)
    for own in by_vehicle.values():
        own.sort(key=lambda row: int(row["second"]))
        yield from _with_neighbours(own)


def _with_neighbours(own: Sequence[Row]) -> Iterator[LinkSecond]:
    outage_left = [0] * (len(own) + 1)
    for index in range(len(own) - 1, -1, -1):
        if own[index]["asked_rate_bps"] == 0:
            outage_left[index] = outage_left[index + 1] + 1
    for index, row in enumerate(own):
        before = own[index - 1] if index and own[index - 1]["second"] == row["second"] - 1 else None
        yield LinkSecond(
            row,
            before,
            own[index + 1 : index + 121],
            _capacity_bytes(own, index),
            max(0, outage_left[index] - 1),
        )


def _began_ns(row: Row) -> int:
    return int(row.get("applied_at_ns") or row["second"] * SECOND_NS)


def _counted_ns(row: Row) -> int:
    return int(row.get("counted_at_ns") or (row["second"] + 1) * SECOND_NS)


def _capacity_bytes(own: Sequence[Row], index: int) -> float | None:
    """Return the integral of the rate over what leaves the delay line between two counts.

    What the meter passes while a row is in force leaves the line one delay of that row later.
    """
    until_ns = _counted_ns(own[index])
    since_ns = _counted_ns(own[index - 1]) if index else _began_ns(own[0])
    total = 0.0
    for other in range(index, -1, -1):
        row = own[other]
        delay_ns = round(row["asked_delay_ms"] * 1e6)
        first_ns = _began_ns(row) + delay_ns if other else since_ns  # set before the start, in force since
        last_ns = (_began_ns(own[other + 1]) if other + 1 < len(own) else _counted_ns(row)) + delay_ns
        overlap_ns = min(until_ns, last_ns) - max(since_ns, first_ns)
        if overlap_ns > 0:
            if row["asked_rate_bps"] is None:
                return None
            total += row["asked_rate_bps"] / 8 * overlap_ns / 1e9
        if last_ns < since_ns and index - other > 1 + delay_ns // SECOND_NS:
            break
    return total


def rows_of(steps: Sequence[Second]) -> list[Row]:
    """Return what a replay's steps come to, one row a second, vehicle and direction."""
    rows, before = [], {}
    for step in steps:
        found = {(c.vehicle, c.direction): c for c in counters(step.counters)}
        for vehicle, pair in step.asked.items() if step.second >= 0 else ():
            for direction, condition in zip(DIRECTIONS, pair, strict=True):
                now, then = found.get((vehicle, direction)), before.get((vehicle, direction))
                rows.append(
                    {
                        "second": step.second,
                        "vehicle_id": end_id(vehicle),
                        "direction": direction,
                        "asked_rate_bps": condition.rate_bps,
                        "asked_delay_ms": condition.delay_ms,
                        "asked_loss_ratio": condition.mean_loss_ratio,
                        "asked_jitter_ms": condition.jitter_ms,
                        "asked_reorder_ratio": condition.reorder_ratio,
                        "asked_burst_packets": condition.burst_packets,
                        "applied_at_ns": step.applied_at_ns,
                        "update_ms": step.update_ns / 1e6,
                        "counted_at_ns": step.counted_at_ns or None,
                        "qdisc_bytes": _gained(now, then, "bytes"),
                        "qdisc_packets": _gained(now, then, "packets"),
                        "drops": _gained(now, then, "drops"),
                        "queue_drops": _gained(now, then, "queue_drops"),
                        "backlog_bytes": None if now is None else now.backlog_bytes,
                    }
                )
        before = found
    return rows


def _gained(now: LinkCounter | None, then: LinkCounter | None, name: str) -> int | None:
    if now is None:
        return None
    gained: int = getattr(now, name) - (0 if then is None else getattr(then, name))
    return gained


def probe_columns(
    row: Row, found: Mapping[tuple[int, str, str], tuple[int, int | None]], probe_bytes: int
) -> Row:
    """Return the columns of the probe of a row: `found` has by second, vehicle and direction when it was sent and came."""
    sent = found.get((row["second"], row["vehicle_id"], row["direction"]))
    if sent is None:
        return {"probe_sent": 0, "probe_received": 0, "probe_delay_ms": None, "probe_bytes": 0}
    sent_at_ns, came_at_ns = sent
    seen = row["direction"] == "uplink" or came_at_ns is not None
    return {
        "probe_sent": 1,
        "probe_received": int(came_at_ns is not None),
        "probe_delay_ms": None if came_at_ns is None else (came_at_ns - sent_at_ns) / 1e6,
        "probe_bytes": probe_bytes if seen else 0,
    }


@dataclass(frozen=True, slots=True)
class Meter:
    """What one direction of one vehicle was last told, and what it is owed below the floor: the rule, one vehicle at a time.

    Attributes:
        asked: the condition that it was told for.
        nested: whether its losses in bursts have a netem of their own, and `bursts` what that is told.
    """

    queue_bytes: int = QUEUE_MIN_BYTES
    rate: int | None = None
    held: bool = False
    credit_bytes: float = 0.0
    asked_at_s: float = 0.0
    asked: Condition | None = None
    nested: bool = False
    bursts: GilbertElliott | None = None

    def following(self, condition: Condition, at_s: float) -> Meter:
        """Return what it is told for a condition from `at_s` on: `rate` (bytes/s, None unlimited), `held`, `queue_bytes`."""
        queue_bytes = condition.queue_bytes
        if queue_bytes is None:
            # Never smaller than before: a slow second must not drop what a fast one has queued.
            queue_bytes = max(self.queue_bytes, queue_bytes_of(condition))
        rate, held, credit_bytes = self.rate, False, self.credit_bytes
        if condition.rate_bps is None:
            rate = None
        elif condition.rate_bps == 0:
            held = True  # the rate stays: it is the one that counts when the outage is over
        elif (asked := rate_bytes(condition.rate_bps)) >= FLOOR_BYTES:
            rate = asked
        else:
            # Below the floor: hold, and open at the floor's rate for each interval that has been earned.
            rate = FLOOR_BYTES
            credit_bytes += asked * (min(at_s - self.asked_at_s, 1.5) if self.asked_at_s else 1.0)
            held = credit_bytes < FLOOR_BYTES
            if not held:
                credit_bytes -= FLOOR_BYTES
        bursts = condition.gilbert_elliott
        nested = self.nested or bursts is not None
        return Meter(queue_bytes, rate, held, credit_bytes, at_s, condition, nested, bursts)
