"""A trace's way as GeoJSON: a position for each step, the link's columns beside it; what has no way has no line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ivsim.commands.trace import app
from schemas.errors import Refusal
from simulator.traces.files import parse_csv
from simulator.traces.geojson import to_geojson
from twin.service.roads import read_roads

PLACED = (
    "# ivsim_trace: 1\n# rate_layer_uplink_kbps: tcp_payload\n"
    "time_s,uplink_kbps,rtt_ms,latitude_deg,longitude_deg\n"
    "0,1000,40,58.4123456789,15.6\n2,0,41,58.42,15.61\n3,500,42,58.43,-179.5\n"
)
STANDS = "time_s,uplink_kbps,latitude_deg,longitude_deg\n0,1000,58.4,15.6\n1,900,58.4,15.6\n"
PLAIN = "time_s,uplink_kbps\n0,1000\n1,900\n"


def trace(text: str) -> Any:
    return parse_csv(text, Path("x.csv"))


def test_a_way_has_a_position_and_the_links_values_for_each_step() -> None:
    made = to_geojson({"plain": trace(PLAIN), "north": trace(PLACED), "stood": trace(STANDS)})
    (feature,) = json.loads(made or "")["features"]
    assert feature["geometry"] == {
        "type": "LineString",
        "coordinates": [[15.6, 58.412346], [15.61, 58.42], [-179.5, 58.43]],
    }
    assert feature["properties"]["name"] == "north"
    values = feature["properties"]["coordinateProperties"]
    # Rates are those that the link gives: of frames (docs/traces.md, "A rate is of a layer").
    assert values.pop("uplink_kbps") == pytest.approx([1045.6, 0.0, 522.8], rel=1e-4)
    assert values == {"time_s": [0.0, 2.0, 3.0], "rtt_ms": [40.0, 41.0, 42.0]}


def test_a_way_of_too_many_positions_is_told_by_each_second_one_or_less() -> None:
    rows = "".join(f"{k},900,{58 + k / 1000},15\n" for k in range(100))
    long = trace(f"time_s,uplink_kbps,latitude_deg,longitude_deg\n{rows}")
    for most, found in ((200, 100), (100, 100), (99, 50), (40, 34)):
        (feature,) = json.loads(to_geojson({"long": long, "plain": trace(PLAIN)}, most) or "")["features"]
        assert len(feature["geometry"]["coordinates"]) == found
        values = feature["properties"]["coordinateProperties"]
        assert [len(values[name]) for name in ("time_s", "uplink_kbps")] == [found, found]


@pytest.mark.parametrize("text", [PLAIN, STANDS])
def test_what_has_no_way_makes_no_file(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert to_geojson({"x": trace(text)}) is None
    monkeypatch.chdir(tmp_path)
    Path("x.csv").write_text(text)
    done = CliRunner().invoke(app, ["export", "x.csv", "--to", "geojson", "--output", "x.geojson"])
    assert isinstance(done.exception, Refusal)
    assert str(done.exception).startswith("trace x.csv: has no way: ")
    assert not Path("x.geojson").exists()


def test_an_exported_way_is_a_road_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("north.csv").write_text(PLACED)
    done = CliRunner().invoke(app, ["export", "north.csv", "--to", "geojson", "--output", "north.geojson"])
    assert (done.exit_code, done.output) == (0, "north.geojson: 3 positions\n")
    (line,) = json.loads(read_roads("north.geojson"))["features"]
    (written,) = json.loads(Path("north.geojson").read_text())["features"]
    assert line["geometry"] == written["geometry"]
    assert line["properties"]["name"] == "north"
    rates = written["properties"]["coordinateProperties"]["uplink_kbps"]
    assert line["properties"]["coordinateProperties"] == {"uplink_kbps": rates}
