"""Results for other programs and for papers: a file a table, nulls kept apart from zeros, or a file a chart.

A run's tables are those of its directory, and `metrics` beside them with one row a figure. A study has `figures` (a row
for each cell and metric, with its interval) and `repetitions` (a row for each figure of each repetition).
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from ivsim.library.folder import is_study
from ivsim.library.results import Results, load_results
from ivsim.library.studies import StudyResults, load_study
from ivsim.report.drawing import FORMATS as PICTURES
from ivsim.report.drawing import Charts, Drawing
from ivsim.report.run_charts import run_charts
from ivsim.runs.checksums import check
from ledger.metrics import METRICS
from schemas.errors import Refusal

# How many rows are turned into Python's objects at a time.
_BATCH: Final = 50_000
Loader = Callable[[], pa.Table]
Writer = Callable[[Path], str]


def loaders(directory: Path) -> dict[str, Loader]:
    """Return the tables of a result, each to be read when it is called; Refusal when the directory holds no result."""
    if is_study(directory):
        study = load_study(directory)
        return {"figures": study.figures, "repetitions": lambda: repetitions(study)}
    run = load_results(directory)
    found: dict[str, Loader] = {"metrics": lambda: metrics(run)}
    for path in sorted(directory.glob("*.parquet")):
        found[path.stem] = lambda name=path.stem: run.table(name)  # type: ignore[misc]
    return found


def metrics(run: Results) -> pa.Table:
    """Return one row a figure: metric, value (null where it is undefined), unit, population, meaning; and the run."""
    rows = [
        {"run": run.manifest["run"], **metric._asdict(), "value": run.metrics.get(name)}
        for name, metric in METRICS.items()
    ]
    texts = ("run", "name", "unit", "population", "meaning")
    schema = pa.schema([*((name, pa.string()) for name in texts), ("value", pa.float64())])
    return pa.Table.from_pylist(rows, schema)


def repetitions(study: StudyResults) -> pa.Table:
    """Return one row for each metric of the study and repetition that is done: cell, axes, repetition, seed, value."""
    axes = dict.fromkeys(axis for cell in study.cells for axis in cell.cell.values)
    rows = []
    for result in study.cells:
        values = result.cell.values
        for one in result.done:
            where = {
                "cell": result.cell.name,
                "sweep": result.cell.sweep,
                **{axis: str(values[axis]) if axis in values else None for axis in axes},
                "repetition": one.task.repetition,
                "seed": one.seed,
            }
            rows += [
                {
                    **where,
                    "metric": name,
                    "unit": study.study.metric(name).unit,
                    "value": one.figures.get(name),
                }
                for name in study.metrics_of(result)
            ]
    schema = pa.schema(
        [(name, pa.string()) for name in ("cell", "sweep", *axes)]
        + [("repetition", pa.int64()), ("seed", pa.int64()), ("metric", pa.string()), ("unit", pa.string())]
        + [("value", pa.float64())]
    )
    return pa.Table.from_pylist(rows, schema)


def _texts(table: pa.Table) -> pa.Table:
    """Return the table with raw bytes as hexadecimal digits, which CSV and JSON can hold."""
    for index, field in enumerate(table.schema):
        if pa.types.is_binary(field.type):
            digits = [None if value is None else value.hex() for value in table.column(index).to_pylist()]
            table = table.set_column(index, field.name, pa.array(digits, pa.string()))
    return table


def write_csv(table: pa.Table, path: Path) -> None:
    """Write a header and a line a row; null is an empty field, an empty text is two quotes."""
    pa_csv.write_csv(_texts(table), path)


def _digits(table: pa.Table) -> pa.Table:
    """Return the table with times in ns, and seeds, as strings.

    Above 2^53 a JSON number is changed by those who read it as a double (RFC 7493, 2.2): jq and JavaScript do.
    """
    for index, field in enumerate(table.schema):
        if pa.types.is_integer(field.type) and (field.name.endswith("_ns") or field.name == "seed"):
            table = table.set_column(index, field.name, table.column(index).cast(pa.string()))
    return table


def _finite(table: pa.Table) -> pa.Table:
    """Return the table with null for what is no number, or without end: JSON has neither."""
    for index, field in enumerate(table.schema):
        if pa.types.is_floating(field.type):
            column = table.column(index)
            table = table.set_column(index, field.name, pc.if_else(pc.is_finite(column), column, None))
    return table


def write_json(table: pa.Table, path: Path) -> None:
    """Write an array of objects, a line each, every column in each of them; times in ns are strings."""
    with path.open("w", encoding="utf-8") as out:
        out.write("[")
        separator = "\n"
        for batch in _finite(_digits(_texts(table))).to_batches(_BATCH):
            for row in batch.to_pylist():
                out.write(separator + json.dumps(row, ensure_ascii=False, allow_nan=False))
                separator = ",\n"
        out.write("\n]\n")


FORMATS: Final[Mapping[str, Callable[[pa.Table, Path], Any]]] = {
    "csv": write_csv,
    "parquet": pq.write_table,
    "json": write_json,
}


def charts(directory: Path) -> Charts:
    """Return the charts of a result's report, drawn anew; Refusal when the directory holds no result."""
    if is_study(directory):
        return load_study(directory).charts()
    load_results(directory)
    check(directory)
    try:
        return run_charts(directory)
    except (OSError, pa.ArrowException) as error:
        raise Refusal(f"{directory}: a table cannot be read: {str(error).splitlines()[0]}") from None


