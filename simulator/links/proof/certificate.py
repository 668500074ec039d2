"""The fidelity certificate of a run: what its link was asked, what probes and kernel saw; pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from simulator.links.base import DIRECTIONS, Direction
from simulator.links.proof.after_run import PROBED
from simulator.links.proof.checks import Check, Verdict
from simulator.links.proof.run_delay import DelayOfRun
from simulator.links.proof.run_loss import LossOfRun
from simulator.links.proof.run_outage import OutageOfRun
from simulator.links.proof.run_rate import RateOfRun
from simulator.links.proof.run_seconds import Overview, overview, seconds_of
from simulator.links.step_log import Rows

LATE_TOLERANCE_MS: Final = 100.0
CHANGES: Final = "change each second"


def certificate(
    link_name: str, rows: Rows, replay: dict[str, Any], probed: Sequence[Check] = ()
) -> dict[str, Any]:
    """Return verdict, statement, checks and the probes' cost.

    Args:
        link_name: the back end; "direct" asks nothing and proves nothing.
        rows: of link.parquet, as `LinkReplay.rows` and `Prober.add_to` give them; they are gone through several times.
        replay: `LinkReplay.properties()`.
        probed: what a saturating probe behind the run has shown, from `after_run.probe_checks`.
    """
    known = overview(rows)
    cost = _cost(known)
    if link_name == "direct":
        statement = "The direct link emulates nothing: whatever was asked had no effect."
        return {"verdict": "unproven", "statement": statement, "checks": [], **cost}
    found = [check_punctual(replay)]
    judges = {direction: _judges(direction, known.last_second.get(direction, 0)) for direction in DIRECTIONS}
    for direction, seconds in seconds_of(rows, known):
        for judge in judges[direction]:
            judge.take(seconds)
    made = [judge.check() for own in judges.values() for judge in own]
    found += [check for check in made if check is not None]
    found += probed
    verdict = _verdict(found)
    return {
        "verdict": verdict,
        "statement": _statement(verdict, found, cost),
        "checks": [check.as_dict() for check in found],
        **cost,
    }


def unplayed(rows: Rows) -> dict[str, Any]:
    """Return the certificate of a link whose replay ended before it said what it had done."""
    statement = "Nothing is proven: the replay of the link ended before it said what it had done."
    return {"verdict": "unproven", "statement": statement, "checks": [], **_cost(overview(rows))}


def _cost(known: Overview) -> dict[str, int]:
    return {f"probe_bytes_{direction}": known.probe_bytes[direction] for direction in DIRECTIONS}


def _judges(direction: Direction, last: int) -> tuple[DelayOfRun, LossOfRun, RateOfRun, OutageOfRun]:
    return DelayOfRun(direction), LossOfRun(direction, last), RateOfRun(direction), OutageOfRun(direction)


def _verdict(found: Sequence[Check]) -> Verdict:
    """Return "off" if any check is, and "pass" only where every parameter asked for is proven in its direction."""
    verdicts = {check.verdict for check in _open(found)}
    if any(check.verdict == "off" for check in found):
        return "off"
    return "unproven" if "unproven" in verdicts else "pass"


def _open(found: Sequence[Check]) -> list[Check]:
    """Return the checks without those that the run left unproven and a saturating probe has passed, and the other way round."""
    passed = {_key(check) for check in found if check.verdict == "pass"}
    return [
        check for check in found if check.verdict != "unproven" or passed.isdisjoint(_same_of_other(check))
    ]


def _same_of_other(check: Check) -> set[tuple[str, str]]:
    """Return what would show the same: the probe's line of a parameter for the run's, and the run's for the probe's."""
    bare = check.parameter.removesuffix(PROBED)
    return {(bare, check.direction), (bare + PROBED, check.direction)} - {_key(check)}


def _statement(verdict: Verdict, found: Sequence[Check], cost: dict[str, int]) -> str:
    def named(verdict: Verdict) -> str:
        own = [check for check in _open(found) if check.verdict == verdict]
        by_run = {_key(check) for check in own}
        probes = [c for c in own if (c.parameter.removesuffix(PROBED), c.direction) in by_run - {_key(c)}]
        return ", ".join(_words(check) for check in own if check not in probes or verdict == "off")

    proven = named("pass") or "nothing"
    said = {
        "pass": f"The link did what it was asked. Proven: {proven}.",
        "off": f"The link was OFF in: {named('off')}.",
        "unproven": f"Nothing was off. Proven: {proven}. Too little traffic to prove: {named('unproven')}.",
    }[verdict]
    return (
        f"{said} Probes cost {cost['probe_bytes_uplink']} bytes up and {cost['probe_bytes_downlink']} bytes "
        "down (IP), taken out of the overhead."
    )


def _key(check: Check) -> tuple[str, str]:
    return check.parameter, check.direction


def _words(check: Check) -> str:
    """Return how the statement calls a check."""
    if not check.parameter.endswith(PROBED):
        return f"{check.parameter} {check.direction}"
    return f"{check.parameter.removesuffix(PROBED)} {check.direction} ({PROBED.removeprefix(', ')})"


def check_punctual(replay: dict[str, Any]) -> Check:
    """Judge how late the latest change of a replay was, from `LinkReplay.properties()`."""
    late = replay["applied_late_max_ms"]
    broken = replay.get("failure")
    if replay.get("steps") == 0 and broken is None:
        return Check(CHANGES, "both", "at the second", "no step was played", "", "unproven", 0.0)
    return Check(
        CHANGES,
        "both",
        "at the second",
        f"at most {late:.1f} ms late" if broken is None else str(broken),
        f"{LATE_TOLERANCE_MS:g} ms",
        "pass" if broken is None and late <= LATE_TOLERANCE_MS else "off",
        0.0,
        late,
    )
