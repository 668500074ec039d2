"""A run's own seconds once more, behind it, under flows that reach every limit: sparse traffic proves no rate.

Some of the seconds that the run asked of its link (an outage, the slowest, the fastest and even ranks between) are set
again, each on a vehicle of its own. Behind a run by itself it is up to three, under 115 % of their rates, and beside them
one whose losses are counted: that takes 5 s and proves what sparse traffic leaves open. `--prove-link` drives up to five
as `ivsim link verify` drives a link: light probes for delay and loss, then 115 % of the rate, then TCP. What is off, and a
rate that a late sender left unproven, is measured once more, and the second measurement counts. This says that the same
link, asked for the same, does it; that the run's own packets were served so is the certificate's other rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

from schemas.topics import end_id
from simulator.links.base import DIRECTIONS, Link
from simulator.links.proof.checks import Check, Verdict
from simulator.links.proof.verify import (
    TOTAL_BPS,
    Proof,
    Step,
    drain,
    representative_seconds,
    slow,
    verify,
    verify_limits,
)
from simulator.links.step_log import Asked

PROBED: Final = ", saturating probe"
# The parameters of a certificate, in its order; the checks of `verify` are named after them.
PARAMETERS: Final = ("delay", "loss", "rate", "outage")


class _Place(NamedTuple):
    """A second that is driven again; one that is not saturated has its losses counted."""

    asked: Asked
    saturated: bool = True


class Depth(NamedTuple):
    """How much of a run is driven again.

    Attributes:
        most: seconds of the run.
        fewest: of a run whose link has fewer vehicles: one after another.
        traffic_s: length of each kind of traffic.
        proving: drives steps through a link, each for so many seconds, on vehicles from that number on.
        together: the seconds are those whose limits a flow can reach, and all at the same time.
    """

    most: int
    fewest: int
    traffic_s: float
    proving: Callable[[Link, Sequence[Step], float, int], list[Proof]]
    together: bool


LIMITS: Final = Depth(3, 1, 2.0, verify_limits, together=True)
WHOLE: Final = Depth(5, 3, 4.0, verify, together=False)


@dataclass(frozen=True)
class ProvenSecond:
    """One second of the run with the checks that were made of it.

    Attributes:
        vehicle_id: of the vehicle that was asked for it in the run.
        again: the first measurement was off, this is the second.
    """

    vehicle_id: str
    second: int
    again: bool
    checks: list[Check]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def prove_after_run(
    link: Link, asked: Sequence[Asked], vehicles: int, *, first: int = 1, depth: Depth = WHOLE
) -> list[ProvenSecond]:
    """Drive some of a replay's seconds through its link again; LinkError when the link fails.

    Args:
        link: open, with nobody else's traffic on it any more; its conditions are others afterwards.
        asked: `LinkReplay.distinct()`.
        vehicles: how many the link has, from number `first` on.
        first: of the vehicles.
        depth: how much of the run.
    """
    chosen = _chosen(asked, vehicles, depth)
    made: list[ProvenSecond] = []
    for begin in range(0, len(chosen), vehicles):
        group = chosen[begin : begin + vehicles]
        once = _prove(link, group, depth, first)
        open_ones = [place for place, checks in zip(group, once, strict=True) if _is_open(checks)]
        second = iter(_prove(link, open_ones, depth, first) if open_ones else [])
        for place, checks in zip(group, once, strict=True):
            again = _is_open(checks)
            found = next(second) if again else checks
            made.append(ProvenSecond(end_id(place.asked.vehicle), place.asked.second, again, found))
    return made


def _chosen(asked: Sequence[Asked], vehicles: int, depth: Depth) -> list[_Place]:
    if not depth.together:
        count = min(depth.most, max(depth.fewest, vehicles))
        return [_Place(one) for one in _representative(asked, count)]
    known = [one for one in asked if _reachable(one)]
    count = min(depth.most, max(depth.fewest, vehicles - 1))
    if count == 1:
        known = [one for one in known if _rates_bps(one)] or known  # rather a rate than an outage
    chosen = _representative(known, count)
    while sum(map(_rates_bps, chosen)) > TOTAL_BPS:
        chosen.pop()  # the fastest
    return [*map(_Place, chosen), *_for_losses(asked)]


def _representative(asked: Sequence[Asked], count: int) -> list[Asked]:
    series = [(one.uplink, one.downlink) for one in asked]
    return [asked[index] for index in representative_seconds(series, count)]


def _for_losses(asked: Sequence[Asked]) -> Iterator[_Place]:
    """Yield the fastest second, on which most packets are a light load."""
    fit = [one for one in asked if not any(c.outage or slow(c) for c in (one.uplink, one.downlink))]
    if fit:
        yield _Place(max(fit, key=_slower_way_bps), saturated=False)


def _slower_way_bps(one: Asked) -> float:
    return min(math.inf if c.rate_bps is None else c.rate_bps for c in (one.uplink, one.downlink))


def _reachable(one: Asked) -> bool:
    """Say whether a second has a limit, and flows that reach all it has: below the meter's floor that takes long."""
    pair = (one.uplink, one.downlink)
    limited = any(condition.rate_bps or condition.outage for condition in pair)
    return limited and not any(map(slow, pair)) and _rates_bps(one) <= TOTAL_BPS


def _rates_bps(one: Asked) -> float:
    return (one.uplink.rate_bps or 0.0) + (one.downlink.rate_bps or 0.0)


def _prove(link: Link, group: Sequence[_Place], depth: Depth, first: int) -> list[list[Check]]:
    drain(link, range(first, first + len(group)))
    steps = [Step(f"second {one.second}", one.uplink, one.downlink, saturated) for one, saturated in group]
    return [proof.checks for proof in depth.proving(link, steps, depth.traffic_s, first)]


def _is_open(checks: Sequence[Check]) -> bool:
    """Say whether a second measurement may settle what one has not."""
    return any(
        check.verdict == "off" or (check.verdict == "unproven" and check.parameter.startswith("rate"))
        for check in checks
    )


def probe_checks(proven: Sequence[Mapping[str, Any]]) -> list[Check]:
    """Return one check for each parameter and direction that the seconds have proven or put off; pure.

    Args:
        proven: as `ProvenSecond.as_dict` gives them.
    """
    found = []
    for parameter in PARAMETERS:
        for direction in DIRECTIONS:
            own = [
                (one, check)
                for one in proven
                for check in one["checks"]
                if check["direction"] == direction and check["parameter"].partition(",")[0] == parameter
            ]
            if own:
                found.append(_together(parameter, direction, own))
    return found


def _together(
    parameter: str, direction: str, own: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]
) -> Check:
    verdicts = [check["verdict"] for _one, check in own]
    verdict: Verdict = "off" if "off" in verdicts else "unproven" if "unproven" in verdicts else "pass"
    # Of several the one that decides: the first of the verdict.
    one, check = own[verdicts.index(verdict)]
    where = f"{one['vehicle_id']}, second {one['second']}"
    return Check(
        parameter + PROBED,
        direction,
        check["asked"],
        check["achieved"],
        check["tolerance"],
        verdict,
        check["asked_value"],
        check["achieved_value"],
        f"{len(own)} checks of seconds of this run, driven again behind it; shown: {where}",
    )
