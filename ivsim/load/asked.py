"""What a load test asks, as fields of a run's options; checks what goes together and starts nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ivsim.option import Declared
from ivsim.option_rules import checked_options
from ivsim.options import OPTIONS, RunOptions, option_name
from schemas.errors import Refusal

STAGE, RATE = OPTIONS["stages"].word, "--rate"


def options_of(
    fields: Mapping[str, Any],
    stages: Sequence[str],
    messages_per_s: float | None,
    naming: Callable[[str], str] = option_name,
) -> RunOptions:
    """Return the options of a load test; Refusal names what does not go together.

    Stages say how many vehicles there are, the most of any stage, and how long the run is, their sum.

    Args:
        fields: of RunOptions, as far as they were given.
        stages: DURATION:VEHICLES or DURATION:FROM-TO each; none is a run with all vehicles throughout.
        messages_per_s: of a vehicle that sends; None where the interval says it.
        naming: how a refusal calls a field.
    """
    asked = dict(fields)
    if messages_per_s is not None:
        _alone(asked, OPTIONS["interval_s"], f"{RATE} {messages_per_s:g}", "how often a vehicle sends")
        if not (math.isfinite(messages_per_s) and messages_per_s > 0):
            raise Refusal(f"{RATE} {messages_per_s:g}: messages per second of a vehicle, above 0")
        asked["interval_s"] = 1.0 / messages_per_s
    if stages:
        _alone(asked, OPTIONS["vehicles"], STAGE, "how many vehicles send")
        _alone(asked, OPTIONS["duration_s"], STAGE, "how long")
        parsed = _parsed(stages)
        asked["stages"] = parsed
        asked["vehicles"] = max(max(begin, end) for _, begin, end in parsed)
        asked["duration_s"] = sum(length_s for length_s, _, _ in parsed)
        if asked["vehicles"] == 0:
            raise Refusal(f"{STAGE} {stages[0]}: no vehicle sends in any stage")
    return checked_options(asked, naming)


def _alone(asked: Mapping[str, Any], other: Declared, given: str, what: str) -> None:
    if other.field in asked:
        raise Refusal(f"{other.given(asked[other.field])}: {given} says {what} already; give one of the two")


def _parsed(stages: Sequence[str]) -> tuple[tuple[float, int, int], ...]:
    """Return the stages as numbers, by the option model's own check of them."""
    try:
        parsed: tuple[tuple[float, int, int], ...] = RunOptions.stages_of(stages)
    except ValueError as error:
        raise Refusal(f"{STAGE} {error}") from None
    return parsed
