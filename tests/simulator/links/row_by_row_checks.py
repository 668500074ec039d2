"""The checks of a run's certificate, row by row: what the judges of columns are held against."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from simulator.links.proof import prober
from simulator.links.proof.checks import Check, Verdict, quantile
from simulator.links.proof.power import ALPHA, SharePower, least_by_chance, most_by_chance, share_power
from simulator.links.queueing import FRAME_BYTES
from tests.simulator.links.row_by_row import LinkSecond, Row, seconds_of

DELAY_TOLERANCE_MS: Final = 1.0
EARLY_MS: Final = 0.1
# Later than this by no queue: of at most 5 %, and of at most 1 % of the probes.
P95_LATE_MS, P99_LATE_MS = 10.0, 50.0
# A probe of a second used less than this, with no queue before it, meets another packet less than half of the time.
QUIET_UTILISATION: Final = 0.25
LARGEST_HIDDEN_SHARE: Final = 0.3  # a delay passes where a late share above this would have been found
RATE_TOLERANCE: Final = 0.03
LEAST_SATURATED_SECONDS: Final = 3
LARGEST_RATE_TOLERANCE: Final = 0.15
NEAR_THE_RATE: Final = 0.8
SETTLE_S: Final = 3.0  # what a probe may need beside delay and queue before the run's end
LEAK_S: Final = 0.1  # an outage that begins this late still passes for one


def check_delay_of_run(direction: str, seconds: Sequence[LinkSecond]) -> Check:
    """Judge propagation by the probes' excess over what was asked, apart from the wait in the run's own queue.

    The median where the link was hardly used; p95 and p99 of what is above the longest wait that the queue explains,
    and early packets, everywhere.
    """
    quiet, unexplained, late_by = [], [], []
    rows = [second.row for second in seconds]
    spread_ms = max((row.get("asked_jitter_ms") or 0.0 for row in rows), default=0.0)
    for second in seconds:
        row, rate = second.row, second.rate_bps
        if row["probe_delay_ms"] is None or rate == 0 or not second.served_frame_by_frame:
            continue
        transmission_ms = 0.0 if rate is None else prober.FRAME_BYTES * 8e3 / rate
        excess_ms = row["probe_delay_ms"] - row["asked_delay_ms"] - transmission_ms
        late_by.append(excess_ms)
        waited = 0 if second.before is None else second.before["backlog_bytes"] or 0
        if second.utilisation < QUIET_UTILISATION and waited <= second.line_bytes:
            quiet.append(excess_ms)
        wait_ms = second.longest_wait_ms()
        if wait_ms is not None:
            unexplained.append(excess_ms - wait_ms)
    asked = "0.00 ms more"
    if any(row.get("asked_reorder_ratio") for row in rows):
        seen = f"{len(late_by)} packets, some of which were asked to overtake"
        return Check("delay", direction, asked, seen, "", "unproven", 0.0)
    if not late_by:
        return Check("delay", direction, asked, "no probe came", "", "unproven", 0.0)
    n, tail_ms = len(unexplained), 4 * spread_ms  # netem's tables end at four times the spread
    early = sum(excess < -(EARLY_MS + tail_ms) for excess in late_by)
    over_median = sum(excess > DELAY_TOLERANCE_MS + spread_ms for excess in quiet)
    over_p95 = sum(excess > P95_LATE_MS + tail_ms for excess in unexplained)
    over_p99 = sum(excess > P99_LATE_MS + tail_ms for excess in unexplained)
    off = (
        early > most_by_chance(len(late_by), 0.01)
        or over_median > most_by_chance(len(quiet), 0.5)
        or over_p95 > most_by_chance(n, 0.05)
        or over_p99 > most_by_chance(n, 0.01)
    )
    hidden = share_power(n, 0.05, two_sided=False).above if n else 1.0
    shifted = share_power(len(quiet), 0.5, two_sided=False).above if quiet else 1.0
    proven = hidden <= LARGEST_HIDDEN_SHARE and shifted < 1
    above = [max(0.0, excess) for excess in unexplained] or [math.nan]
    return Check(
        "delay",
        direction,
        asked,
        f"p50 {quantile(quiet or late_by, 0.5):.2f} ms {'on a quiet link' if quiet else 'queues included'}; beyond the"
        f" longest queue p95 {quantile(above, 0.95):.2f}, p99 {quantile(above, 0.99):.2f} ms; {early} early",
        f"p50 {DELAY_TOLERANCE_MS + spread_ms:g}, p95 {P95_LATE_MS + tail_ms:g}, p99 {P99_LATE_MS + tail_ms:g} ms",
        "off" if off else "pass" if proven else "unproven",
        0.0,
        quantile(quiet or late_by, 0.5),
        power=f"{n} probes, {len(quiet)} on a quiet link: a share of {hidden:.0%} late would show",
    )


def check_loss_of_run(direction: str, seconds: Sequence[LinkSecond]) -> Check:
    """Judge loss twice, by netem's own counts of all packets and by the probes that came back, as one verdict."""
    rows = [second.row for second in seconds]
    bursts = max((row.get("asked_burst_packets") or 1.0 for row in rows), default=1.0)
    counted = [row for row in rows if row["qdisc_packets"] is not None]
    offered = [row["qdisc_packets"] + row["drops"] - row["queue_drops"] for row in counted]
    dropped = sum(row["drops"] - row["queue_drops"] for row in counted)
    by_kernel = _Loss.of(sum(offered), dropped, counted, offered, bursts)
    # A probe sent into an outage, a full queue, or into a queue that outlived the run was not lost by the link's loss.
    last = max((row["second"] for row in rows), default=0)
    judged = [s.row for s in seconds if s.row["probe_sent"] and not _may_still_wait(s, last)]
    came = sum(row["probe_received"] for row in judged)
    by_probes = _Loss.of(len(judged), len(judged) - came, judged, [1] * len(judged), bursts)
    both = (by_kernel, by_probes)
    best = min(both, key=lambda loss: loss.finds.above)
    verdict: Verdict = "unproven"
    if any(loss.off for loss in both):
        verdict = "off"
    elif any(loss.tells for loss in both):
        verdict = "pass"
    shown = by_kernel if by_kernel.packets else by_probes
    return Check(
        "loss",
        direction,
        "" if shown.asked is None else f"{shown.asked:.4f}",
        f"kernel {by_kernel.words()}, probes {by_probes.words()}",
        "chance",
        verdict,
        shown.asked,
        shown.ratio,
        power=best.power_words(),
    )


