"""The ledger once more: each message due with its stamps at every hop, its fate and, if it was lost, its hop."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from ivsim.audit.due import Key
from ivsim.audit.kafka_records import Applied, Kafka
from ivsim.audit.result import Terms

Row = dict[str, Any]
_DELAYS: Final = (
    ("one_way_delay_ns", "received_at_ns", "emitted_at_ns"),
    ("bridge_delay_ns", "appended_at_ns", "received_at_ns"),
    ("processing_delay_ns", "applied_at_ns", "appended_at_ns"),
    ("end_to_end_latency_ns", "applied_at_ns", "due_at_ns"),
)
# Why a message was not sent that was not due yet when the run stopped: it counts as due nowhere.
NOT_DUE: Final = "run_stopped"
# By where the way ends: the stamp that shows that a message got there.
_PROOF: Final = {
    "twin": "applied_at_ns",
    "consumer": "applied_at_ns",
    "receiver": "received_at_ns",
    "peer": "acknowledged_at_ns",
}


def key_of(row: Mapping[str, Any]) -> Key:
    """Return whose row it is."""
    return Key(row["vehicle_id"], row["epoch"], row["sequence"])


def first_taken(taken: Iterable[tuple[Key, int]]) -> dict[Key, int]:
    """Return the first stamp of each message in the gateways' own logs."""
    first: dict[Key, int] = {}
    for key, at in taken:
        first[key] = min(at, first.get(key, at))
    return first


# Messages that the vehicle gave up by itself: nobody can have them.
_NEVER_LEFT: Final = {"dropped_oldest", "dropped_newest", "left_at_end"}


@dataclass(frozen=True)
class Consumed:
    """What a platform confirmed to gateways, and what its consumer had.

    Attributes:
        confirmed: the first stamp of each message at a gateway.
        had: of each message the consumer's first stamp, and how often it came.
        whole: the consumer came to the platform's end.
    """

    confirmed: Mapping[Key, int]
    had: Mapping[Key, tuple[int, int]]
    whole: bool


