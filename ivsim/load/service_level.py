"""What a load has to meet for a system to carry it, and whether a run met it; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from gateways.protocols import PROTOCOLS
from ivsim.load.verdict import first_word
from ivsim.options import RunOptions
from ivsim.search import Verdict
from ivsim.thresholds import Judged, Threshold, judge, parse

LATENCY: Final = "p99(end_to_end) <= 1s"
COMPLETE: Final = "delivery_ratio == 1"
# What at most once may not lose: everything that the link has not lost.
NOTHING_BEHIND_THE_LINK: Final = (
    "unsent == 0",
    "lost_at_broker == 0",
    "lost_at_gateway == 0",
    "lost_at_kafka == 0",
)
NO_LAG: Final = "consumer lag not growing"


class ServiceLevel(NamedTuple):
    """Thresholds, and whether the twin must keep up with Kafka."""

    thresholds: tuple[Threshold, ...]
    no_lag: bool

    @property
    def words(self) -> str:
        """Return it in one line."""
        return ", ".join([*(one.text for one in self.thresholds), *([NO_LAG] if self.no_lag else [])])


class Judgement(NamedTuple):
    """What a run came to: the verdict, its reasons, and each threshold beside the run's figure."""

    verdict: Verdict
    reasons: str
    judged: tuple[Judged, ...]


def service_level(options: RunOptions, thresholds: Sequence[Threshold]) -> ServiceLevel:
    """Return the level that was asked for, or without one the mode's own."""
    if thresholds:
        return ServiceLevel(tuple(thresholds), no_lag=False)
    mode = PROTOCOLS[options.protocol].modes[options.mode]
    own = NOTHING_BEHIND_THE_LINK if mode.guarantee == "at_most_once" else (COMPLETE,)
    return ServiceLevel(tuple(parse(text) for text in (*own, LATENCY)), no_lag=True)


def judgement(
    level: ServiceLevel, metrics: Mapping[str, Any], lag_growing: bool | None, error: str | None
) -> Judgement:
    """Return whether a run met the level.

    A run that is less than valid does not say what the system can: its sender was late, or the machine moved its link or
    its clock. That goes before the thresholds, whichever way those came out.

    Args:
        level: to be met.
        metrics: of the run.
        lag_growing: of the twin behind Kafka; None: not known, which does not meet a level that asks for it.
        error: what ended the run before its time.
    """
    judged = tuple(judge(level.thresholds, metrics))
    if error is not None:
        return Judgement("broke", error.partition("\n")[0], judged)
    word, reasons = first_word(metrics)
    if word in {"generator-limited", "degraded"}:
        return Judgement("generator", f"{word}: {reasons}", judged)
    if word != "valid":
        return Judgement("invalid", f"{word}: {reasons}", judged)
    missed = [one.words for one in judged if one.verdict != "met"]
    if level.no_lag and lag_growing is not False:
        missed.append(f"{NO_LAG}: {'not measured' if lag_growing is None else 'missed'}")
    return Judgement("missed" if missed else "met", "; ".join(missed), judged)
