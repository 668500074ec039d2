"""Which part of a run gave way, by its counters; pure. It says what the counters show, and nothing where they show nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Final, NamedTuple

import numpy as np

from ivsim.runs.counters import ROUTER, RUNNER, Sample
from ivsim.runs.processes import SENDER

# Kafka's consumer lag grows when it ends this many seconds' messages above where it began: 1 % too little capacity for
# 30 s. Less than that is the twin's rhythm.
GROWING_S: Final = 0.25
# Counts of the emission logs are up to a second old: what waits by them is known to that.
STALE_S: Final = 1.5
LEAST_SAMPLES: Final = 6
FULL: Final = 0.9
LINKS_SHARE: Final = 0.75
NOTHING: Final = "no counter says which part gave way"
# Parts whose work is one thread's.
ONE_THREAD: Final = (SENDER, "gateway", "mosquitto", "capture", ROUTER, RUNNER)


class Queue(NamedTuple):
    """What waited in front of a part, in messages: medians of the first and the last third of the samples."""

    begin: float
    end: float

    @property
    def growth(self) -> float:
        return self.end - self.begin


class Counters(NamedTuple):
    """A run's counters over the time that is judged.

    Attributes:
        cores: cores' worth of CPU time of each part.
        other_cores: of programs that are not the run's.
        all_cores: that this machine has.
        queues: what waited in front of each part, by the part's name.
        lag_growing: whether records that the twin had not yet taken became more and more; None: not known.
        queue_drops: packets that found the link's queue full; None: the link does not count.
    """

    cores: dict[str, float]
    other_cores: float | None
    all_cores: int
    queues: dict[str, Queue]
    lag_growing: bool | None
    queue_drops: int | None

    def as_dict(self) -> dict[str, Any]:
        """Return it for a JSON file."""
        queues = {name: {**one._asdict(), "growth": one.growth} for name, one in self.queues.items()}
        return {**self._asdict(), "queues": queues}


class Crossing(NamedTuple):
    """What messages took to the gateway, and to the twin."""

    one_way_p99_ms: float
    end_to_end_p99_ms: float


class Saturation(NamedTuple):
    """Which part gave way, and by which counters; `part` is None where no counter says it."""

    part: str | None
    words: str


def counters_of(
    samples: Sequence[Sample],
    *,
    from_s: float,
    to_s: float,
    messages_per_s: float,
    peer: str,
    acknowledged_by_broker: bool,
    all_cores: int,
    queue_drops: int | None,
) -> Counters:
    """Return the counters of a run.

    Args:
        samples: of the whole run.
        from_s: where the time that is judged begins, after the start.
        to_s: where it ends.
        messages_per_s: that were due.
        peer: who vehicles send to: the broker's name, or the gateway.
        acknowledged_by_broker: an acknowledgement says that the broker has a message, and the gateway perhaps not.
        all_cores: of this machine.
        queue_drops: of the link.
    """
    inside = [one for one in samples if from_s <= one.at_s <= to_s]
    cores, other = _cores(inside)
    queues = {}
    if acknowledged_by_broker:
        queues[f"link or {peer}"] = _queue([one.emitted - one.acknowledged for one in inside])
        queues["gateway"] = _queue([one.acknowledged - one.received for one in inside])
    else:
        front = "link or gateway" if peer == "gateway" else f"link, {peer} or gateway"
        queues[front] = _queue([one.emitted - one.received for one in inside])
    # Counts that begin elsewhere: the first sample of the run, before anything was due, is taken off.
    begin = next((one for one in samples if one.appended is not None and one.in_twin is not None), None)
    lag = None
    if begin is not None:
        both = [one for one in inside if one.appended is not None and one.in_twin is not None]
        base, contained = begin.appended or 0, begin.in_twin or 0
        queues["kafka"] = _queue([one.received - ((one.appended or 0) - base) for one in both])
        lag = _queue([_appended_at(one, samples) - base - ((one.in_twin or 0) - contained) for one in both])
        queues["spark"] = lag
    known = {name: one for name, one in queues.items() if one is not None}
    growing = None if lag is None else lag.growth > GROWING_S * messages_per_s
    return Counters(cores, other, all_cores, known, growing, queue_drops)


def _cores(inside: Sequence[Sample]) -> tuple[dict[str, float], float | None]:
    """Return what each part used between the first and the last sample, and what other programs did."""
    if len(inside) < 2:
        return {}, None
    first, last = inside[0], inside[-1]
    span_s = last.at_s - first.at_s
    used = {
        name: max(0.0, (last.cpu_s[name] - first.cpu_s[name]) / span_s)
        for name in last.cpu_s
        if name in first.cpu_s
    }
    busy = (last.busy_s - first.busy_s) / span_s
    return used, max(0.0, busy - sum(used.values()))


def _appended_at(one: Sample, samples: Sequence[Sample]) -> float:
    """Return how many records Kafka had when the twins contained what the sample says; between two samples in proportion.

    What the twins contain is known up to a second late: beside the count of now, a second's messages would seem to wait.
    """
    if one.in_twin_at_s is None:
        return float(one.appended or 0)
    known = [each for each in samples if each.appended is not None]
    counts = [float(each.appended or 0) for each in known]
    return float(np.interp(one.in_twin_at_s, [each.at_s for each in known], counts))


def _queue(waiting: Sequence[float]) -> Queue | None:
    """Return medians of both ends; below 0 is 0: a count that is older than the next one's."""
    if len(waiting) < LEAST_SAMPLES:
        return None
    third = len(waiting) // 3
    return Queue(max(0.0, median(waiting[:third])), max(0.0, median(waiting[-third:])))


