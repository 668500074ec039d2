"""What an audit does some vehicles at a time: tables of messages and of seconds, and all that figures are made of."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

from ivsim.audit import capture_proof, certificate, logs, tables
from ivsim.audit.answers import QueryFigures
from ivsim.audit.compare import Audit, Table
from ivsim.audit.due import Key, due_of, vehicle_name
from ivsim.audit.figures import FATES, Figures, KafkaFigures, LinkFigures, MessageFigures, window_figures
from ivsim.audit.kafka_records import Kafka, held
from ivsim.audit.ledger import Consumed, Ledger, first_taken
from ivsim.audit.logs import Event, WireCounts
from ivsim.audit.parts import Spoken, spoken_by
from ivsim.audit.result import Result
from ivsim.audit.shares import Share

Row = dict[str, Any]
KEY: Final = ("vehicle_id", "epoch", "sequence")
LINK_KEY: Final = ("second", "vehicle_id", "direction")
# Modes in which nobody acknowledges a message to its vehicle, so that the capture must say what reached the cloud.
_UNACKNOWLEDGED: Final = {
    ("mqtt", "qos0"), ("mqtt", "qos0-v311"),
    ("amqp", "auto"), ("amqp", "auto-persistent"), ("amqp", "manual"), ("amqp", "manual-persistent"),
}  # fmt: skip
_WITHOUT_BROKER: Final = {"coap"}
_OF_EMISSIONS: Final = {"held_back", "refused_by"}  # the ledger has their outcome
_OF_PART: Final = (
    "due", *FATES, "delivery_ratio", "emission_lag_p99_ms", "end_to_end_latency_p50_ms",
    "end_to_end_latency_p99_ms", "wire_bytes_uplink", "wire_bytes_downlink", "overhead_bytes_per_message",
)  # fmt: skip


class ByShare:
    """Holds each share's tables against its logs, and sums up what the run's figures are made of.

    Attributes:
        backlog_max: the most messages that waited in one vehicle.
        lag, played, live, query: sums for the parts of metrics.json; live and query None where the run has none.
        spent: the capture's bytes by phase, vehicle and direction, of those whose bytes are attributed; None without a capture.
    """

    def __init__(self, made: Audit) -> None:
        self._result = result = made.result
        self._terms = terms = result.terms
        self._stop_at_ns = tables.stop_of(result)
        self._window = tables.window_of(self._stop_at_ns, terms)
        self._words = logs.read_words(*result.emission_logs)
        self._speaks = spoken_by(result.options)
        self._silent = self._proven_by_capture()
        self._emissions = Table(made.sheet("emissions.parquet", f"{logged_in(result)} and the seed"), KEY)
        self._wire: Table | None = None
        if result.has("wire.events"):
            self._wire = Table(made.sheet("wire.parquet", "wire.events"), LINK_KEY)
        else:
            made.notes.append("wire.events is missing: there was no capture")
        self._link = Table(made.sheet("link.parquet", "wire.events"), LINK_KEY, list(tables.WIRE_COLUMNS))
        self._ledger = Table(made.sheet("ledger.parquet", "all logs"), KEY)
        self._of_run = self._sums()
        self._of_parts = {spoken: self._sums() for spoken in dict.fromkeys(self._speaks.values())}
        self._kafka = KafkaFigures(terms.end)
        self.backlog_max = 0
        self.lag = certificate.SenderLag()
        self.played = certificate.Played(terms.start_at_ns)
        self.live: certificate.LiveAgreement | None = None
        if result.has("live.json"):
            self.live = certificate.LiveAgreement(result.json("live.json"))
        self.query: QueryFigures | None = None
        if result.options.get("query", "none") != "none":
            self.query = QueryFigures(result.options, answered=result.has("answers.parquet"))
        self._attributed = attributed_ends(result)
        self.spent: dict[tuple[str, str | None, str], int] | None = None
        if self._wire is not None:
            self.spent = defaultdict(int)

    def take(self, share: Share) -> None:
        """Hold a share's tables, and take what it adds to the figures."""
        result = self._result
        events = logs.read_events(*result.emission_logs, share=share)
        self.backlog_max = max(self.backlog_max, tables.largest_backlog(events))
        emissions = self._recomputed_emissions(share, events)
        self._emissions.hold(share.rows(result, "emissions.parquet"), emissions)
        wire = logs.read_wire(result.file("wire.events"), share)
        if self._wire is not None and wire is not None:
            self._wire.hold(share.rows(result, "wire.parquet"), tables.wire_rows(wire))
            self._spend(wire)
        logged = share.rows(result, "link.parquet")
        self._link.hold(logged, tables.link_wire(logged, wire))
        kafka = held(
            share.rows(result, "kafka_records.parquet", "key"),
            self._terms.future_tolerance_ns,
            result.options["format"],
        )
        platform = self._consumed(share)
        rows = self._recomputed_ledger(share, emissions, kafka, platform)
        outside = [{name: row[name] for name in row if name not in _OF_EMISSIONS} for row in rows]
        self._ledger.hold(share.rows(result, "ledger.parquet"), outside)
        self._kafka.add(rows, kafka, platform)
        self._sum_up(share, rows, logged, _recounted(logged, wire))

    def end(self) -> None:
        """Say what was wrong with tables as a whole."""
        for table in (self._emissions, self._wire, self._link, self._ledger):
            if table is not None:
                table.end()

    def figures(self) -> Figures:
        """Return the figures of messages, Kafka and the link."""
        messages, link = self._of_run
        window = window_figures(self._window, self._terms.start_at_ns)
        return messages.figures() | window | self._kafka.figures() | link.figures()

    def parts(self) -> list[Row]:
        """Return the figures of each part of a mix, from its vehicles alone."""
        parts = []
        for spoken, (messages, link) in self._of_parts.items():
            found = messages.figures() | link.figures()
            vehicles = sum(one == spoken for one in self._speaks.values())
            head = {"protocol": spoken.protocol, "mode": spoken.mode, "vehicles": vehicles}
            parts.append(head | {name: found[name] for name in _OF_PART})
        return parts

    def _sums(self) -> tuple[MessageFigures, LinkFigures]:
        end = self._terms.end
        counted = end == "twin" or (end == "consumer" and self._result.consumed_whole)
        return (
            MessageFigures(self._window, kafka=counted),
            LinkFigures(self._terms.warmup_s, self._window[0], 2 if self._terms.end == "receiver" else 1),
        )

    def _proven_by_capture(self) -> set[str]:
        """Return whose messages the capture must speak for; none where it missed a frame: the nth message may be another."""
        complete = self._result.metadata("wire_messages.parquet").get(b"complete") == b"true"
        # At the edge the capture sees gateways, and no vehicle.
        if self._terms.edge or not complete:
            return set()
        return {name for name, spoken in self._speaks.items() if spoken in _UNACKNOWLEDGED}

    def _recomputed_emissions(self, share: Share, events: Sequence[Event]) -> list[Row]:
        peers = {
            vehicle_name(number): self._peer(self._speaks[vehicle_name(number)]) for number in share.vehicles
        }
        rows = tables.emission_rows(due_of(self._terms, share.vehicles), events, self._words, peers)
        silent = self._silent.intersection(peers)
        if not silent:
            return rows
        events = [event for event in events if vehicle_name(event.vehicle) in silent]
        messages, purposes = (
            [row for row in share.rows(self._result, name) if row["vehicle_id"] in silent]
            for name in ("wire_messages.parquet", "wire_categories.parquet")
        )
        return capture_proof.proven(rows, events, messages, purposes)

    @staticmethod
    def _peer(spoken: Spoken) -> str:
        return "gateway" if spoken.protocol in _WITHOUT_BROKER else "broker"

    def _consumed(self, share: Share) -> Consumed | None:
        """Return what a platform confirmed and its consumer had of a share; None where there is none."""
        if self._terms.end != "consumer":
            return None
        result = self._result
        had: dict[Key, tuple[int, int]] = {}
        for log in result.consumed_logs:
            for key, at in logs.read_taken(log, share):
                first, count = had.get(key, (at, 0))
                had[key] = min(first, at), count + 1
        confirmed = first_taken(
            entry for log in result.confirmed_logs for entry in logs.read_taken(log, share)
        )
        return Consumed(confirmed, had, result.consumed_whole)

    def _recomputed_ledger(
        self, share: Share, emissions: Iterable[Row], kafka: Kafka, platform: Consumed | None
    ) -> list[Row]:
        result = self._result
        taken = first_taken(entry for log in result.receive_logs for entry in logs.read_taken(log, share))
        left = {key for log in result.in_flight_logs for key, _ in logs.read_taken(log, share)}
        return Ledger(taken, kafka, self._terms, self._window, self._stop_at_ns, left, platform).rows(
            emissions
        )

    def _sum_up(self, share: Share, rows: list[Row], logged: list[Row], link: list[Row]) -> None:
        self.lag.add(rows)
        self.played.add([row for row in logged if row["update_ms"] is not None and row["second"] >= 0])
        _add(self._of_run, rows, link)
        if self._result.options.get("mix"):
            for spoken, sums in self._of_parts.items():
                own = [row for row in rows if self._speaks[row["vehicle_id"]] == spoken]
                _add(sums, own, [row for row in link if self._speaks.get(row["vehicle_id"]) == spoken])
        if self.live is not None:
            self.live.add(rows, link)
        if self.query is not None:
            self.query.add(share.rows(self._result, "answers.parquet"), rows)

    def _spend(self, wire: WireCounts) -> None:
        assert self.spent is not None
        for row in tables.wire_rows(attributed(wire, self._attributed)):
            phase = "run" if row["second"] >= 0 else "before_start"
            self.spent[phase, row["vehicle_id"], row["direction"]] += row["link_bytes"]


