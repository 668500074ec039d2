"""A run in shares: some of its vehicles each, so that an audit takes the memory of one share, however long the run was."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ivsim.audit.due import vehicle_name
from ivsim.audit.result import Result, Terms, reading

# Rows of Python that a share has of messages and of seconds of the link, each: about half a gigabyte with all their tables.
ROWS: Final = 50_000
_SECOND_NS: Final = 1_000_000_000


@dataclass(frozen=True)
class Share:
    """Some of a run's vehicles, by number; or, as `others`, whoever a file names that is none of these.

    Those are strangers in Kafka, gateways and nobody at the vehicles' end of the link, and vehicles that the run did not have.
    """

    numbers: range
    others: bool = False

    @property
    def vehicles(self) -> range:
        """Return the numbers of the run's own vehicles in the share."""
        return range(0) if self.others else self.numbers

    def has(self, numbers: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Say of each number whether it is in the share."""
        own = self.numbers
        within: npt.NDArray[np.bool_] = (numbers >= own.start) & (numbers < own.stop)
        within &= (numbers - own.start) % own.step == 0
        return ~within if self.others else within

    def has_named(self, names: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Say the same of names, as bytes."""
        within = np.isin(names, [name.encode() for name in self._names()])
        return ~within if self.others else within

    def rows(self, result: Result, name: str, column: str = "vehicle_id") -> list[dict[str, Any]]:
        """Return the share's rows of a Parquet file, by a column of names; null is one of the others.

        None where the run has no such file; of a file without the column the first row, which shows that it is missing.
        """
        if not result.has(name):
            return []
        path = result.file(name)
        with reading(path):
            schema = pq.read_schema(path)
            if column not in schema.names:
                return pq.read_table(path).slice(0, 1).to_pylist()  # type: ignore[no-any-return]
            kind = schema.field(column).type
            names = [name.encode() if pa.types.is_binary(kind) else name for name in self._names()]
            wanted = pc.field(column).isin(pa.array(names, kind))
            return pq.read_table(path, filters=~wanted if self.others else wanted).to_pylist()  # type: ignore[no-any-return]

    def _names(self) -> list[str]:
        return [vehicle_name(number) for number in self.numbers]


def shares_of(terms: Terms) -> Iterator[Share]:
    """Yield the shares of a run in the order of the vehicles' numbers, and the others last."""
    messages = terms.duration_ns // terms.interval_ns + 1
    seconds = 2 * (terms.duration_ns // _SECOND_NS + 1)
    size = max(1, ROWS // max(messages, seconds))
    fleet = terms.numbers
    for at in range(0, len(fleet), size):
        yield Share(fleet[at : at + size])
    yield Share(fleet, others=True)
