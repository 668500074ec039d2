"""The station nearest to each position: positions joined with a broadcast table of stations, the least distance of each.

The stream job of Wu, Shang, Peng and Wolter, "A Reactive Batching Strategy of Apache Kafka for Reliable Stream Processing
in Real-time" (IEEE ISSRE 2020), there for one station. It keeps no state: a message has its answer in the batch that it is
read in, and one that comes twice has it twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from schemas.errors import PayloadError
from schemas.formats import FORMATS
from twin.queries import answers
from twin.queries.stations import Station

# Mean radius of the Earth (IUGG): on a sphere of it a distance is up to 0.56 % off one on the ellipsoid.
EARTH_RADIUS_M: Final = 6_371_008.8
POSITIONS: Final = pa.schema([*answers.KEY, ("latitude_deg", pa.float64()), ("longitude_deg", pa.float64())])
_STATION: Final = pa.schema(
    [
        ("station", pa.string()),
        ("station_latitude_deg", pa.float64()),
        ("station_longitude_deg", pa.float64()),
    ]
)


def answering(session: SparkSession, stations: Sequence[Station]) -> Callable[[DataFrame], pa.Table]:
    """Return what finds the station nearest to each position of a batch.

    The warm-up records are in a batch, too: the first one compiles the query, and they have no position.
    """
    # Of columns: Spark reads a list of rows by Python processes, anew in each batch.
    columns = zip(_STATION, zip(*stations, strict=True), strict=True)
    table = session.createDataFrame(
        pa.table([pa.array(values, field.type) for field, values in columns], _STATION)
    )

    def answered(frame: DataFrame) -> pa.Table:
        return nearest(positions(frame), table).toArrow()

    return answered


def positions(frame: DataFrame) -> DataFrame:
    """Return the messages that say where their vehicle is, as POSITIONS."""
    wanted = frame.select(*(name for name, _ in answers.KEY), "format", "value")
    return wanted.mapInArrow(decode_positions, from_arrow_schema(POSITIONS))


def decode_positions(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Decode batches of messages; one that cannot be decoded, or has no position, is left out."""
    for batch in batches:
        rows = [row for record in batch.to_pylist() if (row := _position(record)) is not None]
        yield pa.RecordBatch.from_pylist(rows, schema=POSITIONS)


def _position(record: dict[str, Any]) -> dict[str, Any] | None:
    try:
        place = FORMATS[record["format"]].decode(record["value"]).position
    except PayloadError:
        return None
    if place is None or not (math.isfinite(place.latitude_deg) and math.isfinite(place.longitude_deg)):
        return None
    return record | {"latitude_deg": place.latitude_deg, "longitude_deg": place.longitude_deg}


def nearest(places: DataFrame, stations: DataFrame) -> DataFrame:
    """Return one row for each message: its key, the nearest station, of equally near ones the first by name, distance in m.

    Args:
        places: rows of POSITIONS.
        stations: station, station_latitude_deg and station_longitude_deg; sent to every task.
    """
    key = [name for name, _ in answers.KEY]
    distance = distance_m(
        *map(F.col, ("latitude_deg", "longitude_deg", "station_latitude_deg", "station_longitude_deg"))
    )
    pairs = places.crossJoin(F.broadcast(stations)).withColumn("distance_m", distance)
    least = F.min(F.struct("distance_m", "station"))
    return pairs.groupBy(*key).agg(least.alias("least")).select(*key, "least.station", "least.distance_m")


def distance_m(
    latitude_deg: Column, longitude_deg: Column, to_latitude_deg: Column, to_longitude_deg: Column
) -> Column:
    """Return the great-circle distance by the haversine formula (Sinnott, "Virtues of the Haversine", 1984)."""

    def half_squared(difference_deg: Column) -> Column:
        sine = F.sin(F.radians(difference_deg) / 2)
        return sine * sine

    across = F.cos(F.radians(latitude_deg)) * F.cos(F.radians(to_latitude_deg))
    chord = half_squared(to_latitude_deg - latitude_deg) + across * half_squared(
        to_longitude_deg - longitude_deg
    )
    # Of opposite places rounding may come to more than 1.
    return F.lit(2 * EARTH_RADIUS_M) * F.asin(F.sqrt(F.least(chord, F.lit(1.0))))
