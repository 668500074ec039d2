"""What `ivsim load --find-capacity` asks: which load is raised, from where to where; checks it and starts nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from ivsim.option_rules import run_options
from ivsim.options import OPTIONS, RunOptions
from ivsim.runs.shards import SPARE_FILES, open_files
from ivsim.search import Ask, Bounds
from ivsim.topologies import TOPOLOGIES
from schemas.errors import Refusal

OPTION: Final = "--find-capacity"
FROM, TO, RESOLUTION = "--from", "--to", "--resolution"
RATE: Final = "--rate"
Raised = Literal["messages/s", "vehicles"]

HOLD_S: Final = 30.0
WARMUP_S: Final = 5.0
# A confirmation is held this many times longer than a step.
LONGER: Final = 3
FIRST: Final[Mapping[Raised, int]] = {"messages/s": 50, "vehicles": 20}
MOST: Final = 10_000
RESOLUTION_RATIO: Final = 0.05
LIMIT: Final = 1_000_000_000


@dataclass(frozen=True)
class Asked:
    """A search for the highest load.

    Attributes:
        raised: what a load counts: messages/s of a fleet that stays the same, or vehicles that each send as before.
        bounds: where is searched.
        options: of a step, at the first load.
    """

    raised: Raised
    bounds: Bounds
    options: RunOptions

    def of(self, ask: Ask) -> RunOptions:
        """Return the options of one measurement; repetitions of a confirmation have seeds of their own."""
        options = at(self.options, self.raised, ask.load)
        if ask.kind != "confirmation":
            return options
        # The time behind the warm-up is what is measured: that is what is longer.
        longer_s = options.warmup_s + LONGER * (options.duration_s - options.warmup_s)
        return options.model_copy(
            update={"duration_s": longer_s, "seed": (options.seed + 1 + ask.repetition) % 2**63}
        )


def refuse_given(values: Mapping[str, Any], *, find_capacity: bool) -> None:
    """Refuse the first option that is given, of those that have no effect with the search, or without it."""
    for word, value in values.items():
        if value is not None and value != []:
            raise Refusal(f"{word}: {'has no effect with' if find_capacity else 'needs'} {OPTION}")


def at(options: RunOptions, raised: Raised, load: int) -> RunOptions:
    """Return the options at another load."""
    if raised == "vehicles":
        return options.model_copy(update={"vehicles": load})
    return options.model_copy(update={"interval_s": options.vehicles / load})


def asked(
    fields: Mapping[str, Any],
    messages_per_s: float | None,
    first: int | None,
    most: int | None,
    resolution_ratio: float | None,
) -> Asked:
    """Return a checked search; Refusal names what does not go together.

    Args:
        fields: of RunOptions, as far as they were given.
        messages_per_s: of a vehicle; with it, or with an interval, vehicles are raised, and without both the rate is.
        first: load of the first step.
        most: the highest load.
        resolution_ratio: see `Bounds`.
    """
    given = dict(fields)
    raised: Raised = "messages/s"
    if messages_per_s is not None or "interval_s" in given:
        raised = "vehicles"
        said = (
            f"{RATE} {messages_per_s:g}"
            if messages_per_s is not None
            else OPTIONS["interval_s"].given(given["interval_s"])
        )
        if "vehicles" in given:
            raise Refusal(
                f"{OPTIONS['vehicles'].given(given['vehicles'])}: with {said} {OPTION} raises the number of vehicles;"
                f" {FROM} says with how many it begins"
            )
    if messages_per_s is not None:
        given["interval_s"] = _interval_s(given, messages_per_s)
    given.setdefault("duration_s", HOLD_S)
    given.setdefault("warmup_s", min(WARMUP_S, given["duration_s"] / 4))
    bounds = _bounds(raised, first, most, resolution_ratio)
    if raised == "vehicles":
        given["vehicles"] = bounds.first
    if given.get("mix") is not None:
        raise Refusal(f"{OPTIONS['mix'].given(given['mix'])}: {OPTION} finds what one protocol carries")
    for label in ("name", "tags"):
        if label in given:
            raise Refusal(
                f"{OPTIONS[label].given(given[label])}: has no effect with {OPTION}, which is many runs"
            )
    options = run_options(**given)
    topology = TOPOLOGIES[options.topology]
    if topology.edge or not topology.twins:
        raise Refusal(f"{OPTION}: needs {OPTIONS['topology'].word} gateway: it follows messages to the twin")
    found = Asked(raised, bounds, options)
    run_options(**found.of(Ask("confirmation", bounds.most)).model_dump(exclude_unset=True))
    return found


def _interval_s(given: Mapping[str, Any], messages_per_s: float) -> float:
    if "interval_s" in given:
        word = OPTIONS["interval_s"].given(given["interval_s"])
        raise Refusal(f"{word}: {RATE} {messages_per_s:g} says how often a vehicle sends already; give one")
    if not (math.isfinite(messages_per_s) and messages_per_s > 0):
        raise Refusal(f"{RATE} {messages_per_s:g}: messages per second of a vehicle, above 0")
    return 1.0 / messages_per_s


def _bounds(raised: Raised, first: int | None, most: int | None, resolution_ratio: float | None) -> Bounds:
    begin = FIRST[raised] if first is None else first
    end = max(_most(raised), begin) if most is None else most
    resolution = RESOLUTION_RATIO if resolution_ratio is None else resolution_ratio
    for word, value in ((FROM, begin), (TO, end)):
        if not 1 <= value <= LIMIT:
            raise Refusal(f"{word} {value}: {raised}, a whole number from 1 to {LIMIT}")
    if end < begin:
        raise Refusal(f"{TO} {end}: below {FROM} {begin}")
    if not 0.01 <= resolution <= 0.5:
        raise Refusal(f"{RESOLUTION} {resolution:g}: a share from 0.01 to 0.5")
    return Bounds(begin, end, resolution)


def _most(raised: Raised) -> int:
    """Return where a search ends that nobody limits: of vehicles, at the connections that a process may have."""
    files = open_files()
    return min(MOST, files - SPARE_FILES) if raised == "vehicles" and files > SPARE_FILES else MOST
