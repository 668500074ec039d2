"""The sums behind the live figures, of each vehicle and of the fleet, in windows and over the run; it knows no Kafka.

Every update of a twin, count of emissions and count of wire bytes goes into four groups: the run and the window of its
vehicle, and those of the fleet. A twin's counters only grow, so a group keeps their extremes; the rest are sums. Delays
wait in a list until somebody asks for quantiles, then go as one array into a sketch of bounded size (REQ: Cormode, Karnin,
Liberty, Thaler, Vesely: Relative Error Streaming Quantiles, PODS 2021), which is the more exact the higher the rank. Up to
300 values are exact. Behind that, with 99.7 % probability, the rank of what is given as p99 is within 0.0001 of 0.99, as
p95 within 0.0004 of 0.95, as p50 within 0.004 of 0.5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import orjson
from datasketches import req_floats_sketch

FLEET: Final = "*"
# An event older than this against the newest is no longer counted in a window.
WATERMARK_S: Final = 120
SKETCH_K: Final = 50
QUANTILES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
WAYS: Final = ("uplink", "downlink")
# Of the twins, and of what their owner counts.
COUNTERS: Final = (
    "contained", "received", "duplicates", "gaps", "given_up", "payload_bytes", "received_in_window", "gaps_in_window",
    "delivery_ratio", "overhead_bytes_per_message",
)  # fmt: skip
COUNTED: Final = ("emitted", "unsent", *(f"wire_bytes_{way}" for way in WAYS))
_WAITING: Final = 256
_LAST_SECOND: Final = 100_000_000_000
# A smaller number of seconds says no time of day.
_FIRST_OF_DAY: Final = 1_000_000_000
_NOT_YET: Final = 2**63
_DIGITS: Final = 20
# What one record may count; their sum stays far below what JSON and its readers take for exact.
_MOST: Final = 2**40

Key = tuple[str, int | None]
Counts = dict[str, int]


class Quantiles:
    """Delays in ms: a sketch of them, and those that are not in it yet."""

    __slots__ = ("_sketch", "_waiting")

    def __init__(self) -> None:
        self._sketch: req_floats_sketch | None = None
        self._waiting: list[float] = []

    def add(self, value_ms: float) -> None:
        self._waiting.append(value_ms)
        if len(self._waiting) >= _WAITING:
            self._settle()

    def at(self, ranks: list[float]) -> list[float | None]:
        """Return the values at these ranks from 0 to 1; None of no values."""
        if self._waiting:
            self._settle()
        if self._sketch is None:
            return [None] * len(ranks)
        # The smallest value with at least that share at or below it: the ledger's definition.
        return list(self._sketch.get_quantiles(ranks, inclusive=True))

    def _settle(self) -> None:
        if self._sketch is None:
            self._sketch = req_floats_sketch(SKETCH_K, True)
        # One call for all: a value at a time costs 37 us, one of an array 0.1.
        self._sketch.update(np.array(self._waiting, np.float32))
        self._waiting.clear()


class Update:
    """What one record of twin.state says; KeyError, TypeError or ValueError where it is none of ours."""

    __slots__ = (
        "age", "contained", "due_to_received_ms", "duplicates", "end_to_end_ms", "given_up", "known", "known_before",
        "payload_bytes", "received_before", "second",
    )  # fmt: skip

    def __init__(self, said: dict[str, bytes], appended_ms: int) -> None:
        self.duplicates, self.given_up = _number(said["duplicates"]), _number(said["given_up"])
        self.contained = _number(said["messages"]) - self.duplicates - self.given_up
        self.known = self.contained + _number(said["gaps"])
        self.received_before = _number(said["received_before"])
        self.known_before = self.received_before + _number(said["gaps_before"])
        self.payload_bytes = _number(said["payload_bytes"])
        received_ns = _number(said["received_at_ns"])
        sampled_ns, before_ns = (
            _number(said[name]) if said[name] else None for name in ("sampled_at_ns", "sampled_before_ns")
        )
        due_ns = received_ns if sampled_ns is None else sampled_ns
        self.second = _possible(due_ns // 1_000_000_000)
        applied_ns = appended_ms * 1_000_000
        # The update that a message itself caused: a late one or a duplicate leaves an older stamp as the newest.
        own = received_ns == _number(said["last_received_at_ns"])
        self.end_to_end_ms = (applied_ns - due_ns) / 1e6 if own else None
        self.due_to_received_ms = (received_ns - due_ns) / 1e6 if own else None
        self.age = (
            None if sampled_ns is None or before_ns is None else _age(applied_ns, sampled_ns, before_ns)
        )


def _number(text: bytes) -> int:
    """Return a number of a twin's record; ValueError where it is none from 0 to 2^63 - 1."""
    number = int(text) if len(text) < _DIGITS else -1
    if not 0 <= number < _NOT_YET:
        raise ValueError(text[:_DIGITS])
    return number


def _possible(second: int) -> int:
    """Return a second since 1970; ValueError for one that cannot be."""
    if not 1 <= second <= _LAST_SECOND:
        raise ValueError(second)
    return second


