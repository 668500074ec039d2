"""Our own trace schema as CSV and Parquet, both ways; other people's formats are in `importers`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from schemas.errors import Refusal
from simulator.traces.layers import RATE_LAYERS
from simulator.traces.model import (
    COLUMNS,
    PLACE_COLUMNS,
    RATE_LAYER,
    RATE_MEANINGS,
    Floats,
    Trace,
    first_problem,
)
from simulator.traces.source import lines_of, number, read_text

SCHEMA_KEY = "ivsim_trace"
SCHEMA_VERSION = "1"
_HEADER_LINE = re.compile(r"# ?([a-z][a-z0-9_]*): (.*)")
_LAST_STEP_KEY = "last_step_s"
# In a Parquet file's metadata, beside those of whoever wrote it: what a reader obeys, and what pandas, GeoPandas, R and
# Arrow add to a file of ours.
_OBEYED_KEYS = frozenset(
    f"{start}{end}".encode()
    for start in ("rate_meaning", RATE_LAYER)
    for end in ("", "_uplink_kbps", "_downlink_kbps")
) | {SCHEMA_KEY.encode(), _LAST_STEP_KEY.encode()}
_FOREIGN_KEYS = frozenset({b"pandas", b"geo", b"r", b"ARROW:schema", b"PANDAS_ATTRS"})


def read_trace(path: str | Path) -> Trace:
    """The trace in a file of our schema: `*.parquet`, anything else is read as CSV.

    Raises:
        Refusal: bad input; the line names the file and the line (CSV) or data row (Parquet).
    """
    path = Path(path)
    return _read_parquet(path) if path.suffix == ".parquet" else parse_csv(read_text(path), path)


def write_trace(trace: Trace, path: str | Path) -> None:
    """Write CSV, or Parquet when the name ends in `.parquet`; both read back equal."""
    path = Path(path)
    if path.suffix == ".parquet":
        _write_parquet(trace, path)
    else:
        path.write_text(to_csv(trace), encoding="utf-8", newline="\n")


def to_csv(trace: Trace) -> str:
    """The trace as text: `# key: value` lines, the column names, one line per step."""
    columns = {"time_s": trace.time_s, **trace.all_columns()}
    header = [f"# {key}: {value}" for key, value in _full_header(trace).items()]
    rows = zip(*(values.tolist() for values in columns.values()), strict=True)
    body = [",".join(map(_shortest, row)) for row in rows]
    return "\n".join([*header, ",".join(columns), *body, ""])


def _shortest(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def _full_header(trace: Trace) -> dict[str, str]:
    header = {SCHEMA_KEY: SCHEMA_VERSION, **trace.header, _LAST_STEP_KEY: _shortest(trace.last_step_s)}
    for key, value in header.items():
        if not _HEADER_LINE.fullmatch(f"# {key}: {value}"):
            raise Refusal(f"trace header {key!r}: {value!r}, must be one line under a key of a-z, 0-9, _")
    return header


def parse_csv(text: str, path: Path) -> Trace:
    """The trace in a CSV text; `path` is for the refusals only."""
    lines = lines_of(text)
    header, row = _parse_header(lines, path)
    if row == len(lines):
        raise Refusal(f"{path}: no line with the column names after the header")
    names = _checked_names(lines[row].split(","), f"{path}:{row + 1}")
    first = row + 1
    values = _parse_rows(lines[first:], names, path, first + 1)
    return _trace(values, header, path, lambda index: f"{path}:{first + 1 + index}")


def _parse_header(lines: list[str], path: Path) -> tuple[dict[str, str], int]:
    header: dict[str, str] = {}
    for row, line in enumerate(lines):
        if not line.startswith("#"):
            return header, row
        found = _HEADER_LINE.fullmatch(line)
        if not found or found[1] in header:
            problem = "occurs twice" if found else "must read `# key: value`"
            raise Refusal(f"{path}:{row + 1}: header line {line!r} {problem}")
        header[found[1]] = found[2]
    return header, len(lines)


def _checked_names(names: list[str], where: str) -> list[str]:
    allowed = ("time_s", *COLUMNS, *PLACE_COLUMNS)
    for name in names:
        if name not in allowed or names.count(name) > 1:
            problem = "twice" if name in allowed else f"allowed: {', '.join(allowed)}"
            raise Refusal(f"{where}: column {name!r}, {problem}")
    if names[0] != "time_s" or not set(names) & set(COLUMNS):
        raise Refusal(f"{where}: the columns must be time_s first, then at least one of {', '.join(COLUMNS)}")
    return names


def _parse_rows(lines: list[str], names: list[str], path: Path, first_line: int) -> dict[str, Floats]:
    width = len(names)
    rows = []
    for line_number, line in enumerate(lines, first_line):
        cells = line.split(",")
        if len(cells) != width:
            raise Refusal(f"{path}:{line_number}: {len(cells)} fields, must be {width} ({','.join(names)})")
        rows.append([number(cell, path, line_number, name) for cell, name in zip(cells, names, strict=True)])
    table = np.array(rows, dtype=np.float64).reshape(len(rows), width)
    return {name: np.ascontiguousarray(table[:, i]) for i, name in enumerate(names)}


def _trace(values: dict[str, Floats], header: dict[str, str], path: Path, where: Any) -> Trace:
    version = header.pop(SCHEMA_KEY, SCHEMA_VERSION)
    if version != SCHEMA_VERSION:
        raise Refusal(f"{path}: {SCHEMA_KEY} {version!r}, must be {SCHEMA_VERSION!r}")
    for start, allowed in (("rate_meaning", RATE_MEANINGS), (RATE_LAYER, RATE_LAYERS)):
        for key, said in header.items():
            if key.startswith(start) and said not in allowed:
                raise Refusal(f"{path}: {key} {said!r}, must be one of {', '.join(allowed)}")
    time_s = values.pop("time_s")
    if len(time_s) == 0:
        raise Refusal(f"{path}: no data rows")
    problem = first_problem(time_s, values)
    if problem is not None:
        raise Refusal(f"{where(problem[0])}: {problem[1]}")
    return Trace(
        time_s, header=header, last_step_s=_last_step_s(header, time_s, path), source=str(path), **values
    )


def _last_step_s(header: dict[str, str], time_s: Floats, path: Path) -> float:
    """The header's word; without one the last step is as long as the one before it, a single step 1 s."""
    stated = header.pop(_LAST_STEP_KEY, None)
    if stated is None:
        return float(time_s[-1] - time_s[-2]) if len(time_s) > 1 else 1.0
    value = number(stated, path, 1, _LAST_STEP_KEY)
    if value <= 0:
        raise Refusal(f"{path}: {_LAST_STEP_KEY} is {stated!r}, must be above 0")
    return value