def saturated(
    counters: Counters,
    messages_per_s: float,
    causes: Sequence[Mapping[str, Any]] = (),
    crossing: Crossing | None = None,
) -> Saturation:
    """Return the part that gave way in a run that did not meet its level.

    The generator first, where the run says so; then the part in front of which most has gathered; then a part of one
    thread whose core is full; then the link, where its queues were full or most of the latency is its own.

    Args:
        counters: of the run.
        messages_per_s: that were due.
        causes: of the run's validity.
        crossing: of an emulated link; None for another, and where nothing was delivered.
    """
    if any(cause["name"] == "generator_limited" for cause in causes):
        senders = [name for name in counters.cores if name.partition("-")[0] == SENDER]
        used = [f"{name} used {counters.cores[name]:.2f} of the one core that it can" for name in senders]
        return Saturation("generator", "; ".join([*used, *_busy(counters)]) or NOTHING)
    gathered = {
        name: queue
        for name, queue in counters.queues.items()
        if queue.growth > messages_per_s * (GROWING_S if name in {"spark", "kafka"} else STALE_S)
    }
    words = []
    part = None
    if gathered:
        part = max(gathered, key=lambda name: gathered[name].growth)
        words += [
            f"messages waiting for {name} grew from {queue.begin:,.0f} to {queue.end:,.0f}"
            for name, queue in sorted(gathered.items(), key=lambda item: -item[1].growth)
        ]
    full = [name for name in _one_thread(counters) if counters.cores[name] >= FULL]
    if part is None and full:
        part = full[0]
    if counters.queue_drops:
        words.append(f"{counters.queue_drops:,} packets found the link's queue full")
        part = part or "link"
    if crossing is not None and crossing.one_way_p99_ms > LINKS_SHARE * crossing.end_to_end_p99_ms:
        words.append(
            f"most is the link's: one-way delay p99 {crossing.one_way_p99_ms:,.0f} ms,"
            f" end-to-end {crossing.end_to_end_p99_ms:,.0f} ms"
        )
        part = part or "link"
    words += [f"{name} used {counters.cores[name]:.2f} of the one core that it can" for name in full]
    words += _busy(counters)
    return Saturation(part, "; ".join(words) or NOTHING)


def _one_thread(counters: Counters) -> list[str]:
    names = [name for name in counters.cores if name.partition("-")[0] in ONE_THREAD]
    return sorted(names, key=lambda name: -counters.cores[name])


def _busy(counters: Counters) -> list[str]:
    """Say who used the cores, where they were full."""
    total = sum(counters.cores.values()) + (counters.other_cores or 0.0)
    if not counters.cores or total < FULL * counters.all_cores:
        return []
    ranked = sorted(counters.cores.items(), key=lambda item: -item[1])
    most = [f"{name} {cores:.2f}" for name, cores in ranked[:4]]
    if counters.other_cores is not None:
        most.append(f"other programs {counters.other_cores:.2f}")
    return [f"{total:.2f} of this machine's {counters.all_cores} cores were busy ({', '.join(most)})"]
