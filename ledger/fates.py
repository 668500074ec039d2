"""The statements that give every message due its one row: which sources are joined, and how; as SQL.

Four sources that fail independently are joined by vehicle, epoch and sequence: the emission log (what was due, sent and
acknowledged), the gateways' logs, the records in Kafka, and the states of the twin. The left side is always
what was due: whatever fails, each message has exactly one row. Its fate follows from the stamps it has, and a lost
message's hop is the one behind the last place where it was seen. What a source that could not be read would have decided
is `unknown`, never `lost`. `ledger.build` makes the tables that the statements name.
"""

from __future__ import annotations

from typing import Final

from ledger import definitions
from ledger.config import LedgerConfig
from ledger.sources import EMISSIONS, KEY, PROOFS
from ledger.sql import listed
from ledger.window import Window

COLUMNS: Final = (
    *KEY, "sampled_at_ns", "due_at_ns", "emitted_at_ns", "acknowledged_at_ns",
    "refused_at_ns", "refused_reason", "unanswered_at_ns", "reached_cloud_at_ns", "received_at_ns", "appended_at_ns",
    "applied_at_ns", "payload_bytes", "copies", "buffered", "unsent_reason", "rejected_reason", "fate", "hop",
    "in_window", "emission_lag_ns", "one_way_delay_ns", "bridge_delay_ns", "processing_delay_ns",
    "end_to_end_latency_ns", "acknowledgement_time_ns",
)  # fmt: skip
_KEY: Final = ", ".join(KEY)
_GOOD: Final = "filter (where reason is null)"

# Of vehicle.status, whose records have a place in their partition and the reason that keeps them out: the first good one
# of each message, and how many there are.
MESSAGES: Final = (
    f"select {_KEY},"  # noqa: S608 - the text is all our own
    f" min_by(received_at_ns, (appended_at_ns, kafka_partition, kafka_offset)) {_GOOD} as kafka_received_at_ns,"
    f" min(appended_at_ns) {_GOOD} as appended_at_ns, nullif(count(*) {_GOOD}, 0) as copies,"
    " min(reason) as rejected_reason, true as in_kafka"
    f" from records where epoch is not null and sequence is not null group by {_KEY}"
)
# With what the twin's states say of them.
CONTAINED: Final = (
    "select m.*, applied_at_ns, applied_at_ns is not null as contained"  # noqa: S608
    f" from messages m left join applied using ({_KEY})"
)
# When the gateways' logs have a message first.
TAKEN: Final = f"select {_KEY}, min(received_at_ns) as taken_at_ns from received group by {_KEY}"  # noqa: S608
LEFT: Final = f"select {_KEY}, min(noted_at_ns) as left_at_ns from in_flight group by {_KEY}"  # noqa: S608
# When a platform confirmed a message first, and when its consumer had it first, and how often.
CONFIRMED: Final = f"select {_KEY}, min(confirmed_at_ns) as confirmed_at_ns from confirmed group by {_KEY}"  # noqa: S608
CONSUMED: Final = (
    f"select {_KEY}, min(consumed_at_ns) as consumed_at_ns, count(*) as copies from consumed group by {_KEY}"  # noqa: S608
)


def ledger(config: LedgerConfig, window: Window, *, status_known: bool = True) -> str:
    """Return the statement of the ledger: COLUMNS of each message due, in no order.

    Its tables are `emissions`; in Kafka's topologies `contained`, `taken` and `left_behind`, with another platform `taken`,
    `confirmed_first` and `consumed_first`.

    Args:
        config: of the run.
        window: what is measured.
        status_known: vehicle.status could be read, or the platform to its end.
    """
    timeout_ns = round(config.loss_timeout_s * 1e9)
    undecided = definitions.undecided(
        timeout_ns,
        window.stop_at_ns,
        status_known=status_known,
        across=definitions.ACROSS.get(config.topology, definitions.SEEN),
    )
    if config.topology == "peer":
        undecided = definitions.UNANSWERED
    fate = definitions.fate(timeout_ns, undecided, definitions.ARRIVED[config.topology])
    derived = {
        **definitions.DELAYS_OF.get(config.topology, definitions.DELAYS),
        "in_window": definitions.in_window(window.from_ns, window.to_ns),
    }
    reason = definitions.unsent_reason(window.stop_at_ns)
    # One level for each definition that others name.
    placed = f"select *, {fate} as fate from ({_stamped(config)})"  # noqa: S608
    hop = definitions.HOP_OF.get(config.topology, definitions.HOP)
    told = f"select * replace ({reason} as unsent_reason), {hop} as hop from ({placed})"  # noqa: S608
    return f"select {', '.join(COLUMNS)} from (select *, {listed(derived)} from ({told}))"  # noqa: S608


def _stamped(config: LedgerConfig) -> str:
    stamps = definitions.STAMPS.get(config.topology)
    if stamps is not None:
        return f"select *, {listed(stamps)} from emissions"  # noqa: S608
    own = [f"e.{name}" for name in (*EMISSIONS.names, *PROOFS) if name not in {*KEY, "received_at_ns"}]
    if config.topology == "ingest":
        return (
            f"select {_KEY}, {', '.join(own)}, copies, cast(null as varchar) as rejected_reason,"  # noqa: S608
            " copies is not null or confirmed_at_ns is not null as in_kafka, confirmed_at_ns as appended_at_ns,"
            " consumed_at_ns as applied_at_ns, copies is not null as contained, taken_at_ns,"
            " cast(null as bigint) as left_at_ns, taken_at_ns as received_at_ns"
            f" from emissions e left join taken using ({_KEY}) left join confirmed_first using ({_KEY})"
            f" left join consumed_first using ({_KEY})"
        )
    return (
        f"select {_KEY}, {', '.join(own)}, copies, rejected_reason, in_kafka, appended_at_ns, applied_at_ns, contained,"  # noqa: S608
        " taken_at_ns, left_at_ns, coalesce(kafka_received_at_ns, taken_at_ns) as received_at_ns"
        f" from emissions e left join contained using ({_KEY}) left join taken using ({_KEY})"
        f" left join left_behind using ({_KEY})"
    )
