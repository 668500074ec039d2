"""The gateway's counters as a Prometheus page, and its health beside them; it counts nothing itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateways.counters import MEANINGS
from gateways.health import Verdict
from schemas.page_server import EXPOSITION, Answer

GAUGES = frozenset({"connected", "connected_at_ns", "held", "held_bytes", "paused"})


class _Snapshot(Collector):
    """The numbers of one moment."""

    def __init__(
        self, values: Mapping[str, int], gauges: AbstractSet[str], labels: Mapping[str, str]
    ) -> None:
        self._values, self._gauges, self._labels = values, gauges, labels

    def collect(self) -> Iterator[Metric]:
        for name, value in self._values.items():
            kind = GaugeMetricFamily if name in self._gauges else CounterMetricFamily
            meaning = MEANINGS.get(name, f"{name.replace('_', ' ')}, by the protocol's own end")
            family = kind(f"ivsim_gateway_{name}", meaning, labels=list(self._labels))
            family.add_metric(list(self._labels.values()), value)
            yield family


def page(values: Mapping[str, int], gauges: AbstractSet[str], labels: Mapping[str, str]) -> bytes:
    """Return the text exposition format, version 0.0.4: `gauges` as they are, every other value as a counter."""
    registry = CollectorRegistry()
    registry.register(_Snapshot(values, gauges, labels))
    return generate_latest(registry)


def answer(target: str, text: Callable[[], bytes], health: Callable[[], Verdict]) -> Answer:
    """Answer `/health` with what `health` finds, as probes of orchestrators read it, anything else with `text`."""
    if target != "/health":
        return Answer("200 OK", EXPOSITION, text())
    verdict = health()
    body = json.dumps({"healthy": verdict.healthy, "problems": verdict.problems}).encode()
    return Answer("200 OK" if verdict.healthy else "503 Service Unavailable", "application/json", body)
