"""The roads under the vehicles: which files are read, which are refused and in which words, and what the page draws."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from schemas.errors import Refusal
from schemas.topics import vehicle_id
from twin.service import roads
from twin.service.config import ServiceConfig
from twin.service.roads import NO_ROADS, read_roads
from twin.service.server import TwinService

NO_RATES = "must be a list of rates in kbit/s, 0 or more"
LINE = [[15.6, 58.4], [15.61, 58.4, 90.0], [15.62, 58.41]]


def feature(kind: str, coordinates: Any, **properties: Any) -> dict[str, Any]:
    return {
        "type": "Feature",
        "geometry": {"type": kind, "coordinates": coordinates},
        "properties": properties,
    }


def collection(*features: Any) -> dict[str, Any]:
    return {"type": "FeatureCollection", "features": list(features)}


def read(tmp_path: Path, body: Any) -> list[dict[str, Any]]:
    path = tmp_path / "roads.geojson"
    path.write_text(body if isinstance(body, str) else json.dumps(body))
    found: list[dict[str, Any]] = json.loads(read_roads(str(path)))["features"]
    return found


def test_lines_are_kept_and_points_and_areas_left_out(tmp_path: Path) -> None:
    ring = [[[0, 0], [1, 0], [1, 1], [0, 0]]]
    both = {"type": "GeometryCollection", "geometries": [
        {"type": "Point", "coordinates": [0, 0]}, {"type": "LineString", "coordinates": LINE}]}  # fmt: skip
    found = read(
        tmp_path,
        collection(
            feature("LineString", LINE, name="E4", coordinateProperties={"uplink_kbps": [900, 0, 1.5]}),
            feature("Point", [1, 2], name="a light"),
            feature("Polygon", ring),
            feature("MultiLineString", [LINE, LINE], name=7, highway="primary"),
            {"type": "Feature", "geometry": both, "properties": None},
            {"type": "Feature", "geometry": None, "properties": {}},
        ),
    )
    flat = [position[:2] for position in LINE]
    assert [one["geometry"] for one in found] == [{"type": "LineString", "coordinates": flat}] * 4
    assert [one["properties"] for one in found] == [
        {"name": "E4", "coordinateProperties": {"uplink_kbps": [900, 0, 1.5]}}, {}, {}, {}
    ]  # fmt: skip


@pytest.mark.parametrize("body", [feature("LineString", LINE), {"type": "LineString", "coordinates": LINE}])
def test_a_feature_or_a_geometry_alone_is_geojson_too(tmp_path: Path, body: Any) -> None:
    assert len(read(tmp_path, body)) == 1


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("{", "is no JSON; GeoJSON (RFC 7946) is read"),
        ("[" * 100_000, "is no JSON; GeoJSON (RFC 7946) is read"),
        ("\xff", "is no JSON; GeoJSON (RFC 7946) is read"),
        ("7", "the geometry is none of GeoJSON (RFC 7946)"),
        (
            '{"type": "GeometryCollection", "geometries": [' * 400 + "]}" * 400,
            "has no LineString and no MultiLineString",
        ),
        ({"type": "Topology", "objects": {}}, "the geometry is none of GeoJSON (RFC 7946)"),
        (collection(), "has no LineString and no MultiLineString"),
        (collection(feature("Point", [0, 0])), "has no LineString and no MultiLineString"),
        (collection(feature("Point", [0, 0]), feature("Line", LINE)), "feature 2 is none of GeoJSON (RFC 7946)"),
        (collection(feature("LineString", [[0, 0]])), "feature 1: a line has two positions or more"),
        (collection(feature("LineString", "x")), "feature 1 is none of GeoJSON (RFC 7946)"),
        *[(collection(feature("LineString", [[0, 0], position])),
           f"feature 1: position {json.dumps(position)}, must be [longitude, latitude] in degrees")
          for position in ([181, 0], [0, -90.5], [0], ["0", 0], [True, 0], None, [float("nan"), 0])],
        *[(collection(feature("LineString", LINE, coordinateProperties={"uplink_kbps": rates})),
           f"feature 1: uplink_kbps {says}")
          for rates, says in (([1, 2], "has 2 values for 3 positions"), ([1, 2, -1], NO_RATES), ([1, 2, None], NO_RATES),
                              ([1, 2, float("inf")], NO_RATES), (7, NO_RATES))],
    ],
)  # fmt: skip
def test_what_is_no_road_is_refused(tmp_path: Path, body: Any, says: str) -> None:
    with pytest.raises(Refusal) as refused:
        read(tmp_path, body)
    assert str(refused.value) == f"roads {tmp_path}/roads.geojson: {says}"


def test_more_than_a_page_can_draw_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = collection(feature("LineString", LINE), feature("LineString", LINE))
    monkeypatch.setattr(roads, "MAX_POSITIONS", 6)
    assert len(read(tmp_path, body)) == 2
    monkeypatch.setattr(roads, "MAX_POSITIONS", 5)
    with pytest.raises(Refusal, match=r"roads\.geojson: 6 positions, at most 5$"):
        read(tmp_path, body)
    size = (tmp_path / "roads.geojson").stat().st_size
    monkeypatch.setattr(roads, "MAX_BYTES", size - 1)
    with pytest.raises(Refusal, match=rf"roads\.geojson: {size:,} bytes, at most {size - 1:,}$"):
        read(tmp_path, body)


def test_a_service_without_its_roads_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match=r"^roads .*none\.geojson: No such file or directory$"):
        TwinService(ServiceConfig(bootstrap="127.0.0.1:1", roads_file=str(tmp_path / "none.geojson")))


async def test_roads_are_told_to_whom_the_fleet_is(stand: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "roads.geojson"
    path.write_text(json.dumps(feature("LineString", LINE, name="E4")))
    for made, wanted in ((stand(1), NO_ROADS), (stand(1, roads_file=str(path)), read_roads(str(path)))):
        async with made.client() as client:
            answer = await client.get("/api/roads")
            assert (answer.status_code, answer.content) == (200, wanted)
            assert answer.headers["content-type"] == "application/geo+json"
        async with made.client(token="a-token-of-the-test-alone") as client:
            assert (await client.get("/api/roads")).status_code == 401


@pytest.mark.browser
def test_roads_are_drawn_under_the_vehicles_and_say_what_the_uplink_gives(
    stand: Callable[..., Any], served: Callable[..., Any], chromium: Browser, tmp_path: Path
) -> None:
    place = stand(3)
    place.take_all()
    row = place.ask.row(place.fleet.get(vehicle_id(1)), place.now_ns)
    (east, north) = row["longitudeDeg"], row["latitudeDeg"]
    line = [[east - 0.01, north], [east, north], [east + 0.01, north], [east + 0.02, north]]
    path = tmp_path / "roads.geojson"
    rates = {"uplink_kbps": [0, 0, 20_000, 20_000]}
    path.write_text(json.dumps(feature("LineString", line, coordinateProperties=rates)))
    fleet = stand(3, roads_file=str(path))
    fleet.take_all()
    with chromium.new_context(viewport={"width": 1440, "height": 900}, color_scheme="light") as context:
        page = context.new_page()
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.goto(served(fleet).url)
        expect(page.locator("#connection")).to_have_text("live")
        # How many pixels of the map have exactly this colour; the page's policy forbids what wait_for_function does.
        drawn = """(map, wanted) => new Promise((done, failed) => {
            const until = performance.now() + 30000;
            const look = () => {
                const { data } = map.getContext("2d").getImageData(0, 0, map.width, map.height);
                const counts = wanted.map(([r, g, b]) => {
                    let count = 0;
                    for (let k = 0; k < data.length; k += 4) if (data[k] === r && data[k + 1] === g && data[k + 2] === b) count++;
                    return count; });
                if (counts.every((count) => count > 30)) done(counts);
                else if (performance.now() > until) failed(new Error(`drawn: ${counts}`));
                else requestAnimationFrame(look); };
            look(); })"""
        white, slowest, fastest = [255, 255, 255], [43, 58, 140], [214, 120, 20]
        canvas = page.locator("#map")
        canvas.evaluate(drawn, [white])
        page.locator("#colour").select_option("link")
        # The ends of the scale: nothing to the west of the vehicle, more than 10 Mbit/s to its east.
        canvas.evaluate(drawn, [slowest, fastest])
        assert errors == []
