"""What a person sees of a run while it goes: what was offered, emitted and delivered, how late, and what each part uses."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ivsim.runs.counters import PartProcesses
from ivsim.runs.started import StartedRun

EVERY_S: Final = 1.0
_COUNTS: Final = {"offered": "due", "emitted": "emitted", "acknowledged": "acknowledged", "unsent": "unsent"}
# Along the way of a message; further parts stand behind these.
_ORDER: Final = (
    "sender",
    "router",
    "replay",
    "mosquitto",
    "rabbitmq",
    "gateway",
    "capture",
    "kafka",
    "spark",
)


class LiveFigures:
    """Is asked several times a second while a run goes; looks at its processes once a second."""

    def __init__(self, run: StartedRun) -> None:
        self._run = run
        self._processes = PartProcesses()
        self._looked_at_s = -EVERY_S
        self._cpu_s: dict[str, float] = {}
        self._cores: dict[str, float] = {}

    def tell(self) -> tuple[dict[str, Any], dict[str, float]]:
        """Return the figures of all vehicles so far (None: not known), and the cores that each kind of part uses.

        Once a second the page is told the same. There are no cores before the second look.
        """
        sources = _sources(self._run)
        now_s = time.monotonic()
        if (took_s := now_s - self._looked_at_s) >= EVERY_S:
            used_s = by_kind(self._processes.cpu_s(self._run))
            self._cores = cores_between(self._cpu_s, used_s, took_s)
            self._looked_at_s, self._cpu_s = now_s, used_s
            self._run.publisher.tell_sources(sources, self._cores)
        lag_ms = sources.pop("emission_lag_max_ms")
        # What senders say is of one instant; their logs are read at another, and more may be acknowledged in them by then.
        said = {name: count for name, count in sources.items() if count is not None}
        return {"offered": None, **self._run.publisher.row(), **said, "lag ms": lag_ms}, self._cores


def cores_between(
    before_s: Mapping[str, float], after_s: Mapping[str, float], took_s: float
) -> dict[str, float]:
    """Return the cores in use between two looks, of the parts that have gone on: a process that ends takes its time with it."""
    return {
        name: (used_s - before_s[name]) / took_s
        for name, used_s in after_s.items()
        if used_s >= before_s.get(name, math.inf)
    }


def by_kind(of_parts: Mapping[str, float]) -> dict[str, float]:
    """Return the sums over parts of one kind, along the way of a message: sender-0 and sender-1 are `sender`."""
    found: dict[str, float] = {}
    for name, value in of_parts.items():
        kind = name.partition("-")[0]
        found[kind] = found.get(kind, 0.0) + value
    ordered = [kind for kind in _ORDER if kind in found]
    return {kind: found[kind] for kind in (*ordered, *sorted(found.keys() - set(ordered)))}


def _sources(run: StartedRun) -> dict[str, Any]:
    """Return what the senders have said last."""
    children = run.components.children
    said = [children.part(name).latest.get("progress") for name in run.components.senders]
    return added([one for one in said if one is not None], len(said))


def added(said: Iterable[Mapping[str, Any]], senders: int) -> dict[str, Any]:
    """Return the counts of all senders together and the longest lag of the last half second.

    None until each has said its own; no lag where nobody has emitted meanwhile.
    """
    known = list(said)
    if len(known) < senders or not known:
        return dict.fromkeys((*_COUNTS, "emission_lag_max_ms"))
    counts = {name: sum(int(one[theirs]) for one in known) for name, theirs in _COUNTS.items()}
    lags_ns = [one["emission_lag_max_ns"] for one in known if one["emission_lag_max_ns"] is not None]
    return {**counts, "emission_lag_max_ms": max(lags_ns) / 1e6 if lags_ns else None}