def _age(applied_ns: int, sampled_ns: int, before_ns: int) -> tuple[float, float, float] | None:
    """Return what one update adds to the age of information: peak (ms), area (ms^2) and the time it is over (ms).

    The saw-tooth's trapezoid that belongs to the update (Kaul, Yates, Gruteser: Real-time status, INFOCOM 2012).
    """
    if sampled_ns <= before_ns:
        return None
    peak, rest = (applied_ns - before_ns) / 1e6, (applied_ns - sampled_ns) / 1e6
    return peak, (peak * peak - rest * rest) / 2, (sampled_ns - before_ns) / 1e6


class Group:
    """What is summed up of a vehicle or the fleet, in a window or over the run; a fleet's has no twin's counters."""

    __slots__ = (
        "_age_area", "_age_peak", "_age_time", "_due_to_received", "_end_to_end", "counts", "duplicates", "given_up",
        "known", "known_before", "payload_bytes", "received", "received_before", "updates",
    )  # fmt: skip

    def __init__(self) -> None:
        self.updates = 0
        self.received = self.known = self.duplicates = self.given_up = self.payload_bytes = 0
        self.received_before = self.known_before = _NOT_YET
        self._age_area = self._age_time = self._age_peak = 0.0
        self._end_to_end, self._due_to_received = Quantiles(), Quantiles()
        self.counts: Counts = {}

    def take_counters(self, one: Update) -> None:
        self.received = max(self.received, one.contained)
        self.known = max(self.known, one.known)
        self.duplicates = max(self.duplicates, one.duplicates)
        self.given_up = max(self.given_up, one.given_up)
        self.payload_bytes = max(self.payload_bytes, one.payload_bytes)
        self.received_before = min(self.received_before, one.received_before)
        self.known_before = min(self.known_before, one.known_before)

    def take_times(self, one: Update) -> None:
        self.updates += 1
        if one.end_to_end_ms is not None and one.due_to_received_ms is not None:
            self._end_to_end.add(one.end_to_end_ms)
            self._due_to_received.add(one.due_to_received_ms)
        if one.age is not None:
            peak, area, time = one.age
            self._age_peak = max(self._age_peak, peak)
            self._age_area += area
            self._age_time += time

    def add(self, counts: Counts) -> None:
        for name, count in counts.items():
            self.counts[name] = self.counts.get(name, 0) + count

    def times(self) -> dict[str, float | None]:
        """Return the age of information and the quantiles, in ms."""
        ranks = list(QUANTILES.values())
        known = self._age_time > 0
        ages = {
            "age_of_information_mean_ms": self._age_area / self._age_time if known else None,
            "age_of_information_peak_ms": self._age_peak if known else None,
        }
        delays = {"end_to_end_latency": self._end_to_end, "due_to_received": self._due_to_received}
        return ages | {
            f"{name}_{quantile}_ms": value
            for name, values in delays.items()
            for quantile, value in zip(QUANTILES, values.at(ranks), strict=True)
        }


