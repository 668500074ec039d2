"""The definitions' SQL over files and tables of this process, by DuckDB; Spark has no part in it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa


def listed(expressions: dict[str, str]) -> str:
    """Return a SELECT list: name -> SQL."""
    return ", ".join(f"{sql} as {name}" for name, sql in expressions.items())


def over_file(sql: str, path: Path) -> list[dict[str, Any]]:
    """Return the rows of a query whose one `?` is a Parquet file, which is read as a stream."""
    with _database().cursor() as cursor:
        cursor.execute(sql.replace("?", "read_parquet(?)"), [str(path)])
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def over_table(sql: str, rows: pa.Table) -> pa.Table:
    """Return the result of a query over the table `rows`, in its order."""
    with _database().cursor() as cursor:
        cursor.register("rows", rows)
        return cursor.execute(sql).fetch_arrow_table()


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """Return the process's one database, in memory; nothing is kept in it. One thread: rows stay in their order."""
    return duckdb.connect(config={"threads": 1})
