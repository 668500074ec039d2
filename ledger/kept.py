"""Kafka's records as a run keeps them, read by DuckDB: which may enter a twin, and how many the twins have counted."""

from __future__ import annotations

from typing import Final

import duckdb
import pyarrow as pa

from ledger import admission
from ledger.sources import STATE_TOPIC, STATUS_TOPIC
from ledger.sql import listed
from schemas.topics import HEADERS

# What Spark, which keeps records out of the twins by the rules of `ledger.admission`, spells otherwise. Bytes that are no UTF-8
# become a character that no good text has; a number has digits and a sign, blanks around it and nothing else: DuckDB would
# take a fraction or an exponent, too.
_BLANKS: Final = r"[\x00-\x20\x7f]*"
_MACROS: Final = (
    "create macro regexp_like(text, pattern) as regexp_matches(text, pattern)",
    "create macro text_of(bytes) as case when bytes is not null then coalesce(try(decode(bytes)), chr(1)) end",
    f"create macro whole(text) as try_cast(nullif(regexp_extract(text, '^{_BLANKS}([+-]?[0-9]+){_BLANKS}$', 1), '') as bigint)",
)
# Of twin.state: whose, which newest message, when appended, messages counted. A tombstone ends a twin and updates none.
STATES: Final = (
    "select text_of(key) as vehicle_id, whole(text_of(header_epoch)) as epoch,"  # noqa: S608 - the text is all our own
    " whole(text_of(header_sequence)) as sequence, whole(text_of(header_messages)) as messages, appended_at_ns from kept"
    f" where topic = '{STATE_TOPIC}' and value_bytes is not null"
)


def prepare(database: duckdb.DuckDBPyConnection) -> None:
    """Teach a database what the statements of this module need."""
    for macro in _MACROS:
        database.execute(macro)


def records(terms: admission.Terms) -> str:
    """Return the statement of vehicle.status: each record's message, stamps, place and the reason that keeps it out, if any.

    Its table is `kept`, of the columns `ledger.sources.KAFKA_RECORD`; so is that of `STATES`.
    """
    texts = {f"h_{name}": f"text_of(header_{name})" for name in HEADERS}
    numbers = {name: f"whole(h_{name})" for name in admission.NUMBERS}
    return (
        "select vehicle_id, epoch, sequence, received_at_ns, appended_at_ns, kafka_partition, kafka_offset,"  # noqa: S608
        f" {admission.reason(terms, 'value_has_key')} as reason from (select *, {listed(numbers)} from ("
        "select text_of(key) as vehicle_id, value_bytes as payload_bytes, value_has_key, appended_at_ns,"
        f' "partition" as kafka_partition, "offset" as kafka_offset, {listed(texts)} from kept'
        f" where topic = '{STATUS_TOPIC}'))"
    )


class Tally:
    """Counts records as they are kept, some at a time; `close` ends its database.

    Attributes:
        good: records of vehicle.status that may enter a twin.
        rejected: those that may not.
        taken: messages that the twins have counted, by the greatest counter of each.
    """

    def __init__(self, terms: admission.Terms) -> None:
        self._database = duckdb.connect(config={"threads": 1})
        prepare(self._database)
        self._status = f"select count(*) - count(reason), count(reason) from ({records(terms)})"  # noqa: S608
        self._states = f"select vehicle_id, max(messages) from ({STATES}) group by 1"  # noqa: S608
        self._counters: dict[str | None, int] = {}
        self.good = self.rejected = self.taken = 0

    def add(self, kept: pa.Table) -> None:
        """Count further records, which have the columns `KAFKA_RECORD`."""
        self._database.register("kept", kept)
        ((good, rejected),) = self._database.execute(self._status).fetchall()
        self.good += good
        self.rejected += rejected
        for vehicle, counted in self._database.execute(self._states).fetchall():
            before = self._counters.get(vehicle, 0)
            if counted is not None and counted > before:
                self._counters[vehicle] = counted
                self.taken += counted - before

    def close(self) -> None:
        self._database.close()
