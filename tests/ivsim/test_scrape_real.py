"""A run that goes is on Prometheus' page, with every part, and leaves no page behind."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ivsim.option_rules import run_options
from ivsim.runs.display import Display
from ivsim.runs.started import StartedRun
from ivsim.runs.testbed import Testbed
from schemas.topics import vehicle_id

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.broker, pytest.mark.netns]


class Notes(Display):
    """Keeps what the run says for good."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def address(self, words: str) -> str:
        (line,) = [note for note in self.notes if note.startswith(words)]
        return line.removeprefix(words)


def asked(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as answer:
        return answer.read().decode()


@pytest.mark.full
def test_a_run_can_be_scraped_while_it_goes(tmp_path: Path, testbed: Testbed) -> None:
    notes, pages = Notes(), []
    roads: list[tuple[dict[str, Any], set[float | None]]] = []
    places: list[dict[str, Any]] = []
    ways: list[dict[str, Any]] = []
    trace = tmp_path / "north.csv"
    trace.write_text(
        "time_s,uplink_kbps,rtt_ms,latitude_deg,longitude_deg\n"
        + "".join(f"{k},{900 + k},40,{-33.8 + k / 1000:.3f},151.2\n" for k in range(60))
    )

    def scrape(run: StartedRun) -> None:
        if run.second() >= 6 and not pages:
            pages.append(asked(notes.address("for Prometheus: ")))
            link = f"api/2/things/ivsim:{vehicle_id(1)}/features/link/properties"
            rates = {run.plan.schedule.at(second)[1][0].rate_bps for second in range(run.second() + 1)}
            roads.append((json.loads(asked(notes.address("live page: ") + link)), rates))
            place = link.replace("/link/", "/position/")
            places.append(json.loads(asked(notes.address("live page: ") + place)))
            ways.append(json.loads(asked(notes.address("live page: ") + "api/roads")))

    options = run_options(
        vehicles=5, interval_s=1.0, duration_s=10.0, loss_timeout_s=10.0, metrics_port=0, page=True, page_port=0,
        trace=str(trace),
    )  # fmt: skip
    outcome = testbed.run(options, tmp_path / "run", display=notes, disturb=scrape)
    assert outcome.error is None
    # What the link gives stands on the page, and is no byte that has crossed it.
    (road, rates) = roads[0]
    assert road["uplinkRateBps"] in rates
    assert road["rttMs"] == 40
    # A vehicle is where its trace was recorded, in one of the seconds that its link has had.
    (place,) = places
    rate_kbps = {round(rate / 1e3) for rate in rates if rate is not None}
    assert round((place["latitudeDeg"] + 33.8) * 1000) + 900 in rate_kbps
    assert (place["longitudeDeg"], place["headingDeg"]) == (151.2, 0.0)
    # The page draws the whole way of the trace.
    (line,) = ways[0]["features"]
    assert line["geometry"]["coordinates"] == [[151.2, round(-33.8 + k / 1000, 3)] for k in range(60)]
    assert line["properties"]["coordinateProperties"]["uplink_kbps"] == [900.0 + k for k in range(60)]
    assert outcome.metrics["live"]["verdict"] == "agree"
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
        asked(notes.address("for Prometheus: "))
