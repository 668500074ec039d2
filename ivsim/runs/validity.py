"""Whether a run's figures may be used, and why not; pure, it corrects nothing.

A run can end in order and still be no measurement: its link did something else, its ledger lacks a source, its own
sender was late. Each such finding is a cause with a severity, and the run is as valid as its worst cause:

- `invalid`: a figure may be wrong, or is missing a part. `ivsim run` ends with exit code 4, a study keeps the cell as
  failed.
- `degraded`: the figures are what they say, with a reservation that stands beside them.

A link that is `unproven` is no cause: the certificate says what was proven, and sparse traffic proves little.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from schemas.quantiles import nearest_rank_ms
from simulator.links.proof.certificate import CHANGES, LATE_TOLERANCE_MS

Verdict = Literal["valid", "degraded", "invalid"]
EXIT_INVALID: Final = 4
# Of messages that no connection and no full outbox held back: what is late then is late by the sender itself.
LAG_DEGRADES_MS, LAG_INVALIDATES_MS = 50.0, 1_000.0
DRIFT_LIMIT_MS: Final = 1.0
LATE_INVALIDATES_MS: Final = 1_000.0
_RANK: Final = {"valid": 0, "degraded": 1, "invalid": 2}


class Cause(NamedTuple):
    """One reason why a run is less than valid.

    Attributes:
        name: of the kind: partial_ledger, fate_unknown, certificate_off, link_changes_late, live_figures_differ,
            generator_limited, sender_died, agent_lost, clock_moved, clocks_apart, capture_dropped,
            vehicle_dropped, gateway_dropped, gateway_refused, twin_reopened, share_not_valid.
        severity: degraded or invalid.
        words: what was found, for a person.
    """

    name: str
    severity: Verdict
    words: str


class Validity(NamedTuple):
    """What a run's figures are worth: the worst severity among the causes, `valid` without any."""

    verdict: Verdict
    causes: tuple[Cause, ...]

    def as_dict(self) -> dict[str, Any]:
        return {"verdict": self.verdict, "causes": [cause._asdict() for cause in self.causes]}

    @property
    def words(self) -> str:
        """Return the causes in one line, the worst first."""
        ranked = sorted(self.causes, key=lambda cause: -_RANK[cause.severity])
        return "; ".join(cause.words for cause in ranked)


def judge(
    metrics: Mapping[str, Any],
    *,
    sender_lag_p99_ms: float | None,
    capture_drops: int | None,
    vehicle_drops: int = 0,
    gateway_drops: int | None = None,
    refused_gateways: Sequence[str] = (),
    twin_reopened: Sequence[str] = (),
    dead_senders: Sequence[str] = (),
    lost_senders: Sequence[str] = (),
) -> Validity:
    """Return the validity of a run.

    Args:
        metrics: metrics.json, with certificate and the comparison of live figures.
        sender_lag_p99_ms: emission lag of messages that were not held back; None when none was emitted.
        capture_drops: frames that the kernel dropped before the capture read them; None when nobody knows.
        vehicle_drops: datagrams that this system did not take from the vehicles, as far as senders have said so.
        gateway_drops: datagrams that found a gateway's socket full; None where nobody knows, and with a broker.
        refused_gateways: a line for each gateway that its broker refused on the way.
        twin_reopened: a line for each time that a query of the twins died and was opened again.
        dead_senders: a line for each of several senders that died on the way, while the others went on.
        lost_senders: likewise of those that were lost with their agent.
    """
    causes = (
        *_causes(metrics, sender_lag_p99_ms, capture_drops),
        *_dropped(vehicle_drops, gateway_drops),
        *(Cause("gateway_refused", "degraded", line) for line in refused_gateways),
        *(Cause("twin_reopened", "degraded", line) for line in twin_reopened),
        *_clocks(metrics),
        *_shares(metrics),
        *map(_died, dead_senders),
        *map(_lost, lost_senders),
    )
    return of_causes(causes)


def of_causes(causes: Iterable[Cause]) -> Validity:
    """Return the validity that these causes leave."""
    found = tuple(causes)
    severities: list[Verdict] = ["valid", *(cause.severity for cause in found)]
    return Validity(max(severities, key=lambda one: _RANK[one]), found)


def _dropped(vehicle_drops: int, gateway_drops: int | None) -> Iterator[Cause]:
    if vehicle_drops:
        words = (
            f"the system did not take {vehicle_drops} datagrams of vehicles (no route, or a full buffer):"
            " what left no other time counts as lost at the link"
        )
        yield Cause("vehicle_dropped", "degraded", words)
    if gateway_drops:
        words = f"{gateway_drops} datagrams found the gateway's socket full: what came no other time counts as lost at the link"
        yield Cause("gateway_dropped", "degraded", words)


def _died(line: str) -> Cause:
    return Cause(
        "sender_died", "degraded", f"{line}: what it had not sent is unsent, with the reason sender_ended"
    )


