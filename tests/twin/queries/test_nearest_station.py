"""The distance to a station, and which one is nearest, against oracles that share no formula with the query."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from schemas.formats import FORMATS
from schemas.topics import vehicle_id
from simulator.vehicles.vehicle import Vehicle
from tests.twin.made_up import MadeUpRun, status_headers
from twin import asked_query
from twin.config import TwinConfig
from twin.queries import answers
from twin.queries.nearest_station import (
    EARTH_RADIUS_M,
    POSITIONS,
    decode_positions,
    distance_m,
    nearest,
)

# On WGS 84, by Vincenty's inverse formulae ("Direct and Inverse Solutions of Geodesics on the Ellipsoid", 1975): from New York
# to London, between antipodes nearly, a degree of the equator, and of the meridian at it.
GEODESICS = [
    ((40.6, -73.8), (51.6, -0.5), 5_551_759.400),
    ((-41.32, 174.81), (40.96, -5.50), 19_959_679.267),
    ((0.0, 0.0), (0.0, 1.0), 111_319.491),
    ((0.0, 0.0), (1.0, 0.0), 110_574.389),
]
# What a sphere of the mean radius is off by at most.
SPHERE = 0.0057
PLACE = (58.412345, 15.623456)


def by_vectors(one: tuple[float, float], other: tuple[float, float]) -> float:
    """Return the great-circle distance by the angle between two vectors."""

    def vector(place: tuple[float, float]) -> Any:
        latitude, longitude = np.radians(place)
        return np.array(
            [np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude)]
        )

    a, b = vector(one), vector(other)
    return float(EARTH_RADIUS_M * np.arctan2(np.linalg.norm(np.cross(a, b)), a @ b))


def distances(
    spark: SparkSession, pairs: list[tuple[tuple[float, float], tuple[float, float]]]
) -> list[float]:
    names = ["a", "b", "c", "d", "n"]
    frame = spark.createDataFrame([(*one, *other, n) for n, (one, other) in enumerate(pairs)], names)
    found = frame.select("n", distance_m(*map(F.col, names[:-1])).alias("m")).collect()
    return [row["m"] for row in sorted(found, key=lambda row: row["n"])]


def place(rng: random.Random) -> tuple[float, float]:
    return rng.uniform(-90, 90), rng.uniform(-180, 180)


@pytest.mark.spark
def test_distances_are_those_by_vectors_and_geodesics_but_for_the_sphere(spark: SparkSession) -> None:
    rng = random.Random(1)
    pairs = [(place(rng), place(rng)) for _ in range(200)]
    pairs += [((58.4, 15.6), (58.4 + rng.uniform(0, 1e-4), 15.6)) for _ in range(20)]
    pairs += [((10.0, 20.0), (10.0, 20.0)), ((0.0, 179.9), (0.0, -179.9)), ((0.0, 0.0), (0.0, 180.0))]
    found = distances(spark, pairs + [(one, other) for one, other, _ in GEODESICS])
    expected = [by_vectors(*pair) for pair in pairs]
    assert found[: len(pairs)] == pytest.approx(expected, rel=1e-7, abs=1e-3)
    for measured, (_, _, geodesic) in zip(found[len(pairs) :], GEODESICS, strict=True):
        assert measured == pytest.approx(geodesic, rel=SPHERE)


@pytest.mark.spark
def test_the_nearest_station_of_each_message_is_that_of_a_search(spark: SparkSession) -> None:
    rng = random.Random(2)
    stations = [(f"s{n:02d}", *place(rng)) for n in range(30)]
    # Two at one place: the first by name is it.
    stations.append(("a-twin", *stations[0][1:]))
    places = [(vehicle_id(1), 1, n, *place(rng)) for n in range(100)]
    places.append((vehicle_id(2), 1, 1, *stations[0][1:]))
    names = "station string, station_latitude_deg double, station_longitude_deg double"
    frame = spark.createDataFrame(places, POSITIONS.names)
    found = nearest(frame, spark.createDataFrame(stations, names)).collect()
    assert len(found) == len(places)
    expected = {
        (row[0], row[2]): min((by_vectors(row[3:], one[1:]), one[0]) for one in stations)
        for row in places[:-1]
    }
    for row in found:
        if row["vehicle_id"] == vehicle_id(2):
            assert (row["station"], row["distance_m"]) == ("a-twin", 0.0)
        else:
            metres, name = expected[row["vehicle_id"], row["sequence"]]
            assert row["distance_m"] == pytest.approx(metres, rel=1e-7)
            assert row["station"] in {name, "a-twin"}


def _records() -> list[dict[str, Any]]:
    status, lost = (
        Vehicle(1, "trailer", random.Random(4)).status(3, 1, 1_700_000_000_000_000_000, "PERIODIC")
        for _ in range(2)
    )
    status.position.latitude_deg, status.position.longitude_deg = PLACE
    lost.position.latitude_deg = math.nan
    good = [
        {"format": name, "value": FORMATS[name].encode(status)} for name in sorted(set(FORMATS) - {"small"})
    ]
    values = {"small": b"message007", "protobuf": FORMATS["protobuf"].encode(lost), "avro": b"\xff\xff"}
    bad = [{"format": name, "value": value} for name, value in values.items()]
    return [
        {"vehicle_id": vehicle_id(1), "epoch": 1, "sequence": n, **one} for n, one in enumerate(good + bad, 1)
    ]


def test_every_format_says_where_its_vehicle_is_and_what_does_not_is_left_out() -> None:
    records = _records()
    (found,) = decode_positions(iter([pa.RecordBatch.from_pylist(records)]))
    assert found.schema.equals(POSITIONS)
    assert found["sequence"].to_pylist() == list(range(1, len(records) - 2))
    assert {(row["latitude_deg"], row["longitude_deg"]) for row in found.to_pylist()} == {PLACE}


def test_a_run_that_asks_for_no_query_starts_none() -> None:
    config = TwinConfig(run_dir=".", topology="echo")
    assert (config.query, config.stations) == (None, ())
    # No session is there to start one in.
    assert asked_query.start(None, config) == []  # type: ignore[arg-type]


@pytest.mark.spark
@pytest.mark.kafka
def test_the_query_answers_what_is_in_kafka(spark: SparkSession, run: MadeUpRun) -> None:
    stations = (("near", 58.4, 15.6), ("far", -58.4, 15.6))
    config = TwinConfig.model_validate(
        {**run.config.model_dump(), "query": "nearest-station", "stations": stations}
    )
    for record in _records():
        headers = status_headers(
            1, record["sequence"], run.start_at_ns, run.start_at_ns + 5, format=record["format"]
        )
        run.produce(config.topics.status, record["vehicle_id"], record["value"], headers)
    run.flush()
    (query,) = asked_query.start(spark, config)
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    answers.collect(Path(config.run_dir))
    found = pq.read_table(Path(config.run_dir) / answers.ANSWERS).to_pylist()
    assert [row["sequence"] for row in found] == list(range(1, len(_records()) - 2))
    assert {row["station"] for row in found} == {"near"}
    metres = by_vectors(PLACE, stations[0][1:])
    assert all(row["distance_m"] == pytest.approx(metres, rel=1e-7) for row in found)
