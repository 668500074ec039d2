"""Parquet: flat columns named by a mapping; null says nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from schemas.errors import Refusal
from simulator.logs.base import Drive, Drives, LogReader
from simulator.logs.delimited import check_columns, take_row
from simulator.logs.mapping import Mapping

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS: Final = 10_000


def _text(value: Any) -> str:
    """Return a cell as a CSV file would have it: the shortest text that gives the same number."""
    if value is None:
        return ""
    if isinstance(value, float):
        return repr(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read(path: Path, mapping: Mapping | None) -> tuple[Drive, ...]:
    # Not before there is such a file: every sender imports this module.
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    assert mapping is not None
    drives = Drives(path, "row")
    try:
        with pq.ParquetFile(path) as file:
            check_columns(path, mapping, file.schema_arrow.names)
            place = 0
            for batch in file.iter_batches(_ROWS, columns=mapping.columns):
                for row in _plain(batch).to_pylist():
                    place += 1
                    take_row(
                        drives, mapping, place, {name: _text(cell) for name, cell in row.items()}, path.stem
                    )
    except (pa.ArrowException, OSError) as error:
        raise Refusal(f"{path}: no whole Parquet file: {str(error).splitlines()[0]}") from None
    return drives.done()


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch whose instants are ISO 8601 texts: Python's own have no nanoseconds and hide their zone."""
    import pyarrow as pa  # noqa: PLC0415 - see below

    columns = [
        column.cast(pa.timestamp("us", column.type.tz), safe=False)
        if pa.types.is_timestamp(column.type)
        else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


PARQUET: Final = LogReader("parquet", "Parquet with flat columns", ".parquet", mapped=True, read=_read)