class _Loss:
    """Packets lost of packets sent, against the mean of what was asked for each."""

    def __init__(self, packets: int, lost: int, asked: float | None, bursts: float) -> None:
        self.packets, self.lost, self.asked = packets, lost, asked
        # Lost in bursts, packets tell as much as fewer independent ones: n / (2 b - 1), a two-state chain's mean.
        worth = 2 * bursts - 1
        self.n, self.count = round(packets / worth), round(lost / worth)
        self.finds = SharePower(1.0, None) if asked is None else share_power(self.n, asked, two_sided=True)

    @classmethod
    def of(cls, packets: int, lost: int, rows: Sequence[Row], weights: Sequence[int], bursts: float) -> _Loss:
        if not packets:
            return cls(0, 0, None, bursts)
        asked = sum(row["asked_loss_ratio"] * n for row, n in zip(rows, weights, strict=True)) / packets
        return cls(packets, lost, min(1.0, asked), bursts)

    @property
    def ratio(self) -> float | None:
        return self.lost / self.packets if self.packets else None

    @property
    def off(self) -> bool:
        if self.asked is None or not self.n:
            return False
        half = 0.5  # of the check's share of chance, on each side
        if self.asked in {0.0, 1.0}:
            return self.count != round(self.n * self.asked)
        alpha = ALPHA * half
        return self.count > most_by_chance(self.n, self.asked, alpha) or self.count < least_by_chance(
            self.n, self.asked, alpha
        )

    @property
    def tells(self) -> bool:
        """Whether twice the loss (and a hundredth) would have shown, and a third of it where it is large."""
        if self.asked is None:
            return False
        low = self.asked / 3 - 0.01
        enough_below = low <= 0 or (self.finds.below is not None and self.finds.below >= low)
        return self.finds.above <= 2 * self.asked + 0.02 and enough_below

    def words(self) -> str:
        return "no packet" if self.ratio is None else f"{self.ratio:.4f} ({self.lost:,} of {self.packets:,})"

    def power_words(self) -> str:
        if self.asked is None:
            return "nothing was sent"
        below = "" if self.finds.below is None else f" or below {self.finds.below:.4f}"
        return f"a loss above {self.finds.above:.4f}{below} would show"


def _may_still_wait(second: LinkSecond, last: int) -> bool:
    if second.rate_bps == 0 or second.row["queue_drops"]:
        return True
    wait_ms = second.longest_wait_ms()
    if wait_ms is None:
        return True
    return bool(second.row["second"] + (second.row["asked_delay_ms"] + wait_ms) / 1e3 + SETTLE_S > last + 1)


def check_outage(direction: str, seconds: Sequence[LinkSecond]) -> Check | None:
    """Judge the seconds without a rate: nothing passes that was not in the delay line, and no probe comes before the end."""
    out = [second for second in seconds if second.rate_bps == 0]
    if not out:
        return None
    leaked, offered = 0, 0
    for second in out:
        row = second.row
        if row["probe_sent"]:
            offered += 1
            earliest_ms = (second.outage_left_s - LEAK_S) * 1e3
            leaked += row["probe_delay_ms"] is not None and row["probe_delay_ms"] < earliest_ms
        if row["qdisc_bytes"] is None or second.capacity_bytes is None:
            continue
        before_rate = 0.0 if second.before is None else (second.before["asked_rate_bps"] or 0.0)
        offered += bool(row["backlog_bytes"])
        allowed = second.capacity_bytes + before_rate / 8 * LEAK_S + 2 * FRAME_BYTES
        leaked += row["qdisc_bytes"] > allowed
    verdict: Verdict = "off" if leaked else "pass" if offered else "unproven"
    return Check(
        "outage",
        direction,
        f"{len(out)} seconds without a rate",
        f"{leaked} leaks",
        "what was in the delay line",
        verdict,
        0.0,
        float(leaked),
        power=f"{offered} probes and queues waited in it",
    )


