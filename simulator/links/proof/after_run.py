"""A run's own seconds once more, behind it, under flows that reach every limit: sparse traffic proves no rate.

Up to five of the seconds that the run asked of its link (an outage, the slowest, the fastest and even ranks between) are
set again, each on a vehicle of its own, and driven as `ivsim link verify` drives a link: light probes for delay and loss,
then 115 % of the rate. What is off is measured once more, and the second measurement counts. This says that the
same link, asked for the same, does it; that the run's own packets were served so is the certificate's other rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from schemas.topics import end_id
from simulator.links.base import DIRECTIONS, Link
from simulator.links.proof.checks import Check, Verdict
from simulator.links.proof.verify import Proof, Step, drain, representative_seconds, verify
from simulator.links.step_log import Asked

SECONDS_PROVEN: Final = 5
FEWEST_SECONDS: Final = 3  # of a run whose link has fewer vehicles: one after another
TRAFFIC_S: Final = 4.0
PROBED: Final = ", saturating probe"
# Drives steps through a link, each for so many seconds, on vehicles from that number on.
Proving = Callable[[Link, Sequence[Step], float, int], list[Proof]]
# The parameters of a certificate, in its order; the checks of `verify` are named after them.
PARAMETERS: Final = ("delay", "loss", "rate", "outage")


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
    link: Link,
    asked: Sequence[Asked],
    vehicles: int,
    *,
    first: int = 1,
    proving: Proving = verify,
) -> list[ProvenSecond]:
    """Drive some of a replay's seconds through its link again; LinkError when the link fails.

    Args:
        link: open, with nobody else's traffic on it any more; its conditions are others afterwards.
        asked: `LinkReplay.distinct()`.
        vehicles: how many the link has, from number `first` on.
        first: of the vehicles.
        proving: what drives steps through a link.
    """
    series = [(one.uplink, one.downlink) for one in asked]
    count = min(SECONDS_PROVEN, max(FEWEST_SECONDS, vehicles))
    chosen = [asked[index] for index in representative_seconds(series, count)]
    made: list[ProvenSecond] = []
    for begin in range(0, len(chosen), vehicles):
        group = chosen[begin : begin + vehicles]
        once = _prove(link, group, proving, first)
        off = [place for place, checks in zip(group, once, strict=True) if _is_off(checks)]
        second = iter(_prove(link, off, proving, first) if off else [])
        for place, checks in zip(group, once, strict=True):
            again = _is_off(checks)
            found = next(second) if again else checks
            made.append(ProvenSecond(end_id(place.vehicle), place.second, again, found))
    return made


def _prove(link: Link, group: Sequence[Asked], proving: Proving, first: int) -> list[list[Check]]:
    drain(link, range(first, first + len(group)))
    steps = [Step(f"second {one.second}", one.uplink, one.downlink) for one in group]
    return [proof.checks for proof in proving(link, steps, TRAFFIC_S, first)]


def _is_off(checks: Sequence[Check]) -> bool:
    return any(check.verdict == "off" for check in checks)


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
