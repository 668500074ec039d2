"""What a person sees of a run while it goes: what was offered, emitted and delivered, how late, and what each part uses."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ivsim.runs.counters import PartProcesses
from ivsim.runs.started import StartedRun

EVERY_S: Final = 1.0
_COUNTS: Final = {"offered": "due", "emitted": "emitted", "acknowledged": "acknowledged", "unsent": "unsent"}
# Along the way of a message; further parts stand behind these.
_ORDER: Final = ("sender", "router", "mosquitto", "rabbitmq", "gateway", "capture", "kafka", "spark")


class LiveFigures:
    """Is asked several times a second while a run goes; looks once a second, and tells the run's topics what it saw."""

    def __init__(self, run: StartedRun) -> None:
        self._run = run
        self._processes = PartProcesses()
        self._looked_at_s = -EVERY_S
        self._cpu_s: dict[str, float] = {}
        self._cores: dict[str, float] = {}

    def row(self) -> dict[str, Any]:
        """Return the figures of all vehicles so far; None is not known."""
        sources = _sources(self._run)
        lag_ms = sources.pop("emission_lag_max_ms")
        # What senders say is of one instant; their logs are read at another, and more may be acknowledged in them by then.
        said = {name: count for name, count in sources.items() if count is not None}
        return {"offered": None, **self._run.publisher.row(), **said, "lag ms": lag_ms}

    def cores(self) -> dict[str, float]:
        """Return how many cores each kind of part has used since the look before the last; empty until there were two."""
        now_s = time.monotonic()
        if (took_s := now_s - self._looked_at_s) >= EVERY_S:
            used_s = by_kind(self._processes.cpu_s(self._run))
            if self._cpu_s:
                self._cores = cores_between(self._cpu_s, used_s, took_s)
            self._looked_at_s, self._cpu_s = now_s, used_s
            self._run.publisher.tell_sources(_sources(self._run), self._cores)
        return dict(self._cores)


def cores_between(
    before_s: Mapping[str, float], after_s: Mapping[str, float], took_s: float
) -> dict[str, float]:
    """Return the cores in use between two looks; a process that has ended meanwhile takes its time with it, and gives none."""
    return {name: max(0.0, used - before_s.get(name, used)) / took_s for name, used in after_s.items()}


def by_kind(of_parts: Mapping[str, float]) -> dict[str, float]:
    """Return the sums over parts of one kind, along the way of a message: sender-0 and sender-1 are `sender`."""
    found: dict[str, float] = {}
    for name, value in of_parts.items():
        kind = name.partition("-")[0]
        found[kind] = found.get(kind, 0.0) + value
    ordered = [kind for kind in _ORDER if kind in found]
    return {kind: found[kind] for kind in (*ordered, *sorted(found.keys() - set(ordered)))}


def _sources(run: StartedRun) -> dict[str, Any]:
    """Return what the senders have said last: messages offered and emitted, and the longest lag of the last half second."""
    children = run.components.children
    said = [children.part(name).latest.get("progress") for name in run.components.senders]
    return added([one for one in said if one is not None], len(said))


def added(said: Iterable[Mapping[str, Any]], senders: int) -> dict[str, Any]:
    """Return the figures of all senders together; None until each has said its own."""
    known = list(said)
    if len(known) < senders or not known:
        return dict.fromkeys((*_COUNTS, "emission_lag_max_ms"))
    counts = {name: sum(int(one[theirs]) for one in known) for name, theirs in _COUNTS.items()}
    return {**counts, "emission_lag_max_ms": max(int(one["emission_lag_max_ns"]) for one in known) / 1e6}
