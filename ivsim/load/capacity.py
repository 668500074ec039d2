"""Finds the highest load that this machine carries: a whole run for each step, all on one testbed that stays up."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow.compute as pc
import pyarrow.parquet as pq

from gateways.protocols import PROTOCOLS
from ivsim.load.capacity_asked import Asked
from ivsim.load.saturation import Counters, Crossing, Saturation, counters_of, saturated
from ivsim.load.service_level import ServiceLevel, judgement
from ivsim.options import RunOptions
from ivsim.runs.counters import Sample, Sampler
from ivsim.runs.display import Display
from ivsim.runs.interrupt import Interrupted, interruptible
from ivsim.runs.outcome import Outcome
from ivsim.runs.processes import session_config
from ivsim.runs.testbed import Testbed
from ivsim.search import Ask, Found, Kind, Verdict, find
from ivsim.thresholds import Judged
from simulator.links.base import DIRECT

# How the names of figures begin in which a link has no part.
BEHIND_THE_LINK: Final = ("bridge_delay", "processing_delay")


class Step(NamedTuple):
    """One run of a search, and what it came to. None is not measured.

    Attributes:
        kind: warm-up (not judged), step, bisection or confirmation.
        load: messages/s or vehicles, whichever is raised.
        hold_s: time in which messages were due, its warm-up taken off.
        directory: the run's, beside the summary; None where it came to no result.
        offered_per_s, delivered_per_s: messages due in the measurement window, and delivered of them, over its length.
        saturation: which part gave way; None where the level was met.
    """

    kind: Kind
    load: int
    vehicles: int
    interval_s: float
    hold_s: float
    seed: int
    directory: str | None
    verdict: Verdict | None
    reasons: str
    judged: tuple[Judged, ...]
    offered_per_s: float | None
    delivered_per_s: float | None
    delivery_ratio: float | None
    emission_lag_p99_ms: float | None
    end_to_end_latency_p50_ms: float | None
    end_to_end_latency_p99_ms: float | None
    counters: Counters
    saturation: Saturation | None

    def as_dict(self) -> dict[str, Any]:
        """Return it for a JSON file."""
        return {
            **self._asdict(),
            "judged": [one.as_dict() for one in self.judged],
            "counters": self.counters.as_dict(),
            "saturation": None if self.saturation is None else self.saturation._asdict(),
        }


class Searched(NamedTuple):
    """A search as far as it came.

    Attributes:
        steps: in the order in which they were measured.
        found: None where it was stopped before its end.
        stopped: what stopped it.
    """

    asked: Asked
    level: ServiceLevel
    steps: tuple[Step, ...]
    found: Found | None
    stopped: Interrupted | None = None


def search(
    asked: Asked,
    level: ServiceLevel,
    directory: Path,
    work: Path,
    *,
    display: Callable[[], Display],
    noted: Callable[[Sequence[Step]], None],
) -> Searched:
    """Search, and keep each step's run in `directory`; the first signal ends it, and what was measured is returned.

    Args:
        asked: where is searched.
        level: to be met.
        directory: of the result.
        work: where what stays up has its files.
        display: returns what shows the progress of a step.
        noted: is called with all steps after each.
    """
    steps: list[Step] = []
    with interruptible():
        try:
            with Testbed(work) as testbed:
                measuring = _Measuring(asked, level, directory, testbed, steps, display=display, noted=noted)
                try:
                    found = find(asked.bounds, measuring)
                finally:
                    testbed.copy_logs(directory / "logs")
        except Interrupted as signal:
            return Searched(asked, level, tuple(steps), None, signal)
    return Searched(asked, level, tuple(steps), found)


class _Measuring:
    """Measures one load after the other; a session of Spark that is new is warmed by a run that does not count."""

    def __init__(
        self,
        asked: Asked,
        level: ServiceLevel,
        directory: Path,
        testbed: Testbed,
        steps: list[Step],
        *,
        display: Callable[[], Display],
        noted: Callable[[Sequence[Step]], None],
    ) -> None:
        self._asked, self._level, self._directory, self._testbed = asked, level, directory, testbed
        self._steps, self._display, self._noted = steps, display, noted
        self._warm: dict[str, Any] | None = None

    def __call__(self, ask: Ask) -> Verdict:
        session = session_config(self._asked.of(ask))
        if session != self._warm:
            warmed = self._step(Ask("warm-up", ask.load))
            self._warm = None if warmed.verdict == "broke" else session
        step = self._step(ask)
        assert step.verdict is not None
        if step.verdict == "broke":
            self._warm = None  # what has died starts anew
        return step.verdict

    def _step(self, ask: Ask) -> Step:
        options = self._asked.of(ask)
        name = f"{len(self._steps) + 1:02}-{ask.kind}-{ask.load}"
        with Sampler() as sampler:
            outcome = self._testbed.run(
                options, self._directory / name, display=self._display(), disturb=sampler
            )
        if outcome.signal is not None:
            raise Interrupted(outcome.signal)
        if outcome.directory is not None:
            _write_samples(self._directory / f"{name}.counters.jsonl", sampler.samples)
        step = step_of(ask, options, self._level, outcome, sampler.samples)
        self._steps.append(step)
        self._noted(self._steps)
        return step


def step_of(
    ask: Ask, options: RunOptions, level: ServiceLevel, outcome: Outcome, samples: Sequence[Sample]
) -> Step:
    """Return what one run came to."""
    metrics = outcome.metrics
    per_s = options.vehicles / options.interval_s
    protocol = PROTOCOLS[options.protocol]
    counters = counters_of(
        samples,
        from_s=options.warmup_s,
        to_s=options.duration_s,
        messages_per_s=per_s,
        peer=protocol.broker or "gateway",
        acknowledged_by_broker=protocol.broker is not None and protocol.modes[options.mode].acknowledged,
        all_cores=len(os.sched_getaffinity(0)),
        queue_drops=_queue_drops(outcome.directory),
    )
    said = judgement(level, metrics, counters.lag_growing, outcome.error)
    judged = ask.kind != "warm-up"
    causes = (metrics.get("validity") or {}).get("causes", ())
    return Step(
        kind=ask.kind,
        load=ask.load,
        vehicles=options.vehicles,
        interval_s=options.interval_s,
        hold_s=options.duration_s - options.warmup_s,
        seed=options.seed,
        directory=None if outcome.directory is None else outcome.directory.name,
        verdict=said.verdict,
        reasons=said.reasons,
        judged=said.judged,
        offered_per_s=_per_s(metrics, "due"),
        delivered_per_s=_per_s(metrics, "delivered"),
        delivery_ratio=metrics.get("delivery_ratio"),
        emission_lag_p99_ms=metrics.get("emission_lag_p99_ms"),
        end_to_end_latency_p50_ms=metrics.get("end_to_end_latency_p50_ms"),
        end_to_end_latency_p99_ms=metrics.get("end_to_end_latency_p99_ms"),
        counters=counters,
        saturation=saturated(counters, per_s, causes, _crossing(options, metrics, said.judged))
        if judged and said.verdict != "met"
        else None,
    )


def _crossing(options: RunOptions, metrics: dict[str, Any], judged: Sequence[Judged]) -> Crossing | None:
    """Return the delays of which the link may have most; None where it has no part in what was missed."""
    missed = [one.threshold.figure for one in judged if one.verdict != "met"]
    if missed and all(figure.startswith(BEHIND_THE_LINK) for figure in missed):
        return None
    one_way_ms, whole_ms = metrics.get("one_way_delay_p99_ms"), metrics.get("end_to_end_latency_p99_ms")
    if options.link == DIRECT or one_way_ms is None or whole_ms is None:
        return None
    return Crossing(one_way_ms, whole_ms)


def _per_s(metrics: dict[str, Any], count: str) -> float | None:
    begin_s, end_s, found = metrics.get("window_from_s"), metrics.get("window_to_s"), metrics.get(count)
    if begin_s is None or end_s is None or found is None or end_s <= begin_s:
        return None
    return float(found / (end_s - begin_s))


def _queue_drops(directory: Path | None) -> int | None:
    """Return how many packets found the link's queue full; None on a link that does not count."""
    path = None if directory is None else directory / "link.parquet"
    if path is None or not path.is_file():
        return None
    return pc.sum(pq.read_table(path, columns=["queue_drops"])["queue_drops"]).as_py()  # type: ignore[no-any-return]


def _write_samples(path: Path, samples: Sequence[Sample]) -> None:
    path.write_text("".join(json.dumps(one._asdict()) + "\n" for one in samples))
