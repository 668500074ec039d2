"""A run's result directory, read; nothing here can run anything."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from ivsim.option_rules import possible_options
from ivsim.options import RunOptions, option_name
from ivsim.runs.checksums import check, read_checksums
from ivsim.runs.directory import SCHEMA, RunDirectory
from schemas.errors import Refusal

_GOES_ON: Final = "{}: the run goes on, or was killed: `ivsim report` finishes it"


@dataclass(frozen=True)
class Results:
    """One run's result directory, read.

    Attributes:
        directory: where it is.
        metrics: metrics.json; docs/results.md has every name and unit. A figure that was not measured is missing or
            None, never 0.
        manifest: manifest.json: options, versions, machine, link, timings.
    """

    directory: Path
    metrics: dict[str, Any]
    manifest: dict[str, Any]

    @property
    def options(self) -> RunOptions:
        """The checked options of the run; Refusal when this version does not know them."""
        return possible_options(self.manifest["options"], option_name)

    @property
    def report(self) -> Path:
        """The report, one HTML file that opens offline."""
        return self.directory / "report.html"

    @property
    def ledger(self) -> pa.Table:
        """One row per message of the schedule, with its vehicle, its stamps at every hop (ns), its fate, and where it was lost."""
        return self.table("ledger")

    @property
    def link(self) -> pa.Table:
        """One row per second, vehicle and direction, with what was asked of the link, and what was counted."""
        return self.table("link")

    def table(self, name: str) -> pa.Table:
        """Return a table of the directory by its name without `.parquet`; Refusal lists those that are there."""
        path = self.directory / f"{name}.parquet"
        if not path.is_file() and path.name not in read_checksums(self.directory):
            there = ", ".join(sorted(found.stem for found in self.directory.glob("*.parquet")))
            raise Refusal(f"{self.directory}: no table {name!r}; there are {there}")
        check(self.directory, [path.name])
        try:
            return pq.read_table(path)
        except (OSError, pa.ArrowException) as error:
            raise Refusal(f"{path}: cannot be read: {str(error).splitlines()[0]}") from None


def load_results(directory: str | Path) -> Results:
    """Return the results of a run that has ended; Refusal when the directory holds none that can be read.

    Each file is held against the run's checksums when it is read: one that was changed since is refused by its name.
    """
    path = RunDirectory(Path(directory))
    found = []
    for file in (path.metrics, path.manifest):
        try:
            found.append(json.loads(file.read_text()))
        except OSError as error:
            if path.work.exists():
                raise Refusal(_GOES_ON.format(directory)) from None
            raise Refusal(f"{directory}: no result of a run: {file.name}: {error.strerror}") from None
        except ValueError as error:
            raise Refusal(f"{file}: no JSON: {error}") from None
        if not isinstance(found[-1], dict):
            raise Refusal(f"{file}: no JSON object")
    metrics, manifest = found
    if manifest.get("schema") != SCHEMA:
        raise Refusal(f"{path.manifest}: schema {manifest.get('schema')!r}: this version reads {SCHEMA}")
    if path.work.exists():
        raise Refusal(_GOES_ON.format(directory))
    check(path.path, [path.metrics.name, path.manifest.name])
    return Results(path.path, metrics, manifest)