@dataclass(frozen=True)
class Ledger:
    """The sources of one run's ledger; `row` joins them for one message.

    Attributes:
        taken: the gateways' first stamps.
        left: what gateways at the edge had sent, and Kafka had not answered, when they ended.
        platform: what was between gateways and consumer; None where Kafka is, or nothing.
        kafka: what Kafka held; empty where nothing gets there.
        terms: of the run.
        window: begin (inclusive) and end (exclusive) of the measurement, in ns.
        stop_at_ns: when the run stopped; None where it stayed until every message had its chance.
    """

    taken: Mapping[Key, int]
    kafka: Kafka
    terms: Terms
    window: tuple[int, int]
    stop_at_ns: int | None = None
    left: Collection[Key] = frozenset()
    platform: Consumed | None = None

    @cached_property
    def _applied(self) -> dict[str, Applied]:
        return {vehicle: Applied(states) for vehicle, states in self.kafka.states.items()}

    def rows(self, emissions: Iterable[Row]) -> list[Row]:
        """Return a row per message due, in the ledger's columns, from a row with the vehicle's and the capture's stamps."""
        return [self._row(emission) for emission in emissions]

    def _row(self, emission: Row) -> Row:
        key = key_of(emission)
        row = emission | dict.fromkeys(("copies", "rejected_reason", "appended_at_ns", "applied_at_ns"))
        if self.terms.end == "twin":
            row |= self._behind_the_gateway(key)
        if self.platform is not None:
            row |= self._through(self.platform, key)
        row["fate"] = fate = self._fate(key, row)
        if fate == "unsent" and self.stop_at_ns is not None and row["due_at_ns"] >= self.stop_at_ns:
            row["unsent_reason"] = NOT_DUE
        lost_at = self._hop(key, row) if fate == "lost" else None
        row["hop"] = row["refused_by"] if fate == "refused" else lost_at
        row["in_window"] = self.window[0] <= row["due_at_ns"] < self.window[1]
        row["emission_lag_ns"] = _minus(row, "emitted_at_ns", "due_at_ns")
        row["acknowledgement_time_ns"] = _minus(row, "acknowledged_at_ns", "emitted_at_ns")
        for name, later, earlier in _DELAYS:
            row[name] = _minus(row, later, earlier) if fate == "delivered" else None
        if self.platform is not None:
            row["processing_delay_ns"] = None  # the consumer may be sooner than the confirmation
        return row

    def _through(self, platform: Consumed, key: Key) -> Row:
        consumed_at_ns, copies = platform.had.get(key, (None, None))
        return {
            "received_at_ns": self.taken.get(key),
            "appended_at_ns": platform.confirmed.get(key),
            "applied_at_ns": consumed_at_ns,
            "copies": copies,
        }

    def _kept(self, key: Key) -> bool:
        """Say whether Kafka, or the platform, is known to have had the message."""
        if self.platform is not None:
            return key in self.platform.confirmed or key in self.platform.had
        return self.kafka.holds(key)

    def _behind_the_gateway(self, key: Key) -> Row:
        found: Row = {"received_at_ns": self.taken.get(key), "rejected_reason": self.kafka.rejected.get(key)}
        copies = self.kafka.copies.get(key)
        if copies is None:
            return found
        states = self._applied.get(key.vehicle_id)
        return found | {
            "copies": copies.count,
            "received_at_ns": copies.received_at_ns,
            "appended_at_ns": copies.first[0],
            "applied_at_ns": states.first((key.epoch, key.sequence), copies.first[0]) if states else None,
        }

    def _fate(self, key: Key, row: Row) -> str:
        in_kafka = self._kept(key)
        somebody_has_it = in_kafka or key in self.taken
        if row[_PROOF[self.terms.end]] is not None:
            # A sender that was killed may not have written its last stamps: then the message counts from due.
            sent = row["due_at_ns"] if row["emitted_at_ns"] is None else row["emitted_at_ns"]
            arrived = row[self.terms.arrival]
            if arrived is None:  # the gateway was killed before it noted what the consumer has
                arrived = row["applied_at_ns"]
            return "delivered" if arrived - sent <= self.terms.loss_timeout_ns else "late"
        if self.terms.end == "peer":
            return self._unanswered(row)
        if self.platform is not None and not self.platform.whole:
            return "unsent" if row["unsent_reason"] in _NEVER_LEFT else "unknown"
        # The gateway notes what it takes and may refuse it then; behind a broker its log shows that the broker kept it.
        kept = in_kafka if row["refused_by"] == "gateway" else somebody_has_it
        if row["refused_at_ns"] is not None and row["acknowledged_at_ns"] is None and not kept:
            return "refused"
        across = in_kafka if self.terms.edge else somebody_has_it
        if self._cut_short(row["emitted_at_ns"]) and not across:
            return "unknown"
        return "lost" if row["emitted_at_ns"] is not None or somebody_has_it else "unsent"

    def _unanswered(self, row: Row) -> str:
        """Return the fate of what its peer has refused, or said nothing of."""
        if row["refused_at_ns"] is not None:
            return "refused"
        if row["unsent_reason"] == "share_missing":
            return "unknown"
        return "unsent" if row["emitted_at_ns"] is None else "unknown"

    def _cut_short(self, emitted_at_ns: int | None) -> bool:
        """Say whether the run stopped before the loss timeout of a message sent then was over."""
        if self.stop_at_ns is None or emitted_at_ns is None:
            return False
        return emitted_at_ns + self.terms.loss_timeout_ns > self.stop_at_ns

    def _hop(self, key: Key, row: Row) -> str:
        if self._kept(key):
            return "kafka" if self.platform is None else "platform"
        if key in self.left:
            return "uplink"
        if key in self.taken:
            return "gateway"
        if row["acknowledged_at_ns"] is not None or row["reached_cloud_at_ns"] is not None:
            return "broker"
        return "vehicle" if row["held_back"] else "link"


def _minus(row: Row, later: str, earlier: str) -> int | None:
    if row[later] is None or row[earlier] is None:
        return None
    return int(row[later]) - int(row[earlier])
