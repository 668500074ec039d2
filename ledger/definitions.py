"""What every fate, delay and count means, once, as SQL; it reads nothing and knows no engine.

DuckDB evaluates these expressions over the joined stamps of a run (`ledger.fates`) and over the emission log of an echo
cell. Quantiles and ratios are taken in Python from the same columns and counts (docs/decisions/definitions.md).

A row has the stamps of a message due: those of the emission log, `reached_cloud_at_ns` and `held_back` from the capture,
`taken_at_ns` from the gateway's log, `left_at_ns` from what it noted to be in flight when it ended, `in_kafka`, `copies`,
`appended_at_ns` from Kafka, `contained` and `applied_at_ns` from the twin.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ledger.metrics import FATES, HOPS, LATENCIES, QUANTILES, REFUSING_HOPS
from schemas.quantiles import nearest_rank_ms

Integers = npt.NDArray[np.int64]

# The sender gave these up itself, before any client had them; any other word may be wrong, as the log may end early.
NEVER_LEFT: Final = ("dropped_oldest", "dropped_newest", "left_at_end")

# A sender that was killed loses its last 100 ms of log: what arrived without an emission stamp counts from due.
_SENT_AT_NS: Final = "coalesce(emitted_at_ns, due_at_ns)"
_CONTAINED: Final = "coalesce(contained, false)"
_IN_KAFKA: Final = "coalesce(in_kafka, false)"
# Somebody behind the link has the message, which shows that it was sent, whatever the log says.
SEEN: Final = f"({_IN_KAFKA} or taken_at_ns is not null)"
# A later acknowledgement, or whoever is behind the peer that refused, outdoes its word.
_REFUSED: Final = (
    "(refused_at_ns is not null and acknowledged_at_ns is null"
    f" and not case when refused_by = 'gateway' then {_IN_KAFKA} else {SEEN} end)"
)

# No Kafka: who receives beside the vehicle is the end of the way, and its stamp the only one.
ECHO: Final = {
    "appended_at_ns": "cast(null as bigint)",
    "applied_at_ns": "cast(null as bigint)",
    "contained": "received_at_ns is not null",
    "copies": "cast(null as bigint)",
    "rejected_reason": "cast(null as string)",
    "taken_at_ns": "cast(null as bigint)",
    "left_at_ns": "cast(null as bigint)",
    "in_kafka": "false",
}
# Nothing of ours behind the peer: its acknowledgement is the end of the way, and no stamp tells when it had the message.
PEER: Final = ECHO | {"contained": "acknowledged_at_ns is not null"}
# Where nothing but the vehicles' own log is read: the topology's word to the stamps it has.
STAMPS: Final = {"echo": ECHO, "peer": PEER}
# By the topology's word, the stamp that the loss timeout is about: where the message has come over the link. A gateway that is
# killed may not have written its last stamps: what the consumer has all the same counts from there.
ARRIVED: Final = {
    "gateway": "received_at_ns",
    "edge": "appended_at_ns",
    "ingest": "coalesce(received_at_ns, applied_at_ns)",
    "echo": "received_at_ns",
    "peer": "acknowledged_at_ns",
}
# Likewise, who has a message of which it is known that it has come so far; the others may be on their way.
ACROSS: Final = {"edge": _IN_KAFKA}
# Topology `peer`: it was sent, and the peer said neither yes nor no; or nobody knows whether it was sent.
UNANSWERED: Final = (
    f"(emitted_at_ns is not null and not {_REFUSED} or coalesce(unsent_reason = 'share_missing', false))"
)


def undecided(
    loss_timeout_ns: int, stop_at_ns: int | None, *, status_known: bool = True, across: str = SEEN
) -> str:
    """Return whether a message that no stamp proves to be in the twin may be in it all the same, or get there yet.

    Args:
        loss_timeout_ns: the loss timeout.
        stop_at_ns: when the run stopped; None where it stayed until everything had arrived.
        status_known: what Kafka and the twins held is known.
        across: whether somebody behind the link has the message.
    """
    if not status_known:
        return f"not coalesce(unsent_reason in ({', '.join(map(repr, NEVER_LEFT))}), false)"
    if stop_at_ns is None:
        return "false"
    on_its_way = (
        f"coalesce(emitted_at_ns > {stop_at_ns - loss_timeout_ns}, false) and not {_REFUSED} and not {across}"
    )
    return f"({on_its_way})"


def fate(loss_timeout_ns: int, undecided: str = "false", arrived: str = "received_at_ns") -> str:
    """Return the fate of a message, a word of FATES; `arrived` is the stamp that the loss timeout is about."""
    return (
        f"case when {_CONTAINED} and {arrived} - {_SENT_AT_NS} <= {loss_timeout_ns} then 'delivered'"
        f" when {_CONTAINED} then 'late'"
        f" when {undecided} then 'unknown'"
        f" when {_REFUSED} then 'refused'"
        f" when emitted_at_ns is not null or {SEEN} then 'lost'"
        " else 'unsent' end"
    )


# The reason of a message that was not due yet when the run stopped: it is unsent, and no figure counts it as due.
RUN_STOPPED: Final = "run_stopped"
BECAME_DUE: Final = f"unsent_reason is distinct from '{RUN_STOPPED}'"


def unsent_reason(stop_at_ns: int | None) -> str:
    """Return why a message is unsent, over rows that have their fate."""
    if stop_at_ns is None:
        return "unsent_reason"
    return (
        f"case when fate = 'unsent' and due_at_ns >= {stop_at_ns} then '{RUN_STOPPED}' else unsent_reason end"
    )


def _hop(kept_by: str) -> str:
    return (
        f"case when fate = 'refused' then refused_by when fate <> 'lost' then null when {_IN_KAFKA} then '{kept_by}'"
        " when left_at_ns is not null then 'uplink'"
        " when taken_at_ns is not null then 'gateway'"
        " when acknowledged_at_ns is not null or reached_cloud_at_ns is not null then 'broker'"
        " when held_back then 'vehicle' else 'link' end"
    )


# Where a lost message was last seen, and who refused a refused one; over rows that have their fate.
HOP: Final = _hop("kafka")
# By the topology's word, where it is another's than Kafka's to keep a message.
HOP_OF: Final = {"ingest": _hop("platform")}


def _delivered(difference: str) -> str:
    return f"case when fate = 'delivered' then {difference} end"


DELAYS: Final = {
    "emission_lag_ns": "emitted_at_ns - due_at_ns",
    "one_way_delay_ns": _delivered("received_at_ns - emitted_at_ns"),
    "bridge_delay_ns": _delivered("appended_at_ns - received_at_ns"),
    "processing_delay_ns": _delivered("applied_at_ns - appended_at_ns"),
    "end_to_end_latency_ns": _delivered("applied_at_ns - due_at_ns"),
    "acknowledgement_time_ns": "acknowledged_at_ns - emitted_at_ns",
}
# A consumer may have a message before the platform's confirmation is with the gateway: what lies between is no delay.
DELAYS_OF: Final = {"ingest": DELAYS | {"processing_delay_ns": "cast(null as bigint)"}}


def in_window(from_ns: int | None, to_ns: int | None) -> str:
    """Return whether a message is due from `from_ns` (inclusive) to `to_ns` (exclusive); a bound of None is none."""
    lower = "true" if from_ns is None else f"due_at_ns >= {from_ns}"
    upper = "true" if to_ns is None else f"due_at_ns < {to_ns}"
    return f"({lower} and {upper})"


def _count(condition: str) -> str:
    return f"count(*) filter (where {condition})"


# Over rows of the ledger: those with fate, hop, in_window.
COUNTS: Final = {
    "run_due": _count(BECAME_DUE),
    "run_received": _count("fate in ('delivered', 'late')"),
    "due": _count("in_window"),
    **{name: _count(f"in_window and fate = '{name}'") for name in FATES},
    **{f"lost_at_{hop}": _count(f"in_window and fate = 'lost' and hop = '{hop}'") for hop in HOPS},
    **{
        f"refused_by_{hop}": _count(f"in_window and fate = 'refused' and hop = '{hop}'")
        for hop in REFUSING_HOPS
    },
    "unlogged_emissions": _count("in_window and fate in ('delivered', 'late') and emitted_at_ns is null"),
    "buffered": _count("in_window and buffered"),
}
DUPLICATES: Final = "coalesce(sum(copies - 1) filter (where in_window and copies is not null), 0)"


def payload(from_ns: int | None, topology: str) -> dict[str, str]:
    """Return the sums behind goodput and overhead; the latter counts what was due after the warm-up.

    An echo's payload crosses the link twice, and none of it is overhead.
    """
    after = in_window(from_ns, None)
    crossings = 2 if topology == "echo" else 1
    return {
        "payload_in_window": "sum(payload_bytes) filter (where in_window and fate = 'delivered')",
        "payload_after_warmup": f"{crossings} * sum(payload_bytes) filter (where fate = 'delivered' and {after})",
        "delivered_after_warmup": _count(f"fate = 'delivered' and {after}"),
        "unknown_after_warmup": _count(f"fate = 'unknown' and {after}"),
    }


def ratio(part: int, whole: int) -> float | None:
    """Return a share; None of nothing."""
    return part / whole if whole else None


def quantiles(column: Callable[[str], Integers]) -> dict[str, Any]:
    """Return the quantiles of every latency and of the emission lag, in ms; None of no values.

    Exact quantiles need all values at once: 8 bytes a message in a column, where an engine keeps a map of them.

    Args:
        column: returns a column's values of the messages in the window, without nulls, in any order.
    """
    values: dict[str, Any] = {}
    for name, (source, _, _) in LATENCIES.items():
        ordered = np.sort(column(source))
        values |= {
            f"{name}_{quantile}_ms": nearest_rank_ms(ordered, share) for quantile, share in QUANTILES.items()
        }
    lags = np.sort(column("emission_lag_ns"))
    return values | {"emission_lag_p99_ms": nearest_rank_ms(lags, QUANTILES["p99"])}
