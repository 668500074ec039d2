"""A run that goes is on Prometheus' page, with every part, and leaves no page behind."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ivsim.option_rules import run_options
from ivsim.runs.display import Display
from ivsim.runs.started import StartedRun
from ivsim.runs.testbed import Testbed

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.broker, pytest.mark.netns]


class Notes(Display):
    """Keeps what the run says for good."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_a_run_can_be_scraped_while_it_goes(tmp_path: Path, testbed: Testbed) -> None:
    notes, pages = Notes(), []

    def scrape(run: StartedRun) -> None:
        if run.second() >= 6 and not pages:
            (line,) = notes.notes
            with urllib.request.urlopen(line.removeprefix("for Prometheus: "), timeout=5) as answer:
                pages.append(answer.read().decode())

    options = run_options(vehicles=5, interval_s=1.0, duration_s=10.0, loss_timeout_s=10.0, metrics_port=0)
    outcome = testbed.run(options, tmp_path / "run", display=notes, disturb=scrape)
    assert outcome.error is None
    found = {
        family.name: {tuple(sample.labels.values()): sample.value for sample in family.samples}
        for family in text_string_to_metric_families(pages[0])
    }
    counted = {labels[0]: value for labels, value in found["ivsim_run_messages"].items()}
    assert 0 < counted["in_twin"] <= counted["appended"]
    assert 0 < counted["emitted"] <= 5 * 10
    parts = {labels[0] for labels in found["ivsim_part_up"]}
    assert {"kafka", "spark", "mosquitto", "gateway-0", "sender", "capture", "runner"} <= parts
    assert set(found["ivsim_part_up"].values()) == {1.0}
    assert all(value > 0 for value in found["ivsim_part_resident_memory_bytes"].values())
    assert found["ivsim_gateway_received"][("gateway-0", "qos1", "mqtt")] > 0
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(notes.notes[0].removeprefix("for Prometheus: "), timeout=5)