def check_rate(direction: str, seconds: Sequence[LinkSecond]) -> Check | None:
    """Judge the rate from above in every second, and from below where a queue stood before it throughout.

    Seconds with a queue at both ends are taken in runs, whatever rates they were asked for: what left the delay line
    in a run is the integral of the rates one delay earlier, and the frames cut by its ends count once a run.
    """
    if not any(second.rate_bps for second in seconds):
        return None
    asked = [second for second in seconds if second.rate_bps and second.served_frame_by_frame]
    above = [second for second in asked if _above(second)]
    near = sum(second.queued_through or second.utilisation >= NEAR_THE_RATE for second in asked)
    runs = list(_saturated_runs(seconds))
    count = sum(len(run) for run in runs)
    passed, capacity, tolerance = _over_runs(runs)
    ratio = passed / capacity if capacity else None
    enough = count >= LEAST_SATURATED_SECONDS and tolerance <= LARGEST_RATE_TOLERANCE
    off = bool(above) or (enough and ratio is not None and abs(ratio - 1) > tolerance)
    verdict: Verdict = "off" if off else "pass" if enough else "unproven"
    return Check(
        "rate",
        direction,
        "the asked rate",
        f"{len(above)} of {near} seconds near it above"
        + ("" if ratio is None else f"; {ratio:.3f} of it in {count} saturated seconds"),
        f"within {tolerance:.1%}" if enough else f"needs {LEAST_SATURATED_SECONDS} saturated seconds",
        verdict,
        1.0,
        ratio,
        power=f"{near} of {len(asked)} seconds near the rate, {count} saturated",
    )


def _above(second: LinkSecond) -> bool:
    """Whether the step passed more than its rates allow; unlimited seconds before it allow anything."""
    row, before = second.row, second.before
    if row["qdisc_bytes"] is None or before is None or before["asked_rate_bps"] is None:
        return False
    rates = (before["asked_rate_bps"], row["asked_rate_bps"])
    began_ns, ended_ns = before.get("counted_at_ns"), row.get("counted_at_ns")
    # 100 ms where nobody noted when the counters were read; and what a shorter delay lets out early.
    apart_s = 1.1 if not began_ns or not ended_ns else max(1.0, (ended_ns - began_ns) / 1e9 + 0.01)
    earlier_s = max(0.0, before["asked_delay_ms"] - row["asked_delay_ms"]) / 1e3
    allowed = max(rates) / 8 * (apart_s + earlier_s) * (1 + RATE_TOLERANCE) + 2 * FRAME_BYTES
    return bool(row["qdisc_bytes"] > allowed)


def _saturated_runs(seconds: Sequence[LinkSecond]) -> Iterator[list[LinkSecond]]:
    run: list[LinkSecond] = []
    for previous, second in zip((None, *seconds), seconds, strict=False):
        joined = previous is not None and second.before is previous.row
        usable = (
            second.queued_through
            and second.served_frame_by_frame
            and second.capacity_bytes is not None
            and second.before is not None
            and bool(second.before["asked_rate_bps"])
        )
        if run and not (joined and usable):
            yield run
            run = []
        if usable:
            run.append(second)
    if run:
        yield run


def _over_runs(runs: Sequence[Sequence[LinkSecond]]) -> tuple[float, float, float]:
    """Return bytes passed, bytes that a busy link passes, and the tolerance of their ratio."""
    passed, capacity, variance, packets = 0.0, 0.0, 0.0, 0
    for run in runs:
        for second in run:
            loss = second.row["asked_loss_ratio"]
            passed += second.row["qdisc_bytes"]
            capacity += (second.capacity_bytes or 0.0) * (1 - loss)
            packets += second.row["qdisc_packets"] or 0
            variance += (second.row["qdisc_packets"] or 0) * loss / max(1e-9, 1 - loss)
    frames = 2 * FRAME_BYTES * len(runs) / capacity if capacity else 0.0
    chance = 3.3 * math.sqrt(variance) / packets if packets else 0.0
    return passed, capacity, RATE_TOLERANCE + frames + chance


def checks_by_row(rows: Sequence[Row], directions: Sequence[str]) -> list[Check]:
    """Return the checks of a certificate that rows of link.parquet come to."""
    found = []
    for direction in directions:
        seconds = list(seconds_of([row for row in rows if row["direction"] == direction]))
        made = (
            check_delay_of_run(direction, seconds),
            check_loss_of_run(direction, seconds),
            check_rate(direction, seconds),
            check_outage(direction, seconds),
        )
        found += [check for check in made if check is not None]
    return found
