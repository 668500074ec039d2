"""The page for Prometheus: what is on it, read by Prometheus' own parser, and that the dashboard asks for nothing else."""

from __future__ import annotations

import importlib.util
import json
import re
import socket
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard
from prometheus_client.parser import text_string_to_metric_families

from gateways import counters as gateway_counters
from gateways.metrics import GAUGES, page
from ivsim.option_rules import run_options
from ivsim.runs import scrape as scrape_module
from ivsim.runs.counters import Sample, Sampler
from ivsim.runs.runner import make_plan
from ivsim.runs.scrape import Scrape, merged
from ivsim.runs.started import StartedRun
from ivsim.testbed.process import hold_port
from schemas.errors import Refusal
from tests.twin.service.conftest import Stand
from twin.service.exposition import ServiceCollector, exposition

ROOT = Path(__file__).resolve().parents[3]
GRAFANA = ROOT / "compose" / "grafana"
OPTIONS = run_options(vehicles=3)
SAMPLE = Sample(
    at_s=12.5, cpu_s={"kafka": 3.0, "runner": 1.5}, memory_bytes={"kafka": 300, "runner": 100}, busy_s=77.0,
    emitted=9, acknowledged=8, received=7, appended=None, in_twin=5,
)  # fmt: skip


class Children(dict[str, Any]):
    """A run's processes; one gateway is down on purpose."""

    down, dead = frozenset({"gateway-0"}), frozenset[str]()


def filled(sample: Sample = SAMPLE, children: Mapping[str, Any] = MappingProxyType({})) -> Scrape:
    """Return the page of a run that has been looked at once, with the gateways among its children."""

    class Looked(Sampler):
        def __call__(self, run: StartedRun) -> None:
            self.samples.append(sample)

    with mock.patch.object(scrape_module, "Sampler", Looked):
        scrape = Scrape(0, "a-run", OPTIONS)
    run: Any = SimpleNamespace(
        components=SimpleNamespace(children=Children(children), gateways=list(children)),
        publisher=SimpleNamespace(
            row=lambda: {"p50 ms": 120.0, "p99 ms": None},
            totals=lambda: {"emitted": 9, "acknowledged": 8, "ip_bytes": 4096},
        ),
        replay=SimpleNamespace(properties=lambda: {"applied_late_max_ms": 40.0}),
    )
    scrape(run)
    return scrape


def read(url: str) -> dict[str, dict[tuple[str, ...], float]]:
    with urllib.request.urlopen(url, timeout=5) as answer:
        text = answer.read().decode()
    return {
        family.name: {tuple(sample.labels.values()): sample.value for sample in family.samples}
        for family in text_string_to_metric_families(text)
    }


def test_the_page_has_the_run_and_every_part_and_nothing_that_is_not_known() -> None:
    with filled() as scrape:
        found = read(scrape.url)
    assert found["ivsim_run_info"] == {("protobuf", "auto", "qos1", "mqtt", "a-run", "3"): 1.0}
    points = {labels[0]: value for labels, value in found["ivsim_run_messages"].items()}
    assert points == {
        "emitted": 9, "acknowledged": 8, "refused": 0, "unsent": 0, "unanswered": 0, "received": 7, "in_twin": 5,
    }  # fmt: skip
    assert found["ivsim_run_end_to_end_latency_seconds"] == {("p50",): 0.12}
    assert found["ivsim_link_change_late_seconds"] == {(): 0.04}
    assert found["ivsim_run_wire_bytes"] == {(): 4096.0}
    assert found["ivsim_part_up"] == {("gateway-0",): 0.0, ("kafka",): 1.0, ("runner",): 1.0}
    assert found["ivsim_part_cpu_seconds"] == {("kafka",): 3.0, ("runner",): 1.5}
    assert found["ivsim_part_resident_memory_bytes"] == {("kafka",): 300.0, ("runner",): 100.0}


def test_before_the_first_message_the_page_has_the_runs_name_and_after_the_end_there_is_none() -> None:
    with Scrape(0, "a-run", OPTIONS) as scrape:
        url = scrape.url
        assert list(read(url)) == ["ivsim_run_info"]
    with pytest.raises(OSError, match="refused"):
        read(url)


