"""What certificate and validity rest on, from the link's log and the figures: counts, ratios and verdicts over verdicts.

The verdicts of single checks on delay, rate and outage come from a model of the link's queue; they are taken as said.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ivsim.audit.figures import WAYS, Values

Row = Mapping[str, Any]
SECOND_NS: Final = 1_000_000_000
CHANGES: Final = "change each second"
PROBED: Final = ", saturating probe"
CHANGES_LATE_MS: Final = 100.0
CHANGES_INVALID_MS: Final = 1_000.0
LAG_DEGRADES_MS, LAG_INVALIDATES_MS = 50.0, 1_000.0
DRIFT_DEGRADES_MS: Final = 1.0
LIVE_COUNTS: Final = ("received", "duplicates", "emitted", "wire_bytes_uplink", "wire_bytes_downlink")
LIVE_SHOWN: Final = 20


class Played:
    """What the link's log says of the seconds that were played: how punctual they were, probes, outages and losses."""

    def __init__(self, start_at_ns: int) -> None:
        self._start_at_ns = start_at_ns
        self._seconds: set[int] = set()
        self._update_ms = self._late_ms = -math.inf
        self._ways = {way: _Sums() for way in WAYS}

    def __bool__(self) -> bool:
        return bool(self._seconds)

    def add(self, rows: Sequence[Row]) -> None:
        """Take some vehicles' rows of link.parquet; vehicles come in the order of their names."""
        for row in rows:
            self._seconds.add(row["second"])
            self._update_ms = max(self._update_ms, row["update_ms"])
            due_ns = self._start_at_ns + row["second"] * SECOND_NS
            self._late_ms = max(self._late_ms, (row["applied_at_ns"] - due_ns) / 1e6)
        for row in sorted(rows, key=lambda row: (row["vehicle_id"], row["second"])):
            self._ways[row["direction"]].add(row)

    def replay(self) -> dict[str, Any]:
        """Return how punctual the replay was."""
        return {
            "steps": len(self._seconds),
            "update_max_ms": round(self._update_ms, 3) if self else 0.0,
            "applied_late_max_ms": round(self._late_ms, 3) if self else 0.0,
        }

    def certified(self, said: Mapping[str, Any], proof: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the parts of a certificate that the link's log and its own checks decide, under flat names.

        `proof` is link_proof.json, where the run has one.
        """
        found: dict[str, Any] = {f"probe_bytes_{way}": sums.probe_bytes for way, sums in self._ways.items()}
        found["verdict"] = _over_all(checks(said))
        found |= {
            f"{parameter}{PROBED} {way} verdict": _worst(own)
            for (parameter, way), own in _driven(proof).items()
        }
        late_ms = self.replay()["applied_late_max_ms"]
        for parameter, way in checks(said):
            if parameter == CHANGES and self:
                found[f"{CHANGES} achieved_value"] = late_ms
                found[f"{CHANGES} verdict"] = "pass" if late_ms <= CHANGES_LATE_MS else "off"
            if parameter == "loss":
                found |= self._ways[way].loss(way)
            if parameter == "outage":
                found[f"outage {way} asked"] = f"{self._ways[way].out} seconds without a rate"
        return found


class _Sums:
    """Of one direction: the probes' bytes, seconds without a rate, and packets by the kernel's counts."""

    def __init__(self) -> None:
        self.probe_bytes = self.out = 0
        self._offered = self._lost = 0
        self._asked = 0.0

    def add(self, row: Row) -> None:
        self.probe_bytes += row["probe_bytes"]
        self.out += row["asked_rate_bps"] == 0
        if row["qdisc_packets"] is None:
            return
        # Without what a full queue dropped.
        lost = row["drops"] - row["queue_drops"]
        offered = row["qdisc_packets"] + lost
        self._asked += row["asked_loss_ratio"] * offered
        self._offered += offered
        self._lost += lost

    def loss(self, way: str) -> dict[str, Any]:
        """Return asked and achieved loss."""
        if not self._offered:
            return {f"loss {way} kernel": "no packet"}
        ratio = self._lost / self._offered
        return {
            f"loss {way} kernel": f"{ratio:.4f} ({self._lost:,} of {self._offered:,})",
            f"loss {way} achieved_value": ratio,
            f"loss {way} asked_value": min(1.0, self._asked / self._offered),
        }


def checks(certificate: Mapping[str, Any]) -> dict[tuple[str, str], Row]:
    """Return a certificate's checks by parameter and direction."""
    return {(check["parameter"], check["direction"]): check for check in certificate["checks"]}


def _worst(verdicts: Sequence[str]) -> str:
    return "off" if "off" in verdicts else "unproven" if "unproven" in verdicts else "pass"


def _over_all(found: Mapping[tuple[str, str], Row]) -> str:
    """Return the verdict over all: what run or saturating probe left unproven counts as proven where the other has passed."""
    counted = []
    for (parameter, way), check in found.items():
        other = parameter.removesuffix(PROBED) if parameter.endswith(PROBED) else parameter + PROBED
        same = found.get((other, way))
        settled = check["verdict"] == "unproven" and same is not None and same["verdict"] == "pass"
        counted.append("pass" if settled else check["verdict"])
    return _worst(counted) if counted else "unproven"


def _driven(proof: Mapping[str, Any] | None) -> dict[tuple[str, str], list[str]]:
    """Return the verdicts of the seconds that were driven again, by parameter and direction."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for second in (proof or {}).get("seconds", []):
        for check in second["checks"]:
            found[check["parameter"].partition(",")[0], check["direction"]].append(check["verdict"])
    return found


def said_of(certificate: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the same parts as the certificate has them."""
    known = checks(certificate)
    found = {}
    for name in names:
        for (parameter, way), check in known.items():
            for part in ("achieved_value", "asked_value", "asked", "verdict", "kernel"):
                if name in {f"{parameter} {way} {part}", f"{parameter} {part}"}:
                    found[name] = _kernel_words(check) if part == "kernel" else check[part]
        if name in certificate:
            found[name] = certificate[name]
    return found


def _kernel_words(check: Row) -> str:
    return str(check["achieved"]).partition(", probes")[0].removeprefix("kernel ")


class SenderLag:
    """The emission lag of the messages of a whole run that nothing held back."""

    def __init__(self) -> None:
        self._values = Values()

    def add(self, rows: Iterable[Row]) -> None:
        """Take some vehicles' rows of the ledger."""
        self._values.add(row["emission_lag_ns"] for row in rows if not row["buffered"])

    def p99_ms(self) -> float | None:
        """Return its p99."""
        (found,) = self._values.ms(99)
        return found


def validity(
    metrics: Mapping[str, Any],
    lag_ms: float | None,
    capture_drops: int | None,
    dead_senders: int = 0,
    gateway_drops: int | None = None,
    *,
    vehicle_drops: int = 0,
    refused_gateways: int = 0,
    twin_reopened: int = 0,
    lost_senders: int = 0,
    agents: Sequence[Mapping[str, Any]] = (),
    shares: Sequence[Mapping[str, Any]] = (),
) -> tuple[str, list[str]]:
    """Return the verdict and the causes' names, in the order in which they are judged."""
    causes: list[tuple[str, str]] = []
    if metrics.get("partial"):
        causes.append(("partial_ledger", "invalid"))
    if metrics.get("unknown"):
        causes.append(("fate_unknown", "invalid"))
    certificate = metrics.get("certificate") or {}
    if certificate.get("verdict") == "off":
        off = [check for check in certificate["checks"] if check["verdict"] == "off"]
        late = [
            c
            for c in off
            if c["parameter"] == CHANGES
            and CHANGES_LATE_MS < (c["achieved_value"] or 0) <= CHANGES_INVALID_MS
        ]
        causes += [("link_changes_late", "degraded")] * len(late)
        if len(late) < len(off):
            causes.append(("certificate_off", "invalid"))
    if (metrics.get("live") or {}).get("verdict") not in {None, "agree"}:
        causes.append(("live_figures_differ", "degraded"))
    if lag_ms is not None and lag_ms > LAG_DEGRADES_MS:
        causes.append(("generator_limited", "invalid" if lag_ms > LAG_INVALIDATES_MS else "degraded"))
    drift_ms = metrics.get("clock_drift_ms")
    if drift_ms is not None and abs(drift_ms) > DRIFT_DEGRADES_MS:
        causes.append(("clock_moved", "degraded"))
    if capture_drops:
        causes.append(("capture_dropped", "invalid"))
    causes += [("vehicle_dropped", "degraded")] * bool(vehicle_drops)
    causes += [("gateway_dropped", "degraded")] * bool(gateway_drops)
    causes += [("gateway_refused", "degraded")] * refused_gateways
    causes += [("twin_reopened", "degraded")] * twin_reopened
    known = [agent["clock_uncertainty_ms"] for agent in agents]
    unsure = [within_ms for within_ms in known if within_ms is None or within_ms > DRIFT_DEGRADES_MS]
    causes += [("clocks_apart", "degraded")] * len(unsure)
    worse = [share["verdict"] for share in shares if share["verdict"] in {"degraded", "invalid"}]
    causes += [("share_not_valid", verdict) for verdict in worse]
    causes += [("sender_died", "degraded")] * dead_senders
    causes += [("agent_lost", "degraded")] * lost_senders
    severities = {severity for _, severity in causes}
    verdict = "invalid" if "invalid" in severities else "degraded" if severities else "valid"
    return verdict, [name for name, _ in causes]


class LiveAgreement:
    """How the streaming job's last counts compare with ledger and link log; what it never counted is 0.

    Args:
        live: live.json.
    """

    def __init__(self, live: Mapping[str, Any]) -> None:
        self._live = live["vehicles"]
        self._compared = 0
        self._differences: list[dict[str, Any]] = []

    def add(self, ledger: Sequence[Row], link: Sequence[Row]) -> None:
        """Take some vehicles' rows of the ledger and of link.parquet."""
        counted: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(LIVE_COUNTS[:3], 0))
        # Of a vehicle with a message whose fate is unknown, the ledger says no more than what was emitted.
        unsure = {row["vehicle_id"] for row in ledger if row["fate"] == "unknown"}
        for row in ledger:
            mine = counted[row["vehicle_id"]]
            mine["received"] += row["fate"] in {"delivered", "late"}
            mine["duplicates"] += (row["copies"] or 1) - 1
            mine["emitted"] += row["emitted_at_ns"] is not None
        wire: dict[str, dict[str, int]] = defaultdict(dict)
        for row in link:
            if row["vehicle_id"] is not None:
                mine = wire[row["vehicle_id"]]
                name = f"wire_bytes_{row['direction']}"
                mine[name] = mine.get(name, 0) + (row["wire_bytes"] or 0)
        for vehicle in sorted({*counted, *wire}):
            accounted = {**counted.get(vehicle, {}), **wire.get(vehicle, {})}
            names = LIVE_COUNTS[2:] if vehicle in unsure else LIVE_COUNTS
            for name in names:
                self._hold(vehicle, name, accounted.get(name))

    def _hold(self, vehicle: str, name: str, accounted: int | None) -> None:
        self._compared += 1
        if len(self._differences) == LIVE_SHOWN:
            return
        said = (self._live.get(vehicle) or {}).get(name)
        if (said or 0) != (accounted or 0):
            found = {"vehicle_id": vehicle, "figure": name, "live": said, "ledger": accounted}
            self._differences.append(found)

    def outcome(self) -> dict[str, Any]:
        """Return the verdict over all that was taken, and the first differences."""
        return {
            "verdict": "differ" if self._differences else "agree",
            "counts_compared": self._compared,
            "differences": self._differences,
        }
