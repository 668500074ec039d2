"""Rows of a link in a Parquet file, a row group for each table: whoever writes or reads them holds one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from simulator.links.step_log import Rows


def write_rows(path: Path, rows: Rows, compression: str = "snappy") -> None:
    """Write the tables of `rows`; no file where there is none. OSError when the disk takes no more."""
    with ExitStack() as stack:
        writer: pq.ParquetWriter | None = None
        for table in rows:
            if writer is None:
                writer = stack.enter_context(pq.ParquetWriter(path, table.schema, compression=compression))
            writer.write_table(table)


@dataclass(frozen=True)
class RowFile:
    """Yields the tables of a file that `write_rows` has written, each time from the first; none where there is no file.

    Attributes:
        columns: names of those to read; None: all.
    """

    path: Path
    columns: tuple[str, ...] | None = None

    def __iter__(self) -> Iterator[pa.Table]:
        if not self.path.is_file():
            return
        columns = None if self.columns is None else list(self.columns)
        with pq.ParquetFile(self.path) as file:
            for group in range(file.num_row_groups):
                yield file.read_row_group(group, columns=columns)