def test_a_port_that_is_taken_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            Refusal, match=rf"^--metrics-port {port}: Address already in use; 0 takes a free one$"
        ):
            make_plan(run_options(vehicles=3, metrics_port=port), tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_pages_of_several_gateways_are_one_metric_with_the_samples_of_all() -> None:
    texts = [
        page({"received": count, "held": 1}, GAUGES, {"gateway": name}).decode() + "python_info 1.0\n"
        for name, count in (("gateway-0", 5), ("gateway-1", 7))
    ]
    found = {metric.name: metric for metric in merged(texts)}
    assert set(found) == {"ivsim_gateway_received", "ivsim_gateway_held"}
    values = {sample.labels["gateway"]: sample.value for sample in found["ivsim_gateway_received"].samples}
    assert values == {"gateway-0": 5.0, "gateway-1": 7.0}
    assert found["ivsim_gateway_held"].type == "gauge"


def test_a_part_that_does_not_answer_leaves_the_others_on_the_page() -> None:
    with hold_port() as silent:
        gateway = SimpleNamespace(latest={"ready": {"metrics_port": silent.getsockname()[1]}})
        with filled(children={"gateway-0": gateway}) as scrape:
            assert "ivsim_part_up" in read(scrape.url)


def _builder() -> Any:
    spec = importlib.util.spec_from_file_location("build_dashboard", ROOT / "setup" / "build_dashboard.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _exposed() -> dict[str, list[dict[str, str]]]:
    """Return the labels of each sample that Prometheus reads from the pages of a run, its gateways and its page."""
    counters = dict.fromkeys([*gateway_counters.Counters().numbers(), *GAUGES], 0)
    stand = Stand(2)
    stand.take_all()
    with (
        filled(SAMPLE._replace(appended=6)) as scrape,
        urllib.request.urlopen(scrape.url, timeout=5) as answer,
    ):
        texts = [answer.read().decode()]
    texts.append(page(counters, GAUGES, {"gateway": "g", "protocol": "mqtt", "mode": "qos1"}).decode())
    texts.append(exposition(ServiceCollector(stand.ask, stand.changed, None)).decode())
    found: dict[str, list[dict[str, str]]] = {}
    for family in (family for text in texts for family in text_string_to_metric_families(text)):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample.labels)
    return found


def test_the_dashboard_is_what_grafanas_own_library_makes_and_reads_back() -> None:
    text = (GRAFANA / "ivsim.json").read_text()
    assert text == _builder().dashboard() + "\n"
    assert JSONEncoder(sort_keys=True, indent=2).encode(Dashboard.from_json(json.loads(text))) + "\n" == text


def test_the_dashboard_asks_for_metrics_and_labels_that_there_are() -> None:
    exposed = _exposed()
    panels = json.loads((GRAFANA / "ivsim.json").read_text())["panels"]
    targets = [target for panel in panels for target in panel["targets"]]
    asked = set()
    for target in targets:
        expression, legend = target["expr"], target["legendFormat"]
        selectors = re.findall(r"(ivsim_\w+)(?:\{(\w+)=\"(\w+)\"\})?", expression)
        assert selectors, expression
        for name, label, value in selectors:
            assert name in exposed, expression
            assert not label or {label: value} in exposed[name], expression
        asked |= {name for name, _, _ in selectors}
        # What a sum keeps is what it says; else a sample has all its labels.
        kept = re.findall(r"\bby \((\w+)\)", expression)
        assert set(kept) <= exposed[selectors[0][0]][0].keys(), expression
        known = set(kept) if expression.startswith("sum") else exposed[selectors[0][0]][0].keys()
        assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= known, legend
    assert len(asked) >= 12


def test_prometheus_is_told_the_port_that_the_documents_use() -> None:
    (job,) = yaml.safe_load((GRAFANA / "prometheus.yml").read_text())["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["127.0.0.1:9464"]}]
