"""The service's own figures for Prometheus; read at the moment of asking, kept nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from twin.service.queries import Ask
from twin.service.record import REASONS

if TYPE_CHECKING:
    from twin.service.reader import Reader
    from twin.service.stream import Changed

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class ServiceCollector(Collector):
    """All metrics named ivsim_twin_*."""

    def __init__(self, ask: Ask, changed: Changed, reader: Reader | None) -> None:
        self._ask, self._changed, self._reader = ask, changed, reader

    def collect(self) -> Iterator[Metric]:
        """Yield each metric."""
        fleet, summary = self._ask.fleet, self._ask.summary()
        gauges = {
            "vehicles": ("Twins in memory.", len(fleet)),
            "stale_vehicles": ("Twins older than stale_after_s.", summary["staleVehicles"]),
            "given_up_records": (
                "Records of which the twins' counters know nothing (docs/twin.md).",
                summary["givenUp"],
            ),
            "streams": ("Open streams of changes.", self._changed.streams),
            "history_bytes": ("Memory of kept older states, by estimate.", fleet.kept_bytes()),
            "resident_memory_bytes": ("Resident memory of the process.", resident_bytes()),
            "kafka_reachable": ("1 while Kafka answers.", int(bool(self._reader and self._reader.reachable))),
            "caught_up": (
                "1 once the compacted topic was read to its end.",
                int(bool(self._reader and self._reader.caught_up.is_set())),
            ),
        }
        for name, (meaning, value) in gauges.items():
            yield GaugeMetricFamily(f"ivsim_twin_{name}", meaning, value=value)
        ages = GaugeMetricFamily(
            "ivsim_twin_age_of_information_seconds",
            "Now minus the newest reading, over the fleet.",
            labels=["rank"],
        )
        for rank, value in summary["ageOfInformationMs"].items():
            if value is not None:
                ages.add_metric([rank], value / 1000)
        yield ages
        yield CounterMetricFamily(
            "ivsim_twin_state_records", "Records of twin.state read.", value=fleet.records
        )
        yield CounterMetricFamily(
            "ivsim_twin_figure_records", "Records of live figures read.", value=self._ask.figures.records
        )
        bad = CounterMetricFamily("ivsim_twin_bad_records", "Records left out, by reason.", labels=["reason"])
        for reason in REASONS:
            bad.add_metric([reason], fleet.bad.get(reason, 0))
        yield bad
        letters = CounterMetricFamily(
            "ivsim_twin_dead_letters",
            "Records of vehicle.dead-letter: what gateways and twin kept out, by reason.",
            labels=["reason"],
        )
        for reason, count in list(fleet.dead_letters.items()):
            letters.add_metric([reason], count)
        yield letters


def resident_bytes() -> int:
    """Return the resident memory of this process, 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4_096
    except (OSError, ValueError, IndexError):
        return 0


def exposition(collector: ServiceCollector) -> bytes:
    """Return all metrics in Prometheus' text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return generate_latest(registry)
