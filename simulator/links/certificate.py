"""The fidelity certificate of a run: what its link was asked, what probes and kernel saw; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from simulator.links import judging, prober
from simulator.links.base import DIRECTIONS
from simulator.links.judging import Check, Verdict
from simulator.links.queueing import FLOOR_BYTES, FRAME_BYTES

Row = dict[str, Any]
DELAY_TOLERANCE_MS: Final = 1.0
LATE_TOLERANCE_MS: Final = 100.0
RATE_TOLERANCE: Final = 0.03
SETTLE_SECONDS: Final = 3  # probes of the last seconds may still have been on their way


def certificate(link_name: str, rows: Sequence[Row], replay: dict[str, Any]) -> dict[str, Any]:
    """Return verdict, statement, checks and the probes' cost.

    Args:
        link_name: the back end; "direct" asks nothing and proves nothing.
        rows: of link.parquet, as `LinkReplay.rows` and `Prober.add_to` give them.
        replay: `LinkReplay.properties()`.
    """
    cost = {
        f"probe_bytes_{d}": sum(row["probe_bytes"] for row in rows if row["direction"] == d)
        for d in DIRECTIONS
    }
    if link_name == "direct":
        statement = "The direct link emulates nothing: whatever was asked had no effect."
        return {"verdict": "unproven", "statement": statement, "checks": [], **cost}
    groups = [[check_punctual(replay)]]
    for direction in DIRECTIONS:
        own = [row for row in rows if row["direction"] == direction]
        groups.append(
            [
                _delay(direction, own),
                _probe_loss(direction, own),
                _kernel_loss(direction, own),
                _ceiling(direction, own),
                _saturated(direction, own),
            ]
        )
    checks = [check for group in groups for check in group]
    verdict = _verdict([judging.overall(group) for group in groups])
    return {
        "verdict": verdict,
        "statement": _statement(verdict, checks, cost),
        "checks": [check.as_dict() for check in checks],
        **cost,
    }


def _verdict(verdicts: Sequence[Verdict]) -> Verdict:
    """Return "off" if any group is, and "pass" only where each of them has something that proves it."""
    if "off" in verdicts:
        return "off"
    return "unproven" if "unproven" in verdicts else "pass"


def _statement(verdict: Verdict, checks: Sequence[Check], cost: dict[str, int]) -> str:
    off = [f"{check.parameter} {check.direction}" for check in checks if check.verdict == "off"]
    said = {
        "pass": "The link did what it was asked, as far as probes and the kernel's counters can tell.",
        "off": f"The link was OFF in: {', '.join(off)}.",
        "unproven": "Nothing was off, but there was too little traffic to prove anything.",
    }[verdict]
    return (
        f"{said} Probes cost {cost['probe_bytes_uplink']} bytes up and {cost['probe_bytes_downlink']} bytes "
        "down (IP), taken out of the overhead."
    )


def check_punctual(replay: dict[str, Any]) -> Check:
    """Judge how late the latest change of a replay was, from `LinkReplay.properties()`."""
    late = replay["applied_late_max_ms"]
    broken = replay.get("failure")
    if replay.get("steps") == 0 and broken is None:
        return Check("change each second", "both", "at the second", "no step was played", "", "unproven", 0.0)
    return Check(
        "change each second",
        "both",
        "at the second",
        f"at most {late:.1f} ms late" if broken is None else str(broken),
        f"{LATE_TOLERANCE_MS:g} ms",
        "pass" if broken is None and late <= LATE_TOLERANCE_MS else "off",
        0.0,
        late,
    )


def _proper(row: Row) -> bool:
    """Return whether the row's rate is none at all or one that is served frame by frame."""
    rate = row["asked_rate_bps"]
    return rate is None or rate / 8 >= FLOOR_BYTES


def _delay(direction: str, rows: Sequence[Row]) -> Check:
    """The probes' excess over what was asked; a queue behind the run's own messages only adds to it."""
    excess = []
    for row in rows:
        if row["probe_delay_ms"] is None or not _proper(row):
            continue
        rate = row["asked_rate_bps"]
        serialisation_ms = 0.0 if rate is None else prober.FRAME_BYTES * 8e3 / rate
        excess.append(row["probe_delay_ms"] - row["asked_delay_ms"] - serialisation_ms)
    if any(row.get("asked_reorder_ratio") for row in rows):
        seen = f"{len(excess)} packets, some of which were asked to overtake"
        return Check("delay", direction, "0.00 ms", seen, "", "unproven", 0.0)
    # netem's tables end at four times the spread.
    spread_ms = max((row.get("asked_jitter_ms", 0.0) for row in rows), default=0.0)
    tolerance_ms = DELAY_TOLERANCE_MS + spread_ms
    return judging.check_delay(direction, 0.0, excess, tolerance_ms, least=10, early_ms=0.1 + 4 * spread_ms)


