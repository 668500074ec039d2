"""The fleet in memory: each vehicle's newest state, a bounded past, who changed when; decodes nothing."""

from __future__ import annotations

import re
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from twin.service.config import ServiceConfig
from twin.service.record import BadRecord, State, state_of, vehicle_of
from twin.service.totals import FleetFigures, Totals

# What a kept state costs beside its payload: the tuple, its integers, its places in two queues.
STATE_BYTES: Final = 640
MAX_REMOVED: Final = 10_000
# The twin's reasons are short words (twin/source.py); a gateway writes a sentence.
_REASON: Final = re.compile(rb"[a-z_]{1,40}")
GATEWAY: Final = "at the gateway"
MAX_REASONS: Final = 64


class Twin:
    """One vehicle: its newest state, the number of the change that brought it, and kept older states."""

    __slots__ = ("cached_row", "past", "serial", "state", "vehicle_id")

    def __init__(self, vehicle_id: str, state: State) -> None:
        self.vehicle_id = vehicle_id
        self.state = state
        self.serial = 0
        self.past: deque[State] = deque()
        self.cached_row: tuple[State, list[Any]] | None = None


class Record(NamedTuple):
    """What the fleet needs of a Kafka record."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] | None
    appended_at_ms: int


class Changes(NamedTuple):
    """Twins that changed, oldest change first, vehicles that went, and the number to ask from next."""

    twins: list[Twin]
    removed: list[str]
    serial: int


class Fleet:
    """Written by one thread, read by all.

    A reader of changes keeps one number: twins stand in the order of their last change, so however slow it
    is, it gets each changed vehicle once, in its newest state, and nothing waits for it in memory.
    """

    def __init__(self, config: ServiceConfig) -> None:
        self._config = config
        self._twins: OrderedDict[str, Twin] = OrderedDict()
        self._removed: OrderedDict[str, int] = OrderedDict()
        self._kept: deque[Twin] = deque()
        self._kept_bytes = 0
        self._names: list[str] | None = None
        self._lock = threading.Lock()
        self.serial = 0
        self.records = 0
        self.bad: Counter[str] = Counter()
        self.last_bad: dict[str, str] = {}
        self.dead_letters: Counter[str] = Counter()
        self._totals = Totals()

    def __len__(self) -> int:
        return len(self._twins)

    def take(self, records: Iterable[Record]) -> None:
        """Apply records of `twin.state` in the order of their partition; bad ones are counted by reason."""
        with self._lock:
            for record in records:
                self.records += 1
                try:
                    self._take(record)
                except BadRecord as bad:
                    self.count_bad(bad.reason, record.key)

    def count_bad(self, reason: str, key: bytes | None) -> None:
        """Count a record that was left out, and remember whose the last one was."""
        self.bad[reason] += 1
        self.last_bad[reason] = (key or b"")[:64].decode("ascii", "backslashreplace")

    def count_dead_letter(self, headers: list[tuple[str, bytes | None]] | None) -> None:
        """Count a record of `vehicle.dead-letter` by the reason that it gives."""
        said = next((text for name, text in headers or () if name == "reason" and text is not None), b"")
        reason = said.decode("ascii") if _REASON.fullmatch(said) else GATEWAY
        if reason not in self.dead_letters and len(self.dead_letters) >= MAX_REASONS:
            reason = GATEWAY
        self.dead_letters[reason] += 1

    def figures(self, now_ns: int, stale_after_ns: int) -> FleetFigures:
        """Return counts, sums and ages of this instant, at a cost that does not grow with the fleet."""
        with self._lock:
            return self._totals.at(now_ns, stale_after_ns)

    def get(self, vehicle_id: str) -> Twin | None:
        """Return a vehicle's twin."""
        return self._twins.get(vehicle_id)

    def names(self) -> list[str]:
        """Return all vehicles' ids in order; not to be changed."""
        with self._lock:
            if self._names is None:
                self._names = sorted(self._twins)
            return self._names

    def twins(self) -> list[Twin]:
        """Return all twins in the order of their ids; one that goes meanwhile is left out."""
        names = self.names()
        get = self._twins.get
        return [twin for name in names if (twin := get(name)) is not None]

    def changes(self, since: int) -> Changes:
        """Return what changed after change number `since`; 0 gives the whole fleet."""
        with self._lock:
            twins = []
            for twin in reversed(self._twins.values()):
                if twin.serial <= since:
                    break
                twins.append(twin)
            removed = [name for name, serial in self._removed.items() if serial > since]
            twins.reverse()
            return Changes(twins, removed, self.serial)

    def past(self, twin: Twin, limit: int) -> list[State]:
        """Return up to `limit` newest kept states, oldest first; the newest state is the last."""
        with self._lock:
            states = list(twin.past)
            if not states or states[-1] is not twin.state:
                states.append(twin.state)
        return states[-limit:]

    def kept_bytes(self) -> int:
        """Return how much memory the kept past takes, by estimate."""
        return self._kept_bytes

    def _take(self, record: Record) -> None:
        name = vehicle_of(record.key)
        if record.value is None:
            self._remove(name)
            return
        state = state_of(
            name,
            record.value,
            record.headers,
            record.appended_at_ms,
            max_payload_bytes=self._config.max_payload_bytes,
            future_tolerance_ns=int(self._config.future_tolerance_s * 1e9),
        )
        twin = self._twins.get(name)
        if twin is None:
            if len(self._twins) >= self._config.max_vehicles:
                raise BadRecord("too_many_vehicles")
            twin = self._twins[name] = Twin(name, state)
            self._names = None
            self._removed.pop(name, None)
            self._totals.replace(None, state)
        else:
            self._totals.replace(twin.state, state)
        self.serial += 1
        twin.state, twin.serial = state, self.serial
        self._twins.move_to_end(name)
        self._keep(twin, state)

    def _remove(self, name: str) -> None:
        twin = self._twins.pop(name, None)
        if twin is None:
            return
        self._totals.replace(twin.state, None)
        self.serial += 1
        self._names = None
        self._removed[name] = self.serial
        while len(self._removed) > MAX_REMOVED:
            self._removed.popitem(last=False)

    def _keep(self, twin: Twin, state: State) -> None:
        step_ns = self._config.history_step_s * 1e9
        if twin.past and state.received_at_ns - twin.past[-1].received_at_ns < step_ns:
            return
        twin.past.append(state)
        self._kept.append(twin)
        self._kept_bytes += len(state.payload) + STATE_BYTES
        # Each twin's past and the queue of all are in one order: the oldest of all is its twin's first.
        while self._kept_bytes > self._config.history_bytes:
            self._kept_bytes -= len(self._kept.popleft().past.popleft().payload) + STATE_BYTES