def _write_parquet(trace: Trace, path: Path) -> None:
    import pyarrow as pa  # noqa: PLC0415 - half a second that a CSV need not pay
    import pyarrow.parquet as pq  # noqa: PLC0415

    table = pa.table({"time_s": trace.time_s, **trace.all_columns()})
    metadata = {key.encode(): value.encode() for key, value in _full_header(trace).items()}
    pq.write_table(table.replace_schema_metadata(metadata), path)


def _read_parquet(path: Path) -> Trace:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise Refusal(f"{path}: cannot be read as Parquet: {str(error).splitlines()[0]}") from error
    _checked_names(table.column_names, str(path))
    for field in table.schema:
        kinds = (pa.types.is_floating, pa.types.is_integer, pa.types.is_decimal)
        if not any(is_kind(field.type) for is_kind in kinds):
            raise Refusal(f"{path}: column {field.name} is {field.type}, must be a number")
    values = {name: table[name].cast(pa.float64()).to_numpy() for name in table.column_names}
    header = _our_keys(table.schema.metadata or {}, path)
    return _trace(values, header, path, lambda index: f"{path}: data row {index + 1}")


def _our_keys(metadata: Mapping[bytes, bytes], path: Path) -> dict[str, str]:
    """Return the metadata that are a header of ours; what other writers add (Spark, R, GeoPandas) is not.

    Where the version of our schema is among them, every line that our header could have is ours, but for keys that
    others are known to add when they hand a file on. Without it, other people's `seed` or `policy` is theirs: ours is
    what a reader obeys, where its value is one of ours, and origin and licence beside a meaning.
    """
    ours = SCHEMA_KEY.encode() in metadata
    header = {}
    for key, value in metadata.items():
        try:
            name, said = key.decode(), value.decode()
        except UnicodeDecodeError:
            if ours and key in _OBEYED_KEYS:
                raise Refusal(f"{path}: metadata {key.decode()}: not UTF-8 text") from None
            continue
        if _HEADER_LINE.fullmatch(f"# {name}: {said}") and key not in _FOREIGN_KEYS:
            header[name] = said
    if ours:
        return header
    obeyed = {name: said for name, said in header.items() if _could_be_ours(name, said)}
    with_it = ("origin", "licence") if any(name.startswith("rate_meaning") for name in obeyed) else ()
    return obeyed | {name: header[name] for name in with_it if name in header}


def _could_be_ours(name: str, said: str) -> bool:
    """Say whether a reader obeys the key, and the value is one that we write."""
    if name == _LAST_STEP_KEY:
        return bool(re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,15})?", said)) and float(said) > 0
    allowed = RATE_MEANINGS if name.startswith("rate_meaning") else RATE_LAYERS
    return name.encode() in _OBEYED_KEYS and said in allowed
