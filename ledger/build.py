"""Builds a run's ledger and figures from the files in its directory, by DuckDB; it asks no Kafka and starts no Java."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from ledger import balance, fates, kept, sources, values
from ledger.applied import applied_to_all
from ledger.config import LedgerConfig
from ledger.values import KafkaCounts
from ledger.window import Window, read_window

LEDGER: Final = "ledger.parquet"
METRICS: Final = "metrics.json"
# Figures of six million rows take about two minutes.
_START_S: Final = 120.0
_ROWS_PER_S: Final = 10_000
_MEMORY: Final = "2GB"  # above it rows go to the disk, into a directory beside the ledger


def ledger_limit_s(messages: int) -> float:
    """Return how long a ledger of so many messages due may take: what a start takes on a busy machine, and its rows."""
    return _START_S + messages / _ROWS_PER_S


def build(config: LedgerConfig, say: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Write ledger.parquet (one row per message of the schedule) and metrics.json; return what metrics.json holds.

    `say` is told of each step in a few words. Where kafka_records.parquet is missing, the result is partial: what was in
    Kafka and in the twins is unknown.

    Refusal when the emission log is missing or does not name each message once; ArithmeticError when
    the fates of a vehicle's messages do not add up to those due.
    """
    reasons: list[str] = []
    columns = sources.emission_columns(config)
    window = read_window(config, reasons)
    with _database(config) as database:
        _view(database, "emissions", columns, config.run_file(sources.EMISSION_LOG))
        kafka = KafkaCounts()
        if config.twins:
            say("reading Kafka's records")
            kafka = _kafka(database, config, reasons)
            _logs(database, config, _GATEWAYS)
        elif config.bridged:
            say("reading what the platform confirmed and the consumer had")
            kafka = _consumed(config, reasons)
            _logs(database, config, _OF_PLATFORM)
        say("giving each message its fate")
        text = fates.ledger(config, window, status_known=kafka.status_known)
        _write(database, text, config)
    say("computing the figures")
    return finish(config, kafka, window, reasons)


def _write(database: duckdb.DuckDBPyConnection, text: str, config: LedgerConfig) -> None:
    """Write the rows of a statement, sorted and checked, to ledger.parquet."""
    path = config.run_file(LEDGER)
    part = path.with_suffix(".parquet.part")
    try:
        database.execute(
            f"copy ({text} order by {', '.join(sources.KEY)}) to {_quoted(part)} (format parquet, compression zstd)"
        )
        balance.check(part, sources.messages_due(config))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def finish(config: LedgerConfig, kafka: KafkaCounts, window: Window, reasons: list[str]) -> dict[str, Any]:
    """Write metrics.json from the ledger as it was written; return what it holds."""
    metrics = values.compute(config, kafka, window)
    metrics |= {"partial": bool(reasons), "partial_reason": "; ".join(reasons) or None}
    path = config.run_file(METRICS)
    temporary = path.with_suffix(".json.part")
    temporary.write_text(json.dumps(metrics, indent=1) + "\n", encoding="utf-8")
    temporary.replace(path)
    return metrics


