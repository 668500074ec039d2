"""The referee: every figure of a finished run, recomputed from its raw logs, beside what the run says.

It shares no code with the pipeline that it checks (an import contract holds that): the standard library, pyarrow and,
for a pcap, tshark. It is plain and slow on purpose, and writes nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ivsim.audit import capture_proof, certificate, figures, frames, logs, tables
from ivsim.audit.answers import query_figures
from ivsim.audit.compare import Difference, Sheet
from ivsim.audit.due import Key, due_of, end_name, vehicle_name
from ivsim.audit.kafka_records import Kafka, held
from ivsim.audit.ledger import Ledger, first_taken
from ivsim.audit.logs import Event, WireCounts
from ivsim.audit.page import Page, as_read, unit_of
from ivsim.audit.parts import spoken_by
from ivsim.audit.result import BadResult, Result, read_result

__all__ = ["Audit", "BadResult", "Difference", "Sheet", "audit"]

Row = dict[str, Any]
KEY: Final = ("vehicle_id", "epoch", "sequence")
LINK_KEY: Final = ("second", "vehicle_id", "direction")
# Modes in which nobody acknowledges a message to its vehicle, so that the capture must say what reached the cloud.
_UNACKNOWLEDGED: Final = {
    ("mqtt", "qos0"), ("mqtt", "qos0-v311"),
    ("amqp", "auto"), ("amqp", "auto-persistent"), ("amqp", "manual"), ("amqp", "manual-persistent"),
}  # fmt: skip
_WITHOUT_BROKER: Final = {"coap"}
# Of run.json: what no log can tell.
_TAKEN_AS_SAID: Final = (
    "stop_at_ns", "dead_senders", "lost_senders", "deaths", "agents", "senders", "gateways", "gateway_drops",
    "refused_gateways", "replay", "problems", "live",
)  # fmt: skip
_OF_PART: Final = (
    "due", *figures.FATES, "delivery_ratio", "emission_lag_p99_ms", "end_to_end_latency_p50_ms",
    "end_to_end_latency_p99_ms", "wire_bytes_uplink", "wire_bytes_downlink", "overhead_bytes_per_message",
)  # fmt: skip


@dataclass
class Audit:
    """What an audit of one run came to.

    Attributes:
        result: the run.
        sheets: a file each, or a part of one.
        notes: what was not audited, and why.
    """

    result: Result
    sheets: list[Sheet] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def agrees(self) -> bool:
        """Whether no figure differs."""
        return not any(sheet.differences for sheet in self.sheets)

    @property
    def compared(self) -> int:
        return sum(sheet.compared for sheet in self.sheets)

    def sheet(self, name: str, source: str) -> Sheet:
        """Return a new sheet of this audit."""
        self.sheets.append(Sheet(name, source))
        return self.sheets[-1]


@dataclass(frozen=True)
class _Sources:
    """The raw logs of a run, read once."""

    events: list[Event]
    taken: list[tuple[Key, int]]
    left: list[tuple[Key, int]]
    wire: WireCounts | None
    kafka: Kafka


def audit(path: Path) -> Audit:
    """Return what a run's figures come to beside what it says; BadResult when its directory is none to audit."""
    result = read_result(path)
    made = Audit(result)
    taken = [entry for log in result.receive_logs for entry in logs.read_taken(log)]
    sources = _Sources(
        logs.read_events(*result.emission_logs),
        taken,
        [entry for log in result.in_flight_logs for entry in logs.read_taken(log)],
        logs.read_wire(result.file("wire.events")),
        held(
            result.rows("kafka_records.parquet"),
            result.terms.future_tolerance_ns,
            result.options["format"],
        ),
    )
    emissions = _audit_tables(made, sources)
    rows, found = _audit_ledger(made, sources, emissions)
    _audit_metrics(made, rows, found)
    _audit_purposes(made, sources.wire)
    _audit_page(made, found)
    _audit_frames(made, sources.wire)
    return made