class LiveSums:
    """Takes the records of a run, each partition in its order, and gives rows of run.metrics.

    Args:
        window_s: width of a window.

    Attributes:
        refused: records, and rows of records, that were none of ours.
    """

    def __init__(self, window_s: int) -> None:
        self._window_s = window_s
        self._groups: dict[Key, Group] = {}
        # Those that have changed since they were given out, the longest-waiting first.
        self._vehicles: dict[Key, None] = {}
        self._fleet: dict[Key, None] = {}
        self._contained: dict[str, tuple[int, int]] = {}
        self._contained_sum = self._given_up_sum = 0
        self._newest_second = self._newest_ms = 0
        self.refused = 0

    def take_state(self, vehicle: str, headers: list[tuple[str, bytes]] | None, appended_ms: int) -> None:
        """Take a record of twin.state; a tombstone undoes nothing of what its twin had received."""
        if headers is None:
            return
        try:
            one = Update(dict(headers), appended_ms)
        except (KeyError, TypeError, ValueError):
            self.refused += 1
            return
        self._newest_ms = max(self._newest_ms, appended_ms)
        contained, given_up = self._contained.get(vehicle, (0, 0))
        self._contained[vehicle] = one.contained, one.given_up
        self._contained_sum += one.contained - contained
        self._given_up_sum += one.given_up - given_up
        for name, group in self._groups_of(vehicle, one.second, appended_ms):
            group.take_times(one)
            if name != FLEET:
                group.take_counters(one)

    def take_emissions(self, value: bytes | None, appended_ms: int) -> None:
        """Take a record of run.emissions: rows of what a vehicle emitted, and could not send, in one second."""
        self._take_counts(value, appended_ms, _emitted)

    def take_link(self, value: bytes | None, appended_ms: int) -> None:
        """Take a record of run.link: rows; one without a direction says what a link gives, and nothing has crossed it."""
        self._take_counts(value, appended_ms, _crossed)

    def _take_counts(
        self, value: bytes | None, appended_ms: int, counts_of: Callable[[dict[str, Any]], Counts]
    ) -> None:
        try:
            said = orjson.loads(value or b"")
        except ValueError:
            self.refused += 1
            return
        self._newest_ms = max(self._newest_ms, appended_ms)
        for row in said if said and isinstance(said, list) else (said,):
            try:
                counts = counts_of(row)
                if not counts:
                    continue
                vehicle, at_s = _placed(row, appended_ms)
            except (AttributeError, ValueError):
                self.refused += 1
                continue
            for _, group in self._groups_of(vehicle, at_s, appended_ms):
                group.add(counts)

    def _groups_of(self, vehicle: str, second: int, appended_ms: int) -> Iterator[tuple[str, Group]]:
        """Yield the groups of an event with their names."""
        # A second that lies ahead closes no window of the others.
        self._newest_second = max(self._newest_second, min(second, appended_ms // 1_000))
        start = second // self._window_s * self._window_s
        windows = (None, start) if start >= self._oldest_start() else (None,)
        for name, changed in ((vehicle, self._vehicles), (FLEET, self._fleet)):
            for window in windows:
                key = (name, window)
                group = self._groups.get(key)
                if group is None:
                    group = self._groups[key] = Group()
                changed[key] = None
                yield name, group

    def _oldest_start(self) -> int:
        return self._newest_second // self._window_s * self._window_s - WATERMARK_S

    def fleet_rows(self) -> Iterator[dict[str, Any]]:
        """Yield the fleet's rows that have changed."""
        for key in list(self._fleet):
            del self._fleet[key]
            counters = {
                "contained": self._contained_sum,
                "received": None if self._given_up_sum else self._contained_sum,
                "given_up": self._given_up_sum,
                "counted_to_ms": self._newest_ms,
            }
            yield self._row(key, counters if key[1] is None else {})

    def vehicle_rows(self, at_most: int | None = None) -> Iterator[dict[str, Any]]:
        """Yield that many rows of vehicles, of those that have changed the longest-waiting first."""
        for key in list(self._vehicles)[:at_most]:
            del self._vehicles[key]
            group = self._groups[key]
            yield self._row(key, _counters(group, run=key[1] is None) if group.updates else {})

    def forget_windows(self) -> None:
        """Forget the windows that are over and given out."""
        oldest = self._oldest_start()
        over = [key for key in self._groups if key[1] is not None and key[1] < oldest]
        for key in over:
            if key not in self._vehicles and key not in self._fleet:
                del self._groups[key]

    def _row(self, key: Key, counters: dict[str, Any]) -> dict[str, Any]:
        group = self._groups[key]
        return {
            "vehicle_id": key[0],
            "window_start_s": key[1],
            "window_s": self._window_s,
            **dict.fromkeys(COUNTERS),
            **{name: group.counts.get(name) for name in COUNTED},
            "updates": group.updates,
            **counters,
            **group.times(),
        }


def _counters(group: Group, *, run: bool) -> dict[str, Any]:
    """Return what a vehicle's twin has counted, as COUNTERS.

    Once it has given records up its other counters are of a part: what was received is not known.
    """
    said = {"contained": group.received, "given_up": group.given_up}
    if group.given_up:
        return said
    here, known = group.received - group.received_before, group.known - group.known_before
    said |= {
        "received": group.received,
        "duplicates": group.duplicates,
        "gaps": group.known - group.received,
        "payload_bytes": group.payload_bytes,
    }
    if not run:
        # Of the sequences that the twin learned of in the window; undefined where late messages closed older gaps.
        ratio = here / known if known > 0 and here <= known else None
        return {**said, "received_in_window": here, "gaps_in_window": known - here, "delivery_ratio": ratio}
    counts = group.counts
    if not group.received:
        return said
    more: dict[str, float] = {}
    if "emitted" in counts and (due := counts["emitted"] + counts.get("unsent", 0)):
        # Of what was due; what is on its way counts as missing until it arrives.
        more["delivery_ratio"] = group.received / due
    if "wire_bytes_uplink" in counts and "wire_bytes_downlink" in counts:
        wire = counts["wire_bytes_uplink"] + counts["wire_bytes_downlink"]
        more["overhead_bytes_per_message"] = (wire - group.payload_bytes) / group.received
    return said | more


def _placed(row: dict[str, Any], appended_ms: int) -> tuple[str, int]:
    """Return whose counts these are, and the second since 1970 that they belong to; ValueError where it does not say."""
    vehicle, second = row.get("vehicle_id"), row.get("second")
    if not isinstance(vehicle, str) or type(second) is not int:
        raise ValueError(vehicle, second)
    # Seconds of the run say no time of day: they are placed by the append stamp.
    return vehicle, appended_ms // 1_000 if 0 <= second < _FIRST_OF_DAY else _possible(second)


def _emitted(row: dict[str, Any]) -> Counts:
    return {name: _counted(row[name]) for name in ("emitted", "unsent") if row.get(name) is not None}


def _crossed(row: dict[str, Any]) -> Counts:
    way = row.get("direction")
    return {f"wire_bytes_{way}": _counted(row.get("wire_bytes"))} if way in WAYS else {}


def _counted(value: object) -> int:
    """Return a count of a record; ValueError where it is none from 0 to `_MOST`."""
    if type(value) is not int or not 0 <= value <= _MOST:
        raise ValueError(value)
    return value
