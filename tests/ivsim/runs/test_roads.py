"""Which runs have their vehicles where their traces were recorded."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ivsim.option_rules import run_options
from ivsim.runs import processes
from ivsim.runs.endpoints import KafkaAddress
from ivsim.runs.processes import scenario_of
from twin.service.roads import read_roads

DRIVES = Path(__file__).resolve().parents[3] / "examples/drives"
LOG = {"vehicle_log": str(DRIVES / "two-trucks.csv"), "vehicle_mapping": str(DRIVES / "two-trucks.toml")}
PLACED = "time_s,uplink_kbps,rtt_ms,latitude_deg,longitude_deg\n0,900,40,58.4,15.6\n1,900,40,58.41,15.6\n"
PLAIN = "time_s,uplink_kbps,rtt_ms\n0,900,40\n"


@pytest.fixture
def traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a trace that has places and one that has none, in which the run is asked for."""
    monkeypatch.chdir(tmp_path)
    for name, text in (("placed.csv", PLACED), ("plain.csv", PLAIN)):
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_senders_are_told_of_traces_with_places(traces: Path) -> None:
    scenario = scenario_of(
        run_options(trace="car-2024,placed.csv", rtt="50", vehicles=2, trace_offsets=False)
    )
    assert scenario.traces == ("car-2024", str(traces / "placed.csv"))
    assert not scenario.trace_offsets
    assert scenario_of(run_options(trace="placed.csv")).trace_offsets


@pytest.mark.parametrize(
    "options",
    [
        {"trace": "plain.csv"},
        {"trace": "placed.csv", **LOG, "vehicles": 2, "duration_s": 5},
        {"trace": "placed.csv", "topology": "edge"},
        {"link": "direct"},
    ],
    ids=["no places", "a log of their own", "the link is the gateways'", "no link"],
)
def test_else_vehicles_have_roads_of_their_own(traces: Path, options: dict[str, Any]) -> None:
    assert scenario_of(run_options(**options)).traces == ()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"trace": "car-2024,placed.csv", "rtt": "50", "vehicles": 2}, ["placed.csv"]),
        ({"trace": "plain.csv"}, None),
        ({"trace": "placed.csv", "topology": "edge"}, None),
    ],
)
def test_the_page_is_told_the_ways_that_vehicles_drive(
    traces: Path, options: dict[str, Any], named: list[str] | None
) -> None:
    plan = SimpleNamespace(
        options=run_options(**options), run_id="r-1", directory=SimpleNamespace(work=traces / "work")
    )
    (traces / "work").mkdir()
    kafka = KafkaAddress("127.0.0.1:9092")
    config = processes.page(plan, SimpleNamespace(kafka=kafka)).config  # type: ignore[arg-type]
    assert isinstance(config, dict)
    ways = json.loads(read_roads(config["roads_file"]))["features"]
    assert [way["properties"]["name"] for way in ways] == (named or [])
    assert bool(config["roads_file"]) == bool(named)