def _audit_tables(made: Audit, sources: _Sources) -> list[Row]:
    """Hold the tables that are made of one log each against it; return the emissions as recomputed."""
    result = made.result
    words = logs.read_words(*result.emission_logs)
    said = "emissions.events" if len(result.emission_logs) < 2 else "emissions-*.events"
    speaks = spoken_by(result.options)
    peers = {
        name: "gateway" if spoken.protocol in _WITHOUT_BROKER else "broker" for name, spoken in speaks.items()
    }
    emissions = tables.emission_rows(due_of(result.terms), sources.events, words, peers)
    silent = {name for name, spoken in speaks.items() if spoken in _UNACKNOWLEDGED}
    # At the edge the capture sees gateways, and no vehicle.
    if silent and not result.terms.edge and _complete(result):
        events = [event for event in sources.events if vehicle_name(event.vehicle) in silent]
        wire = [row for row in result.rows("wire_messages.parquet") if row["vehicle_id"] in silent]
        emissions = capture_proof.proven(emissions, events, wire)
    sheet = made.sheet("emissions.parquet", f"{said} and the seed")
    sheet.hold_rows(result.rows("emissions.parquet"), emissions, KEY)
    sheet = made.sheet("connections.parquet", said)
    sheet.hold_rows(
        _numbered(result.rows("connections.parquet")),
        _numbered(tables.connection_rows(sources.events)),
        ("step",),
    )
    sheet = made.sheet("run.json", f"manifest and {said}")
    sheet.hold_values(
        result.json("run.json"),
        tables.run_facts(result, sources.events),
        _TAKEN_AS_SAID,
    )
    if result.receive_logs or result.has("received.parquet"):
        sheet = made.sheet("received.parquet", "received-*.events")
        sheet.hold_rows(
            _numbered(result.rows("received.parquet")),
            _numbered(tables.received_rows(sources.taken)),
            ("step",),
        )
    if result.in_flight_logs or result.has("in_flight.parquet"):
        sheet = made.sheet("in_flight.parquet", "in-flight-*.events")
        sheet.hold_rows(
            _numbered(result.rows("in_flight.parquet")),
            _numbered(tables.received_rows(sources.left, "noted_at_ns")),
            ("step",),
        )
    if sources.wire is not None:
        sheet = made.sheet("wire.parquet", "wire.events")
        sheet.hold_rows(result.rows("wire.parquet"), tables.wire_rows(sources.wire), LINK_KEY)
    else:
        made.notes.append("wire.events is missing: there was no capture")
    link = result.rows("link.parquet")
    sheet = made.sheet("link.parquet", "wire.events")
    sheet.hold_rows(link, tables.link_wire(link, sources.wire), LINK_KEY, list(tables.WIRE_COLUMNS))
    return emissions


def _audit_ledger(made: Audit, sources: _Sources, emissions: list[Row]) -> tuple[list[Row], figures.Figures]:
    """Hold the ledger against the join of all logs; return its rows and every figure of METRICS as recomputed."""
    result, terms = made.result, made.result.terms
    run = result.json("run.json")
    window = tables.window_of(run, terms)
    taken = first_taken(sources.taken)
    left = {key for key, _ in sources.left}
    ledger = Ledger(taken, sources.kafka, terms, window, run.get("stop_at_ns"), left)
    rows = ledger.rows(emissions)
    said = result.rows("ledger.parquet")
    inner = {"held_back", "refused_by"}  # of the emissions; the ledger has their outcome
    sheet = made.sheet("ledger.parquet", "all logs")
    sheet.hold_rows(said, [{name: row[name] for name in row if name not in inner} for row in rows], KEY)
    link = _link_rows(result, sources.wire)
    found = figures.message_figures(rows, window, kafka=terms.end == "twin")
    found |= figures.window_figures(window, terms.start_at_ns)
    found |= figures.kafka_figures(rows, sources.kafka if terms.end == "twin" else None)
    steps = tables.connection_rows(sources.events)
    found |= figures.connection_figures(steps, tables.largest_backlog(sources.events))
    found |= figures.link_figures(link, terms.warmup_s, figures.paid(rows, window[0]))
    found["clock_drift_ms"] = result.json("clock.json").get("clock_drift_ms")
    return rows, found


