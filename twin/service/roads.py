"""The roads under the vehicles: a file of GeoJSON (RFC 7946), checked when the service starts, told to the page as its lines."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from schemas.errors import Refusal

MAX_BYTES: Final = 50_000_000
MAX_POSITIONS: Final = 200_000
NO_ROADS: Final = b'{"type":"FeatureCollection","features":[]}'


def read_roads(path: str) -> bytes:
    """Return the lines of a file as a FeatureCollection of LineStrings, as JSON; "" is no file, and no road.

    A line keeps its `name`, and the `uplink_kbps` of its `coordinateProperties`: a rate for each position, as
    `simulator.traces.geojson` writes them, 0 in an outage. Points and areas are no roads, and are left out.

    Raises:
        Refusal: no such file; no GeoJSON; a place that is nowhere on Earth; no line at all; more than the page can draw.
    """
    if not path:
        return NO_ROADS
    try:
        size = Path(path).stat().st_size
        if size > MAX_BYTES:
            raise Refusal(f"roads {path}: {size:,} bytes, at most {MAX_BYTES:,}")
        found = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise Refusal(f"roads {path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise Refusal(f"roads {path}: is no JSON; GeoJSON (RFC 7946) is read") from None
    try:
        lines = list(_lines(found))
    except ValueError as error:
        raise Refusal(f"roads {path}: {error}") from None
    except RecursionError:
        raise Refusal(f"roads {path}: its collections are nested too deeply") from None
    if not lines:
        raise Refusal(f"roads {path}: has no LineString and no MultiLineString")
    positions = sum(len(line["geometry"]["coordinates"]) for line in lines)
    if positions > MAX_POSITIONS:
        raise Refusal(f"roads {path}: {positions:,} positions, at most {MAX_POSITIONS:,}")
    return json.dumps({"type": "FeatureCollection", "features": lines}, separators=(",", ":")).encode()


def _lines(found: Any) -> Iterator[dict[str, Any]]:
    """Yield each line of a GeoJSON object; ValueError with what is wrong and where."""
    match found:
        case {"type": "FeatureCollection", "features": list(features)}:
            for k, feature in enumerate(features, 1):
                yield from _feature(feature, f"feature {k}")
        case {"type": "Feature"}:
            yield from _feature(found, "the feature")
        case _:
            yield from _feature({"type": "Feature", "geometry": found}, "the geometry")


def _feature(feature: Any, where: str) -> Iterator[dict[str, Any]]:
    match feature:
        case {"type": "Feature", "geometry": None}:
            return
        case {"type": "Feature", "geometry": {"type": "GeometryCollection", "geometries": list(parts)}}:
            for part in parts:
                yield from _feature({**feature, "geometry": part}, where)
            return
        case {"type": "Feature", "geometry": {"type": "LineString", "coordinates": list(line)}}:
            lines = [line]
        case {"type": "Feature", "geometry": {"type": "MultiLineString", "coordinates": list(lines)}}:
            pass
        case {"type": "Feature", "geometry": {"type": "Point" | "MultiPoint" | "Polygon" | "MultiPolygon"}}:
            return
        case _:
            raise ValueError(f"{where} is none of GeoJSON (RFC 7946)")
    properties = feature.get("properties")
    said: dict[str, Any] = properties if isinstance(properties, dict) else {}
    name = said.get("name")
    for line in lines:
        places = _places(line, where)
        kept: dict[str, Any] = {"name": name[:120]} if isinstance(name, str) else {}
        match said:
            case {"coordinateProperties": {"uplink_kbps": rates}}:
                kept["coordinateProperties"] = {"uplink_kbps": _rates(rates, len(places), where)}
        yield {
            "type": "Feature",
            "geometry": {"type": "LineString", "coordinates": places},
            "properties": kept,
        }


def _places(line: Any, where: str) -> list[list[float]]:
    if not isinstance(line, list) or len(line) < 2:
        raise ValueError(f"{where}: a line has two positions or more")
    for position in line:
        degrees = position[:2] if isinstance(position, list) else ()
        if not (len(degrees) == 2 and all(map(_within, degrees, (180.0, 90.0)))):
            shown = json.dumps(position)[:60]
            raise ValueError(f"{where}: position {shown}, must be [longitude, latitude] in degrees")
    return [position[:2] for position in line]  # an elevation is not drawn


def _within(value: Any, limit: float) -> bool:
    return type(value) in (int, float) and -limit <= value <= limit and value < math.inf


def _rates(rates: Any, count: int, where: str) -> list[float]:
    if not isinstance(rates, list) or not all(_within(rate, math.inf) and rate >= 0 for rate in rates):
        raise ValueError(f"{where}: uplink_kbps must be a list of rates in kbit/s, 0 or more")
    if len(rates) != count:
        raise ValueError(f"{where}: uplink_kbps has {len(rates)} values for {count} positions")
    return rates
