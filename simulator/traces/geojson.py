"""The ways of traces that say where they were recorded, as GeoJSON (RFC 7946): lines, and what the link gave along them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from simulator.traces.model import Trace

# RFC 7946, 11.2: six decimals are about 10 cm.
_DECIMALS = 6


def to_geojson(traces: Mapping[str, Trace], most_positions: int | None = None) -> str | None:
    """Return a FeatureCollection with a LineString for each of these traces, by name; None where none of them has a way.

    It has a position for each step, longitude then latitude in degrees; `coordinateProperties` has one value for each
    position: `time_s` and the columns of the link, its rates in bits of Ethernet frames. A trace without places has no
    way, nor has one of a vehicle that stood. Of more positions than `most_positions` in all, every second one is left out,
    or more.
    """
    steps = sum(len(trace.time_s) for trace in traces.values() if trace.places())
    each = 1 if most_positions is None else max(1, math.ceil(steps / most_positions))
    features = [made for name, trace in traces.items() if (made := _feature(name, trace, each)) is not None]
    if not features:
        return None
    return json.dumps({"type": "FeatureCollection", "features": features}, allow_nan=False) + "\n"


def _feature(name: str, trace: Trace, each: int) -> dict[str, Any] | None:
    places = trace.places()
    if not places:
        return None
    east, north = (
        np.round(places[column][::each], _DECIMALS) for column in ("longitude_deg", "latitude_deg")
    )
    if not (np.ptp(east) or np.ptp(north)):
        return None
    columns = {"time_s": trace.time_s, **trace.in_frames().columns()}
    values = {name: column[::each] for name, column in columns.items()}
    return {
        "type": "Feature",
        "geometry": {"type": "LineString", "coordinates": np.column_stack((east, north)).tolist()},
        "properties": {
            "name": name,
            "coordinateProperties": {key: of.tolist() for key, of in values.items()},
        },
    }
