"""The account's balance: each message due has one row and one fate, for every vehicle and for the run."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ledger.metrics import FATES
from ledger.sources import KEY
from ledger.sql import over_file
from schemas.errors import Refusal


def check(ledger: Path, due: int) -> None:
    """Raise ArithmeticError unless each message due has one place, for every vehicle and the run.

    `ledger` is a file of rows sorted by KEY. Refusal when the emission log names a message twice.
    """
    named_twice = _named_twice(ledger)
    if named_twice is not None:
        raise Refusal(f"emissions.parquet: vehicle {named_twice}: a message is due twice")
    total = 0
    for row in over_file(_PLACED, ledger):
        if row["due"] != row["placed"]:
            raise ArithmeticError(
                f"ledger: vehicle {row['vehicle_id']}: {row['due']} due, {row['placed']} placed"
            )
        total += row["due"]
    if total != due:
        raise ArithmeticError(f"ledger: {due} messages due, {total} placed")


_PLACED: Final = (
    "select vehicle_id, count(*) as due,"  # noqa: S608 - the text is all our own
    f" count(*) filter (where fate in ({', '.join(map(repr, FATES))})) as placed from ? group by vehicle_id"
)


def _named_twice(ledger: Path) -> str | None:
    """Return whose message has two rows; they follow each other, so that a batch of rows is enough to see it."""
    last = None
    with pq.ParquetFile(ledger) as file:
        for batch in file.iter_batches(columns=list(KEY)):
            rows = pa.Table.from_batches([batch])
            rows = rows if last is None else pa.concat_tables([last, rows])
            same = [pc.equal(rows[name].slice(1), rows[name].slice(0, len(rows) - 1)) for name in KEY]
            again = rows["vehicle_id"].slice(1).filter(pc.and_(pc.and_(same[0], same[1]), same[2]))
            if len(again):
                return str(again[0])
            last = rows.slice(len(rows) - 1)
    return None