def export(
    directory: Path, to: str, output: Path, tables: tuple[str, ...] = (), drawn: tuple[str, ...] = ()
) -> list[tuple[Path, str]]:
    """Write what a result has into a new or empty directory, all of it or nothing; return each file and what is in it.

    Args:
        directory: of the result.
        to: a key of FORMATS for tables, or of ivsim.report.drawing.FORMATS for charts.
        output: where the files go.
        tables: their names; all without any.
        drawn: names of charts; all without any.
    """
    if to not in FORMATS and to not in PICTURES:
        raise Refusal(f"--to {to!r}: allowed are {', '.join([*FORMATS, *PICTURES])}")
    is_table = to in FORMATS
    option, names = ("--table", tables) if is_table else ("--chart", drawn)
    if other := drawn if is_table else tables:
        word = "--chart" if is_table else "--table"
        raise Refusal(
            f"{word} {other[0]!r}: --to is one of {', '.join(PICTURES if is_table else FORMATS)} for it"
        )
    writers = _tables_as(directory, to) if is_table else _charts_as(directory, to)
    for name in names:
        if name not in writers:
            raise Refusal(f"{option} {name!r}: {directory} has {', '.join(writers)}")
    if output.is_dir() and any(output.iterdir()):
        raise Refusal(f"--output {output}: not empty; name a new directory")
    try:
        output.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".export-", dir=output) as unfinished:
            written = []
            for name in names or writers:
                path = Path(unfinished) / f"{name}.{to}"
                written.append((path, writers[name](path)))
            for path, _ in written:
                shutil.move(path, output / path.name)
    except OSError as error:
        raise Refusal(f"--output {output}: {error.strerror or error}") from None
    return [(output / path.name, words) for path, words in written]


def _tables_as(directory: Path, to: str) -> dict[str, Writer]:
    """Return by its name what writes a table, and says how many rows it has."""

    def write(load: Loader, path: Path) -> str:
        table = load()
        FORMATS[to](table, path)
        return f"{table.num_rows:,} rows"

    return {name: partial(write, load) for name, load in loaders(directory).items()}


def _charts_as(directory: Path, to: str) -> dict[str, Writer]:
    """Return by its name what writes a chart, and says what it shows."""

    def write(drawing: Drawing, caption: str, path: Path) -> str:
        drawing.save(path, to)
        return caption

    return {
        Path(name).stem: partial(write, drawing, caption)
        for name, (drawing, caption) in charts(directory).items()
    }
