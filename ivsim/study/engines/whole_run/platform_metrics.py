"""What a platform between gateways and consumer takes, as metrics of studies: out of `platform` in a run's metrics.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ledger.metrics import Metric

MIB: Final = 2**20
PLATFORM_METRICS: Final[dict[str, Metric]] = {
    metric.name: metric
    for metric in (
        Metric("platform_cpu_us_per_due", "us", "run_due", "CPU of the platform's servers since the start"),
        Metric(
            "platform_resident_mib", "MiB", "the run", "resident memory of the platform's servers at the end"
        ),
    )
}


def platform_metrics(metrics: Mapping[str, Any]) -> dict[str, float | None]:
    """Return the figures of `PLATFORM_METRICS`; None where the run has not measured one.

    Args:
        metrics: the run's metrics.json.
    """
    found, due = metrics.get("platform") or {}, metrics.get("run_due")
    cpu_s, resident_bytes = found.get("cpu_s"), found.get("resident_bytes")
    return {
        "platform_cpu_us_per_due": None if cpu_s is None or not due else 1e6 * cpu_s / due,
        "platform_resident_mib": None if resident_bytes is None else resident_bytes / MIB,
    }