def _parts(result: Result, rows: list[Row]) -> list[Row]:
    """Return the figures of each part of a mix, from its vehicles' rows alone."""
    terms, speaks = result.terms, spoken_by(result.options)
    window = tables.window_of(result.json("run.json"), terms)
    link = _link_rows(result, _wire(result))
    parts = []
    for spoken in dict.fromkeys(speaks.values()):
        names = {name for name, one in speaks.items() if one == spoken}
        own = [row for row in rows if row["vehicle_id"] in names]
        of_link = [row for row in link if row["vehicle_id"] in names]
        found = figures.message_figures(own, window, kafka=terms.end == "twin")
        found |= figures.link_figures(of_link, terms.warmup_s, figures.paid(own, window[0]))
        head = {"protocol": spoken.protocol, "mode": spoken.mode, "vehicles": len(names)}
        parts.append(head | {name: found[name] for name in _OF_PART})
    return parts


def _link_rows(result: Result, wire: WireCounts | None) -> list[Row]:
    """Return the link's log with wire columns from the capture's log instead of its own."""
    logged = {
        tuple(row[name] for name in LINK_KEY): row
        for row in result.rows("link.parquet")
        if row["update_ms"] is not None
    }
    captured = tables.link_wire(list(logged.values()), wire)
    return [logged.get(tuple(row[name] for name in LINK_KEY), {}) | row for row in captured]


def _audit_metrics(made: Audit, rows: list[Row], found: figures.Figures) -> None:
    result = made.result
    said = result.json("metrics.json")
    asked = result.options.get("query", "none") != "none"
    parts = ("replay", "certificate", "live", "validity", "parts", "agents", *(("query",) if asked else ()))
    sheet = made.sheet("metrics.json", "all logs")
    sheet.hold_values(
        {name: value for name, value in said.items() if name not in parts},
        found | {"run": result.manifest["run"]},
        ["partial", "partial_reason", "security"],
    )
    if result.options.get("mix"):
        sheet = made.sheet("metrics.json parts", "all logs")
        sheet.hold_rows(said.get("parts", []), _parts(result, rows), ("protocol", "mode"))
    if asked:
        answers = result.rows("answers.parquet") if result.has("answers.parquet") else None
        sheet = made.sheet("metrics.json query", "answers.parquet and the ledger")
        sheet.hold_values(said.get("query", {}), query_figures(result.options, answers, rows))
    link = result.rows("link.parquet")
    played = [row for row in link if row["update_ms"] is not None and row["second"] >= 0]
    replay = certificate.replay(played, result.terms.start_at_ns)
    sheet = made.sheet("metrics.json replay", "link.parquet")
    if said.get("replay", {}) is None and not played:
        made.notes.append("metrics.json replay: the run was killed before its replay said what it had done")
    else:
        sheet.hold_values(said.get("replay") or {}, replay, ["failure", "scheduling"])
    proven = {"checks": []} | said.get("certificate", {})
    proof = result.json("link_proof.json") if result.has("link_proof.json") else None
    certified = certificate.certified(played, proven, replay["applied_late_max_ms"], proof)
    sheet = made.sheet("metrics.json certificate", "link.parquet")
    sheet.hold_values(certificate.said_of(proven, list(certified)), certified)
    sheet.as_said.append("the checks of delay, rate and outage")
    if proof is not None:
        sheet.as_said.append("the checks of each second driven again")
    if result.has("live.json"):
        live = certificate.live_agreement(result.json("live.json"), rows, _link_rows(result, _wire(result)))
        sheet = made.sheet("metrics.json live", "live.json and the ledger")
        sheet.hold_values(said.get("live", {}), live)
    run = result.json("run.json")
    if run.get("agents"):
        sheet = made.sheet("metrics.json agents", "run.json")
        sheet.hold_rows(said.get("agents", []), run["agents"], ("address",))
    verdict, causes = certificate.validity(
        said | found,
        certificate.sender_lag_p99_ms(rows),
        _capture_drops(result),
        len(run.get("dead_senders", [])),
        run.get("gateway_drops"),
        refused_gateways=len(run.get("refused_gateways", [])),
        lost_senders=len(run.get("lost_senders", [])),
        agents=run.get("agents", []),
    )
    validity = said.get("validity", {})
    sheet = made.sheet("metrics.json validity", "the figures")
    sheet.hold("verdict", validity.get("verdict"), verdict)
    sheet.hold("causes", [cause["name"] for cause in validity.get("causes", [])], causes)