def _lost(line: str) -> Cause:
    words = f"{line}: what its log does not say it has sent is unsent, with the reason agent_lost"
    return Cause("agent_lost", "degraded", words)


def _clocks(metrics: Mapping[str, Any]) -> Iterator[Cause]:
    for agent in metrics.get("agents") or []:
        uncertainty_ms = agent["clock_uncertainty_ms"]
        if uncertainty_ms is None:
            yield Cause(
                "clocks_apart",
                "degraded",
                f"how far the clock of agent {agent['address']} is ahead is unknown",
            )
        elif uncertainty_ms > DRIFT_LIMIT_MS:
            words = (
                f"times of agent {agent['address']} are by this clock to within {uncertainty_ms:.3f} ms alone"
                f" (limit {DRIFT_LIMIT_MS:g} ms)"
            )
            yield Cause("clocks_apart", "degraded", words)


def _shares(metrics: Mapping[str, Any]) -> Iterator[Cause]:
    for share in metrics.get("shares") or []:
        if share["verdict"] in {"degraded", "invalid"}:  # None: it is missing
            words = f"share {share['share']} is {share['verdict']}: {share['words']}"
            yield Cause("share_not_valid", share["verdict"], words)


def judge_link(metrics: Mapping[str, Any], capture_drops: int | None) -> Iterator[Cause]:
    """Yield what is wrong with a link, by its certificate, and with what was captured of it.

    Args:
        metrics: with the certificate.
        capture_drops: frames that the kernel dropped before the capture read them; None when nobody knows.
    """
    yield from _off(metrics)
    yield from _missed(capture_drops)


def _missed(capture_drops: int | None) -> Iterator[Cause]:
    if capture_drops:
        words = f"the capture lost {capture_drops} frames: wire bytes are too few"
        yield Cause("capture_dropped", "invalid", words)


def _off(metrics: Mapping[str, Any]) -> Iterator[Cause]:
    certificate = metrics.get("certificate") or {}
    if certificate.get("verdict") == "off":
        # A change some 100 ms late is a wrong rate for as long; a wrong delay, loss or rate is wrong all the time.
        off = [c for c in certificate["checks"] if c["verdict"] == "off"]
        late = [
            c
            for c in off
            if c["parameter"] == CHANGES
            and LATE_TOLERANCE_MS < (c["achieved_value"] or 0.0) <= LATE_INVALIDATES_MS
        ]
        for check in late:
            late_ms = check["achieved_value"]
            words = (
                f"the latest change of the link came {late_ms:.1f} ms late (limit {LATE_TOLERANCE_MS:g} ms)"
            )
            yield Cause("link_changes_late", "degraded", words)
        wrong = ", ".join(f"{c['parameter']} {c['direction']}" for c in off if c not in late)
        if wrong:
            yield Cause("certificate_off", "invalid", f"the link was off in: {wrong}")


def _causes(metrics: Mapping[str, Any], lag_ms: float | None, drops: int | None) -> Iterator[Cause]:
    if metrics.get("partial"):
        reason = metrics.get("partial_reason") or "the run was stopped early"
        yield Cause("partial_ledger", "invalid", f"the ledger is partial: {reason}")
    if unknown := metrics.get("unknown"):
        words = f"the fate of {unknown} of {metrics['due']} messages due is unknown"
        yield Cause("fate_unknown", "invalid", words)
    yield from _off(metrics)
    live = metrics.get("live") or {}
    if live.get("verdict") not in {None, "agree"}:
        yield Cause("live_figures_differ", "degraded", "live figures and ledger differ")
    if lag_ms is not None and lag_ms > LAG_DEGRADES_MS:
        severity: Verdict = "invalid" if lag_ms > LAG_INVALIDATES_MS else "degraded"
        words = (
            f"the sender itself was late: emission lag p99 {lag_ms:,.1f} ms (limit {LAG_DEGRADES_MS:g} ms)"
            " of messages that nothing held back"
        )
        yield Cause("generator_limited", severity, words)
    drift_ms = metrics.get("clock_drift_ms")
    if drift_ms is not None and abs(drift_ms) > DRIFT_LIMIT_MS:
        words = f"the wall clock moved {drift_ms:.3f} ms against the monotonic clock (limit {DRIFT_LIMIT_MS:g} ms)"
        yield Cause("clock_moved", "degraded", words)
    yield from _missed(drops)


def sender_lag_p99_ms(ledger: Path) -> float | None:
    """Return the 99th percentile (nearest rank) of emission lag over messages that were not held back, in ms.

    A message waits in its outbox for a connection, or for the answer to the one before (CoAP's NSTART): that wait is the
    protocol's, and not the sender's. None without such messages, and without a ledger.
    """
    if not ledger.is_file():
        return None
    rows = pq.read_table(ledger, columns=["emission_lag_ns", "buffered"])
    own = rows.filter(pc.and_(pc.is_valid(rows["emission_lag_ns"]), pc.invert(rows["buffered"])))
    return nearest_rank_ms(np.sort(own["emission_lag_ns"].to_numpy()), 0.99)