@contextmanager
def _database(config: LedgerConfig) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database in memory, which is gone behind the block. One thread: the same rows make the same file."""
    scratch = config.run_file(".ledger")
    settings: dict[str, str | bool | int | float | list[str]] = {
        "threads": 1,
        "memory_limit": _MEMORY,
        "temp_directory": str(scratch),
    }
    try:
        with duckdb.connect(config=settings) as database:
            kept.prepare(database)
            yield database
    except RuntimeError as error:
        if str(error) != "Query interrupted":
            raise
        raise KeyboardInterrupt from None  # DuckDB's word for it
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _table(database: duckdb.DuckDBPyConnection, name: str, schema: pa.Schema, path: Path) -> None:
    """Give a file of these columns a name, or a table without rows where there is no file."""
    if path.is_file():
        sources.columns_of(path, schema)
        _view(database, name, ["*"], path)
    else:
        database.register(name, schema.empty_table())


def _view(database: duckdb.DuckDBPyConnection, name: str, columns: list[str], path: Path) -> None:
    database.execute(f"create view {name} as select {', '.join(columns)} from read_parquet({_quoted(path)})")  # noqa: S608


def _kafka(database: duckdb.DuckDBPyConnection, config: LedgerConfig, reasons: list[str]) -> KafkaCounts:
    """Make the table `contained` of the messages that Kafka held; return what was counted on the way."""
    path = config.run_file(sources.KAFKA_RECORDS)
    _table(database, "kept", sources.KAFKA_RECORD, path)
    database.execute(f"create table records as {kept.records(config)}")
    database.execute(f"create table states as {kept.STATES}")
    database.execute(f"create table messages as {fates.MESSAGES}")
    database.register("applied", _applied(database))
    database.execute(f"create table contained as {fates.CONTAINED}")
    if not path.is_file():
        reasons.append(f"{sources.KAFKA_RECORDS} is missing: nothing is known of Kafka and the twins")
        return KafkaCounts(status_known=False)
    good, rejected = _row(database, "select count(*) - count(reason), count(reason) from records")
    (updates,) = _row(database, "select count(*) from states")
    return KafkaCounts(True, updates, rejected, good)


def _applied(database: duckdb.DuckDBPyConnection) -> pa.Table:
    """Return for each message that may be in a twin when the twin's states first contained it."""
    stamps = "vehicle_id, epoch, sequence, appended_at_ns"
    messages = f"select {stamps} from messages where copies is not null order by vehicle_id"  # noqa: S608
    states = (
        f"select {stamps} from states where vehicle_id is not null and epoch is not null and sequence is not null"  # noqa: S608
        " order by vehicle_id"
    )
    return applied_to_all(
        database.execute(messages).fetch_arrow_table(), database.execute(states).fetch_arrow_table()
    )


# Of each table made of a log: its name, its statement, the log's name there, its file and stamp.
_Log = tuple[str, str, str, tuple[str, str]]
_TAKEN: Final[_Log] = ("taken", fates.TAKEN, "received", sources.RECEIVED)
_GATEWAYS: Final[tuple[_Log, ...]] = (_TAKEN, ("left_behind", fates.LEFT, "in_flight", sources.IN_FLIGHT))
_OF_PLATFORM: Final[tuple[_Log, ...]] = (
    _TAKEN,
    ("confirmed_first", fates.CONFIRMED, "confirmed", sources.CONFIRMED),
    ("consumed_first", fates.CONSUMED, "consumed", sources.CONSUMED),
)


def _logs(database: duckdb.DuckDBPyConnection, config: LedgerConfig, wanted: tuple[_Log, ...]) -> None:
    """Make the tables of the gateways' and the consumer's logs; without rows where there are none."""
    for name, statement, log, (file, stamp) in wanted:
        _table(database, log, sources.stamp_log(stamp), config.run_file(file))
        database.execute(f"create table {name} as {statement}")


def _consumed(config: LedgerConfig, reasons: list[str]) -> KafkaCounts:
    """Return whether the consumer has read the platform to its end, and how many records that were."""
    path = config.run_file(sources.CONSUMED[0])
    if not path.is_file():
        reasons.append(f"{path.name} is missing: nothing is known of what the consumer had")
        return KafkaCounts(status_known=False)
    complete = (pq.read_schema(path).metadata or {}).get(sources.COMPLETE) == b"true"
    if not complete:
        reasons.append("the consumer did not read the platform to its end")
    return KafkaCounts(complete, good_records=pq.read_metadata(path).num_rows)


def _row(database: duckdb.DuckDBPyConnection, statement: str) -> tuple[Any, ...]:
    row = database.execute(statement).fetchone()
    assert row is not None
    return row


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