def _audit_purposes(made: Audit, wire: WireCounts | None) -> None:
    """Hold the bytes by purpose against the capture's own counts: each byte is in exactly one purpose."""
    result = made.result
    if not result.has("wire_categories.parquet") or wire is None:
        made.notes.append("wire_categories.parquet is missing: the run did not tell its bytes' purposes")
        return
    said: dict[tuple[str, str | None, str], int] = {}
    for row in result.rows("wire_categories.parquet"):
        key = row["phase"], row["vehicle_id"], row["direction"]
        said[key] = said.get(key, 0) + row["bytes"]
    found: dict[tuple[str, str | None, str], int] = {}
    for row in tables.wire_rows(_attributed(result, wire)):
        phase = "run" if row["second"] >= 0 else "before_start"
        key = phase, row["vehicle_id"], row["direction"]
        found[key] = found.get(key, 0) + row["link_bytes"]
    sheet = made.sheet("wire_categories.parquet", "wire.events")
    for key in dict.fromkeys([*said, *found]):
        sheet.hold(" ".join(str(part) for part in key), said.get(key, 0), found.get(key, 0))


def _audit_page(made: Audit, found: figures.Figures) -> None:
    result = made.result
    page = Page(result)
    sheet = made.sheet("report.html", "all logs")
    sheet.hold_values(page.values, found)
    for name, text in page.texts.items():
        if name in found:
            sheet.hold(f"{name}, as printed", text, as_read(found[name], unit_of(name)))
    spent: dict[str, dict[str, int]] = {}
    for row in result.rows("wire_categories.parquet"):
        ways = spent.setdefault(row["purpose"], dict.fromkeys(figures.WAYS, 0))
        if row["direction"] in ways:
            ways[row["direction"]] += row["bytes"]
    for purpose in dict.fromkeys([*page.purposes, *spent]):
        printed = page.purposes.get(purpose, ())
        found_here = [as_read(spent.get(purpose, {}).get(way)) for way in figures.WAYS]
        sheet.hold(f"bytes for {purpose}", ", ".join(printed) or "no row", ", ".join(found_here))


def _audit_frames(made: Audit, wire: WireCounts | None) -> None:
    """Hold the capture's counts against the frames themselves, as another program reads them."""
    result = made.result
    pcap = result.file("frames.pcap")
    if not result.has(pcap.name):
        made.notes.append("frames.pcap: the run was made without --pcap")
        return
    if not frames.available():
        made.notes.append("frames.pcap: not audited: tshark is not installed (apt-get install tshark)")
        return
    start_at_ns = result.terms.start_at_ns
    counted = frames.wire_counts(pcap, start_at_ns)
    sheet = made.sheet("wire.parquet", "frames.pcap, by tshark")
    sheet.hold_rows(
        tables.wire_rows(wire or {}), tables.wire_rows(counted), LINK_KEY, [*LINK_KEY[3:], *frames.COUNTED]
    )
    if result.has("wire_categories.parquet"):
        _audit_attributed_frames(made, pcap, counted)