def _probe_loss(direction: str, rows: Sequence[Row]) -> Check:
    last = max((row["second"] for row in rows), default=0) - SETTLE_SECONDS
    sent = [row for row in rows if row["probe_sent"] and row["second"] <= last and row["asked_rate_bps"] != 0]
    asked = sum(row["asked_loss_ratio"] for row in sent) / len(sent) if sent else 0.0
    lost = sum(1 - row["probe_received"] for row in sent)
    return judging.check_loss(direction, asked, lost, len(sent), "loss, probes", bursts=_bursts(rows))


def _kernel_loss(direction: str, rows: Sequence[Row]) -> Check:
    """What netem itself has dropped, over all packets of the run."""
    counted = [row for row in rows if row["qdisc_packets"] is not None]
    lost = sum(row["drops"] - row["queue_drops"] for row in counted)
    offered = [row["qdisc_packets"] + row["drops"] - row["queue_drops"] for row in counted]
    total = sum(offered)
    asked = sum(row["asked_loss_ratio"] * n for row, n in zip(counted, offered, strict=True))
    mean = asked / total if total else 0.0
    return judging.check_loss(direction, mean, lost, total, "loss, kernel", bursts=_bursts(rows))


def _bursts(rows: Sequence[Row]) -> float:
    return max((row.get("asked_burst_packets", 1.0) for row in rows), default=1.0)


def _with_before(rows: Sequence[Row]) -> Iterator[tuple[Row, Row]]:
    """Yield each row with the same vehicle's row of the second before."""
    found = {(row["vehicle_id"], row["second"]): row for row in rows}
    for row in rows:
        before = found.get((row["vehicle_id"], row["second"] - 1))
        if before is not None:
            yield before, row


def _ceiling(direction: str, rows: Sequence[Row]) -> Check:
    """No second may carry more than its rate allows (the second before counts for what was on its way)."""
    over, judged = 0, 0
    for before, row in _with_before(rows):
        rates = (before["asked_rate_bps"], row["asked_rate_bps"])
        if row["qdisc_bytes"] is None or None in rates or not (_proper(row) and _proper(before)):
            continue
        judged += 1
        # Two frames for those in service at the step's ends.
        allowed = max(rates) / 8 * _length_s(before, row) * (1 + RATE_TOLERANCE) + 2 * FRAME_BYTES
        over += row["qdisc_bytes"] > allowed
    return Check(
        "rate, never above",
        direction,
        "the asked rate",
        f"{over} of {judged} seconds above",
        "0",
        "unproven" if judged == 0 else "pass" if over == 0 else "off",
        0.0,
        float(over),
    )


def _length_s(before: Row, row: Row) -> float:
    """Return how many seconds' worth of bytes may leave in a step.

    As long as the counters were apart, and what a delay that became shorter lets out early; 100 ms where
    nobody noted when they were read.
    """
    began_ns, ended_ns = before.get("counted_at_ns"), row.get("counted_at_ns")
    apart_s = 1.1 if began_ns is None or ended_ns is None else max(1.0, (ended_ns - began_ns) / 1e9 + 0.01)
    earlier_s: float = max(0.0, before["asked_delay_ms"] - row["asked_delay_ms"]) / 1e3
    return apart_s + earlier_s


def _saturated(direction: str, rows: Sequence[Row]) -> Check:
    """In seconds that began and ended with a queue the link must have carried its full rate."""
    ratios = []
    for before, row in _with_before(rows):
        rate = row["asked_rate_bps"]
        if not rate or not _proper(row) or row["qdisc_bytes"] is None or rate != before["asked_rate_bps"]:
            continue
        # More than the delay line holds, so that some of it must wait for the rate.
        line = rate / 8 * row["asked_delay_ms"] / 1e3 + 4 * FRAME_BYTES
        if min(before["backlog_bytes"], row["backlog_bytes"]) > line:
            ratios.append(row["qdisc_bytes"] * 8 / (rate * (1 - row["asked_loss_ratio"])))
    if len(ratios) < 3:
        return Check("rate, saturated", direction, "1", f"{len(ratios)} such seconds", "", "unproven", 1.0)
    median = judging.quantile(ratios, 0.5)
    return Check(
        "rate, saturated",
        direction,
        "1",
        f"{median:.3f} (median of {len(ratios)} seconds)",
        f"within {RATE_TOLERANCE:g}",
        "pass" if abs(median - 1) <= RATE_TOLERANCE else "off",
        1.0,
        median,
    )
