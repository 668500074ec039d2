"""Asked against achieved: intervals, quantiles and verdicts; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from schemas.quantiles import rank_index
from simulator.links.proof.beta import betaincinv

Verdict = Literal["pass", "off", "unproven"]
# A check that is right fails one time in a thousand by chance alone.
CONFIDENCE: Final = 0.999


def loss_interval(lost: int, sent: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the exact (Clopper-Pearson) interval of a loss ratio, from `lost` of `sent` packets."""
    tail = (1 - confidence) / 2
    low = 0.0 if lost == 0 else betaincinv(lost, sent - lost + 1, tail)
    high = 1.0 if lost == sent else betaincinv(lost + 1, sent - lost, 1 - tail)
    return low, high


def quantile(values: Sequence[float], ratio: float) -> float:
    """Return the nearest-rank quantile (inverse cumulative distribution) of a non-empty sequence."""
    ranked = sorted(values)
    return ranked[rank_index(len(ranked), ratio)]


@dataclass(frozen=True)
class Check:
    """One parameter of one direction: what was asked, what was seen, and whether they agree.

    `asked`, `achieved` and `tolerance` are texts with their units, for a table; the numbers behind them are
    in `asked_value` and `achieved_value`. `power` says what the check would have found.
    """

    parameter: str
    direction: str
    asked: str
    achieved: str
    tolerance: str
    verdict: Verdict
    asked_value: float | None = None
    achieved_value: float | None = None
    power: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def overall(checks: Sequence[Check]) -> Verdict:
    """Return "off" if any check is, "pass" if any passes and none is off, else "unproven"."""
    verdicts = {check.verdict for check in checks}
    if "off" in verdicts:
        return "off"
    return "pass" if "pass" in verdicts else "unproven"


def check_loss(
    direction: str, asked: float, lost: int, sent: int, parameter: str = "loss", *, bursts: float = 1.0
) -> Check:
    """Judge a loss ratio by the exact interval around what was seen.

    Packets lost in bursts of `bursts` in the mean tell as much as fewer independent ones: n / (2 * bursts - 1),
    from the variance of a two-state chain's mean.
    """
    if sent == 0:
        return Check(parameter, direction, f"{asked:.4f}", "no packet", "", "unproven", asked, None)
    worth = 2 * bursts - 1
    low, high = loss_interval(round(lost / worth), max(1, round(sent / worth)))
    return Check(
        parameter,
        direction,
        f"{asked:.4f}",
        f"{lost / sent:.4f} ({lost} of {sent})",
        f"99.9 %: {low:.4f} to {high:.4f}",
        "pass" if low <= asked <= high else "off",
        asked,
        lost / sent,
    )


def check_delay(
    direction: str,
    asked_ms: float,
    delays_ms: Sequence[float],
    tolerance_ms: float,
    *,
    least: int = 5,
    early_ms: float = 0.1,
) -> Check:
    """Judge one-way delays: the median near what was asked, and not one in a hundred early by `early_ms`."""
    if len(delays_ms) < least:
        seen = f"{len(delays_ms)} packets"
        return Check("delay", direction, f"{asked_ms:.2f} ms", seen, f"needs {least}", "unproven", asked_ms)
    median, p99 = quantile(delays_ms, 0.5), quantile(delays_ms, 0.99)
    # Early by more than a tick of 0.1 ms would be a packet that overtook the delay line.
    early = sum(delay < asked_ms - early_ms for delay in delays_ms)
    good = abs(median - asked_ms) <= tolerance_ms and early <= len(delays_ms) / 100
    return Check(
        "delay",
        direction,
        f"{asked_ms:.2f} ms",
        f"p50 {median:.2f}, p99 {p99:.2f} ms, {early} early",
        f"p50 within {tolerance_ms:.2f} ms",
        "pass" if good else "off",
        asked_ms,
        median,
    )
