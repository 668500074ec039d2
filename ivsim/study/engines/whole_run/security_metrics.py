"""What security costs a run, as metrics of studies: out of `security` in its metrics.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ledger.metrics import Metric

_RUN: Final = "the run"
SECURITY_METRICS: Final[dict[str, Metric]] = {
    metric.name: metric
    for metric in (
        Metric(
            "handshakes_full",
            "1",
            _RUN,
            "handshakes of TLS with all their certificates, and of DTLS, on the wire",
        ),
        Metric("handshakes_resumed", "1", _RUN, "handshakes of TLS that took up an earlier session"),
        Metric(
            "tls_handshake_p50_ms",
            "ms",
            _RUN,
            "ClientHello to the client's Finished (DTLS: the server's), at the vehicles' end",
        ),
        *(
            metric
            for kind in ("full", "resumed")
            for metric in (
                Metric(
                    f"{kind}_handshake_p50_ms",
                    "ms",
                    _RUN,
                    f"of a {kind} handshake: ClientHello to the client's Finished (DTLS: the server's), at the vehicles' end",
                ),
                Metric(
                    f"{kind}_handshake_bytes_mean",
                    "B",
                    _RUN,
                    f"records of a {kind} handshake, both ways, without the headers of TCP, UDP and IP",
                ),
            )
        ),
        Metric("handshake_bytes_mean", "B", _RUN, "frames of a handshake of TLS or DTLS, both ways, mean"),
        Metric(
            "record_bytes_per_message",
            "B",
            "due",
            "headers, types and tags around what is encrypted, both ways",
        ),
        Metric("sender_cpu_us_per_due", "us", "run_due", "CPU of the vehicles' process since the start"),
        Metric("gateway_cpu_us_per_due", "us", "run_due", "CPU of the gateways since they were ready"),
    )
}

HANDSHAKING: Final = ("tls", "mtls", "dtls-psk")
OF_HANDSHAKES: Final = frozenset({name for name in SECURITY_METRICS if "handshake" in name})


def security_metrics(metrics: Mapping[str, Any]) -> dict[str, float | int | None]:
    """Return the figures of `SECURITY_METRICS`; None where the run has not measured one.

    Args:
        metrics: the run's metrics.json.
    """
    security = metrics.get("security") or {}
    full, resumed = security.get("handshakes_full"), security.get("handshakes_resumed")
    shaken = None if full is None or resumed is None else full + resumed
    return {
        "handshakes_full": full,
        "handshakes_resumed": resumed,
        "tls_handshake_p50_ms": security.get("handshake_p50_ms"),
        **{name: security.get(name) for name in SECURITY_METRICS if name.startswith(("full_", "resumed_"))},
        "handshake_bytes_mean": _share(_both_ways(security, "handshake"), shaken),
        "record_bytes_per_message": _share(_both_ways(security, "record"), metrics.get("run_due")),
        "sender_cpu_us_per_due": _share(security.get("sender_cpu_s"), metrics.get("run_due"), 1e6),
        "gateway_cpu_us_per_due": _share(security.get("gateway_cpu_s"), metrics.get("run_due"), 1e6),
    }


def _both_ways(security: Mapping[str, Any], what: str) -> int | None:
    parts = [security.get(f"{what}_bytes_{way}") for way in ("uplink", "downlink")]
    return None if None in parts else sum(parts)  # type: ignore[arg-type]


def _share(amount: float | None, count: int | None, factor: float = 1.0) -> float | None:
    return None if amount is None or not count else factor * amount / count