def _add(sums: tuple[MessageFigures, LinkFigures], rows: Sequence[Row], link: Iterable[Row]) -> None:
    messages, of_link = sums
    messages.add(rows)
    of_link.add(link, rows)


def _recounted(link: Iterable[Row], wire: WireCounts | None) -> list[Row]:
    """Return the link's log with wire columns from the capture's log instead of its own."""
    logged = {tuple(row[name] for name in LINK_KEY): row for row in link if row["update_ms"] is not None}
    captured = tables.link_wire(list(logged.values()), wire)
    return [logged.get(tuple(row[name] for name in LINK_KEY), {}) | row for row in captured]


def logged_in(result: Result) -> str:
    """Return the emission logs' name: of the file, or of the files of several senders."""
    return "emissions.events" if len(result.emission_logs) < 2 else "emissions-*.events"


def attributed_ends(result: Result) -> frozenset[int] | None:
    """Return whose bytes are attributed to messages, by number; None: everybody's."""
    ends = json.loads(result.metadata("wire_categories.parquet").get(b"attributed_ends", b"null"))
    return None if ends is None else frozenset(ends)


def attributed(counts: WireCounts, ends: frozenset[int] | None) -> WireCounts:
    """Return what was counted of those whose bytes are attributed."""
    return {key: cell for key, cell in counts.items() if ends is None or key.vehicle in ends}
