"""Stations, such as charging stations: a file of them, read or refused with its line."""

from __future__ import annotations

import csv
import hashlib
import re
from pathlib import Path
from typing import Final, NamedTuple

from schemas.errors import Refusal

COLUMNS: Final = ("station", "latitude_deg", "longitude_deg")
# They are sent to every task of the query.
MOST: Final = 10_000
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LIMITS_DEG: Final = {"latitude_deg": 90.0, "longitude_deg": 180.0}


class Station(NamedTuple):
    """One station; degrees of WGS 84."""

    station: str
    latitude_deg: float
    longitude_deg: float


class Stations(NamedTuple):
    """The stations of a file, in its order, and the file's sha256."""

    every: tuple[Station, ...]
    sha256: str


def read_stations(path: Path) -> Stations:
    """Return what a CSV file with the header `station,latitude_deg,longitude_deg` holds; Refusal names file and line."""
    try:
        content = path.read_bytes()
        lines = content.decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise Refusal(f"{path}: {why}") from None
    if not lines or tuple(lines[0].split(",")) != COLUMNS:
        raise Refusal(f"{path}: line 1: must be {','.join(COLUMNS)}")
    if not 1 <= len(lines) - 1 <= MOST:
        raise Refusal(f"{path}: {len(lines) - 1} stations: from 1 to {MOST:,} are allowed")
    every: dict[str, Station] = {}
    for number, row in enumerate(csv.reader(lines[1:]), 2):
        where = f"{path}: line {number}"
        found = _station(row, where)
        if found.station in every:
            raise Refusal(f"{where}: station {found.station} is there twice")
        every[found.station] = found
    return Stations(tuple(every.values()), hashlib.sha256(content).hexdigest())


def _station(row: list[str], where: str) -> Station:
    if len(row) != len(COLUMNS):
        raise Refusal(f"{where}: {len(row)} values, not {len(COLUMNS)}")
    name, *angles = row
    if not _NAME.fullmatch(name):
        raise Refusal(f"{where}: station {name[:80]!r}: 1 to 64 letters, digits, - and _ are allowed")
    return Station(
        name,
        *(_angle(column, text, where) for column, text in zip(_LIMITS_DEG, angles, strict=True)),
    )


def _angle(column: str, text: str, where: str) -> float:
    most = _LIMITS_DEG[column]
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not -most <= value <= most:
        raise Refusal(f"{where}: {column} {text[:80]!r}: a number from -{most:g} to {most:g} is allowed")
    return value
