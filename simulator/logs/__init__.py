"""Recorded drives: the table of readers, a file each and one line here, or a plug-in of `ivsim.vehicle_logs`."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from schemas.errors import Refusal
from schemas.plugins import Plugin, Table, checked, made
from simulator.logs.base import Drive, LogReader, digest
from simulator.logs.delimited import CSV
from simulator.logs.gpx import GPX
from simulator.logs.mapping import read_mapping
from simulator.logs.parquet import PARQUET
from simulator.logs.sumo import SUMO

__all__ = ["LOG_READERS", "Drive", "LogReader", "VehicleLog", "read_log", "reader_of"]

_ALL: Final = (CSV, PARQUET, GPX, SUMO)


def _row(plugin: Plugin, found: object) -> LogReader:
    reader: LogReader = checked(made(found), plugin.name, LogReader)
    return reader


LOG_READERS: Final[Table[LogReader]] = Table("ivsim.vehicle_logs", {one.name: one for one in _ALL}, _row)


class VehicleLog(NamedTuple):
    """A log that was read.

    Attributes:
        drives: in the order in which their vehicles appear.
        log_sha256, mapping_sha256: of the files; None where there is no mapping.
    """

    drives: tuple[Drive, ...]
    log_sha256: str
    mapping_sha256: str | None


def reader_of(path: Path) -> LogReader:
    """Return the reader of a file by how its name ends; Refusal lists the ends that there are."""
    found = [one for one in LOG_READERS.values() if path.name.lower().endswith(one.suffix)]
    if not found:
        ends = ", ".join(one.suffix for one in LOG_READERS.values())
        raise Refusal(f"{path}: no log that can be read: its name must end in one of {ends}")
    return max(found, key=lambda one: len(one.suffix))


def read_log(path: Path, mapping: Path | None) -> VehicleLog:
    """Return the drives in a log; the same files give the same drives.

    Raises:
        Refusal: names file and line, or the key of the mapping.
    """
    reader = reader_of(path)
    if reader.mapped and mapping is None:
        raise Refusal(f"{path}: a {reader.name} log needs a mapping, which says what its columns are")
    if not reader.mapped and mapping is not None:
        raise Refusal(
            f"{mapping}: has no effect on a {reader.name} log, which says itself what its values are"
        )
    try:
        sums = digest(path), None if mapping is None else digest(mapping)
    except OSError as error:
        raise Refusal(f"{error.filename}: {error.strerror}") from None
    return _read(path, mapping, *sums)


@lru_cache(maxsize=2)
def _read(path: Path, mapping: Path | None, log_sha256: str, mapping_sha256: str | None) -> VehicleLog:
    drives = reader_of(path).read(path, None if mapping is None else read_mapping(mapping))
    return VehicleLog(drives, log_sha256, mapping_sha256)