def _audit_attributed_frames(made: Audit, pcap: Path, counted: WireCounts) -> None:
    """Hold purposes, layers and messages against the frames of those whose bytes are attributed."""
    result = made.result
    ends = _attributed_ends(result)
    probes: dict[str, int] = dict.fromkeys(figures.WAYS, 0)
    for row in result.rows("wire_categories.parquet"):
        if row["purpose"] == "probe" and row["phase"] == "run" and row["direction"] in probes:
            probes[row["direction"]] += row["bytes"]
    sheet = made.sheet("wire_categories.parquet", "frames.pcap, by tshark")
    for way, count in frames.probe_bytes(pcap, result.terms.start_at_ns, ends).items():
        sheet.hold(f"probe bytes {way}", probes[way], count)
    _audit_layers(sheet, result, _attributed(result, counted))
    protocols = sorted({spoken.protocol for spoken in spoken_by(result.options).values()})
    unreadable = [name for name in protocols if not frames.readable(name, result.options)]
    if unreadable:
        made.notes.append(
            f"frames.pcap: messages are not counted: tshark cannot read {', '.join(unreadable)} here"
        )
        return
    said: dict[str, int] = {}
    for row in result.rows("wire_messages.parquet"):
        said[row["vehicle_id"]] = said.get(row["vehicle_id"], 0) + 1
    found: dict[str, int] = {}
    for protocol in protocols:
        for address, count in frames.message_counts(pcap, protocol).items():
            number = _number_of(address)
            if ends is None or number in ends:
                found[end_name(number) or address] = count
    sheet = made.sheet("wire_messages.parquet", f"frames.pcap, by tshark ({', '.join(protocols)})")
    for vehicle in sorted({*said, *found}):
        sheet.hold(f"{vehicle} messages", said.get(vehicle, 0), found.get(vehicle, 0))


def _audit_layers(sheet: Sheet, result: Result, seen: WireCounts) -> None:
    """Hold the headers' bytes, by layer and direction, against the frames'."""
    said: dict[tuple[str, str], int] = {}
    for row in result.rows("wire_categories.parquet"):
        key = row["layer"], row["direction"]
        said[key] = said.get(key, 0) + row["bytes"]
    for way in figures.WAYS:
        cells = [cell for key, cell in seen.items() if key.direction == way]
        found = {
            "link": frames.LINK_HEADER_BYTES * sum(cell["packets"] for cell in cells),
            "ip": sum(cell["ip_header_bytes"] for cell in cells),
            "transport": sum(cell["tcp_header_bytes"] + 8 * cell["udp_packets"] for cell in cells),
        }
        for layer, count in found.items():
            sheet.hold(f"{layer} header bytes {way}", said.get((layer, way), 0), count)


def _number_of(address: str) -> int:
    parts = [int(part) for part in address.split(".")]
    return parts[2] * 256 + parts[3]


def _attributed_ends(result: Result) -> frozenset[int] | None:
    """Return whose bytes are attributed to messages, by number; None: everybody's."""
    ends = json.loads(_metadata(result, "wire_categories.parquet").get(b"attributed_ends", b"null"))
    return None if ends is None else frozenset(ends)


def _attributed(result: Result, counts: WireCounts) -> WireCounts:
    """Return what was counted of those whose bytes are attributed."""
    ends = _attributed_ends(result)
    return {key: cell for key, cell in counts.items() if ends is None or key.vehicle in ends}


def _complete(result: Result) -> bool:
    """Say whether the capture missed no frame: with a hole in it, the nth message may be another."""
    return (
        result.has("wire_messages.parquet")
        and _metadata(result, "wire_messages.parquet").get(b"complete") == b"true"
    )


def _capture_drops(result: Result) -> int | None:
    for name in ("wire_categories.parquet", "wire.parquet"):
        drops = _metadata(result, name).get(b"kernel_drops") if result.has(name) else None
        if drops is not None:
            return int(drops)
    return None


def _metadata(result: Result, name: str) -> dict[bytes, bytes]:
    return result.table(name).schema.metadata or {}


def _wire(result: Result) -> WireCounts | None:
    return logs.read_wire(result.file("wire.events"))


def _numbered(rows: list[Row]) -> list[Row]:
    return [{"step": number, **row} for number, row in enumerate(rows)]
