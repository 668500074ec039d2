"""What a search for the highest load says of itself: its word, its sentence, its rows; pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

from ivsim.load.capacity import Searched, Step
from ivsim.load.capacity_asked import FROM, TO
from ivsim.report.style import number
from ivsim.thresholds import EXIT_MISSED

Word = Literal["capacity", "at least", "no capacity", "stopped"]
_KINDS: Final = {"bisection": "bisect", "confirmation": "confirm"}
NOTABLE: Final = 0.1
HEAD: Final = (
    "#", "kind", "load", "verdict", "delivered\n/s", "delivery\nratio", "end to\nend p50\nms", "end to\nend p99\nms",
    "lag\np99\nms", "CPU\ncores",
)  # fmt: skip


class Result(NamedTuple):
    """What a search came to.

    Attributes:
        word: `capacity` is the system's on this machine; `at least` where the system did not give way, but its generator
            or the search's end did.
        load: the highest that was confirmed; of a search that was stopped, the highest that met the level once.
        gave_way: the part that gave way at the load above; None where nothing says which.
        words: the result in sentences.
    """

    word: Word
    load: int | None
    gave_way: str | None
    words: str
    exit_code: int


def result_of(searched: Searched) -> Result:
    """Return what the search says."""
    unit, found = searched.asked.raised, searched.found
    met = max(
        (one.load for one in searched.steps if one.verdict == "met" and one.kind != "warm-up"), default=None
    )
    if searched.stopped is not None or found is None:
        so_far = f"{met:,} {unit} met the service level, not confirmed" if met else "no load was found"
        code = 128 + (0 if searched.stopped is None else searched.stopped.number)
        return Result("stopped", met, None, f"by {searched.stopped}; so far {so_far}", code)
    failed = _failed(searched)
    above = "" if failed is None else f"{failed.load:,} {unit}: {failed.reasons}"
    gave_way = None if failed is None or failed.saturation is None else failed.saturation.part
    counters = (
        "" if failed is None or failed.saturation is None else f". By the counters: {failed.saturation.words}"
    )
    if found.capacity is None:
        once = "no load met the service level"
        if met is not None:
            once = f"up to {met:,} {unit} met the service level once, and none was confirmed"
        what = f"{once}{_beside(searched.steps)}; {above}{counters}"
        what += f". Begin lower ({FROM}), or ask for less (--threshold)"
        return Result("no capacity", None, gave_way, what, EXIT_MISSED)
    again = f"{found.capacity:,} {unit} on this machine, confirmed {searched.asked.bounds.repetitions} times"
    again += _beside(searched.steps)
    if failed is None:
        return Result("at least", found.capacity, None, f"{again}; nothing failed up to {TO}", 0)
    if found.verdict in {"missed", "broke"}:
        return Result("capacity", found.capacity, gave_way, f"{again}. {above}{counters}", 0)
    whose = "The generator, and not the system, gave way" if found.verdict == "generator" else "No figures"
    return Result("at least", found.capacity, gave_way, f"{again}. {whose} at {above}{counters}", 0)


def _beside(steps: Sequence[Step]) -> str:
    """Say that other programs had a share in the machine, where it was more than NOTABLE of its cores."""
    judged = [one.counters for one in steps if one.kind != "warm-up" and one.counters.other_cores is not None]
    most = max(judged, key=lambda one: one.other_cores or 0.0, default=None)
    if most is None or (most.other_cores or 0.0) < NOTABLE * most.all_cores:
        return ""
    return f", while other programs used up to {most.other_cores:.2f} of its {most.all_cores} cores"


def _failed(searched: Searched) -> Step | None:
    """Return the step that ended the search: the last at that load that did not meet the level."""
    assert searched.found is not None
    at = searched.found.failed_at
    steps = [
        one for one in searched.steps if one.load == at and one.kind != "warm-up" and one.verdict != "met"
    ]
    return steps[-1] if steps else None


def rows(steps: Sequence[Step]) -> list[list[str]]:
    """Return one row a step, as HEAD has them."""
    return [
        [
            str(index),
            _KINDS.get(one.kind, one.kind),
            f"{one.load:,}",
            number(None if one.kind == "warm-up" else one.verdict),
            number(one.delivered_per_s),
            number(one.delivery_ratio, "ratio"),
            number(one.end_to_end_latency_p50_ms),
            number(one.end_to_end_latency_p99_ms),
            number(one.emission_lag_p99_ms),
            number(sum(one.counters.cores.values()) if one.counters.cores else None),
        ]
        for index, one in enumerate(steps, 1)
    ]


def notes(steps: Sequence[Step]) -> list[str]:
    """Return a line for each step that did not meet the level: why, and what its counters say."""
    return [
        f"{index}: {one.reasons}" + (f". {one.saturation.words}" if one.saturation is not None else "")
        for index, one in enumerate(steps, 1)
        if one.kind != "warm-up" and one.verdict != "met"
    ]


def parts_of(steps: Sequence[Step]) -> list[str]:
    """Return every part that used CPU time in a step, the hungriest first."""
    most: dict[str, float] = {}
    for one in steps:
        for name, cores in one.counters.cores.items():
            most[name] = max(cores, most.get(name, 0.0))
    return sorted(most, key=lambda name: -most[name])


def head_of(searched: Searched) -> str:
    """Return what was searched, in a line."""
    options, raised = searched.asked.options, searched.asked.raised
    fleet = (
        f"{options.vehicles} vehicles"
        if raised == "messages/s"
        else f"vehicles with a message each {options.interval_s:g} s"
    )
    hold_s = options.duration_s - options.warmup_s
    return f"{options.protocol} {options.mode}, {fleet}, link {options.link}; each step held {hold_s:g} s"


def summary_of(searched: Searched, machine: dict[str, Any]) -> dict[str, Any]:
    """Return summary.json."""
    bounds, result = searched.asked.bounds, result_of(searched)
    found = searched.found
    return {
        "result": result.word,
        "capacity": result.load if found is not None else None,
        "unit": searched.asked.raised,
        "failed_at": None if found is None else found.failed_at,
        "failed_verdict": None if found is None else found.verdict,
        "gave_way": result.gave_way,
        "words": result.words,
        "on": "this machine",
        "machine": machine,
        "service_level": [*(one.text for one in searched.level.thresholds)],
        "no_consumer_lag_growing": searched.level.no_lag,
        "from": bounds.first,
        "to": bounds.most,
        "resolution_ratio": bounds.resolution_ratio,
        "options": searched.asked.options.model_dump(mode="json"),
        "steps": [one.as_dict() for one in searched.steps],
    }
