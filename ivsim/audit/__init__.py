"""The referee: every figure of a finished run, recomputed from its raw logs, beside what the run says.

It shares no code with the pipeline that it checks (an import contract holds that): the standard library, NumPy, pyarrow and,
for a pcap, tshark. It is plain and slow on purpose, and writes nothing. `by_share` goes through a run some vehicles at a time;
here is what is of the run as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Any, Final

from ivsim.audit import certificate, figures, frames, logs, shares, tables
from ivsim.audit.by_share import LINK_KEY, ByShare, attributed, attributed_ends, logged_in
from ivsim.audit.compare import Audit, Difference, Sheet, Table
from ivsim.audit.due import end_name
from ivsim.audit.logs import WireCounts
from ivsim.audit.page import Page, as_read, unit_of
from ivsim.audit.parts import spoken_by
from ivsim.audit.result import BadResult, Result, read_result

__all__ = ["Audit", "BadResult", "Difference", "Sheet", "audit"]

Row = dict[str, Any]
# Of run.json: what no log can tell.
_TAKEN_AS_SAID: Final = (
    "stop_at_ns", "consumer", "platform", "dead_senders", "lost_senders", "deaths", "agents", "shares", "senders", "gateways",
    "gateway_drops", "refused_gateways", "twin_reopened", "replay", "problems", "live",
)  # fmt: skip


def audit(path: Path, say: Callable[[int, int], None] = lambda *_: None) -> Audit:
    """Return what a run's figures come to beside what it says; BadResult when its directory is none to audit.

    `say` is told how many shares of the run are done, and of how many.
    """
    result = read_result(path)
    made = Audit(result)
    steps = _audit_connections(made)
    _audit_in_order(made, "received", result.receive_logs, "received_at_ns")
    _audit_in_order(made, "in-flight", result.in_flight_logs, "noted_at_ns")
    _audit_in_order(made, "confirmed", result.confirmed_logs, "confirmed_at_ns")
    _audit_in_order(made, "consumed", result.consumed_logs, "consumed_at_ns")
    by_share = ByShare(made)
    all_shares = list(shares.shares_of(result.terms))
    for number, share in enumerate(all_shares):
        say(number, len(all_shares))
        by_share.take(share)
    say(len(all_shares), len(all_shares))
    by_share.end()
    sheet = made.sheet("run.json", f"manifest and {logged_in(result)}")
    facts = tables.run_facts(result, by_share.backlog_max)
    sheet.hold_values(result.json("run.json"), facts, _TAKEN_AS_SAID)
    found = by_share.figures() | figures.connection_figures(steps, by_share.backlog_max)
    found["clock_drift_ms"] = result.json("clock.json").get("clock_drift_ms")
    _audit_metrics(made, by_share, found)
    _audit_purposes(made, by_share.spent)
    _audit_page(made, found)
    _audit_frames(made)
    return made


def _audit_connections(made: Audit) -> list[Row]:
    """Hold the connections' steps against the log, and return them."""
    result = made.result
    steps = tables.connection_rows(logs.read_events(*result.emission_logs, kinds=tables.STEPS))
    sheet = made.sheet("connections.parquet", logged_in(result))
    sheet.hold_rows(_numbered(result.rows("connections.parquet")), _numbered(steps), ("step",))
    return steps


def _audit_in_order(made: Audit, noted: str, kept: list[Path], stamp: str) -> None:
    """Hold a table of what gateways, or the consumer, noted against their logs, some rows at a time: row for row."""
    result = made.result
    name = f"{noted.replace('-', '_')}.parquet"
    if not (kept or result.has(name)):
        return
    sheet = made.sheet(name, f"{noted}-*.events")
    table = Table(sheet, ("step",))
    said = result.in_order(name)
    found = (row for log in kept for row in tables.received_rows(logs.read_taken(log), stamp))
    done = 0
    while True:
        mine, other = list(islice(said, shares.ROWS)), list(islice(found, shares.ROWS))
        if not (mine or other):
            break
        table.hold(_numbered(mine, done), _numbered(other, done))
        done += shares.ROWS
    table.end()


def _audit_metrics(made: Audit, by_share: ByShare, found: figures.Figures) -> None:
    result = made.result
    said = result.json("metrics.json")
    parts = ["replay", "certificate", "live", "validity", "parts", "agents", "platform", "shares"]
    parts += [] if by_share.query is None else ["query"]
    sheet = made.sheet("metrics.json", "all logs")
    sheet.hold_values(
        {name: value for name, value in said.items() if name not in parts},
        found | {"run": result.manifest["run"]},
        ["partial", "partial_reason", "security"],
    )
    if result.options.get("mix"):
        sheet = made.sheet("metrics.json parts", "all logs")
        sheet.hold_rows(said.get("parts", []), by_share.parts(), ("protocol", "mode"))
    if by_share.query is not None:
        sheet = made.sheet("metrics.json query", "answers.parquet and the ledger")
        sheet.hold_values(said.get("query", {}), by_share.query.figures())
    sheet = made.sheet("metrics.json replay", "link.parquet")
    if said.get("replay", {}) is None and not by_share.played:
        made.notes.append("metrics.json replay: the run was killed before its replay said what it had done")
    else:
        sheet.hold_values(said.get("replay") or {}, by_share.played.replay(), ["failure", "scheduling"])
    proven = {"checks": []} | said.get("certificate", {})
    proof = result.json("link_proof.json") if result.has("link_proof.json") else None
    certified = by_share.played.certified(proven, proof)
    sheet = made.sheet("metrics.json certificate", "link.parquet")
    sheet.hold_values(certificate.said_of(proven, list(certified)), certified)
    sheet.as_said.append("the checks of delay, rate and outage")
    if proof is not None:
        sheet.as_said.append("the checks of each second driven again")
    if by_share.live is not None:
        sheet = made.sheet("metrics.json live", "live.json and the ledger")
        sheet.hold_values(said.get("live", {}), by_share.live.outcome())
    run = result.json("run.json")
    if run.get("platform"):
        made.sheet("metrics.json platform", "run.json").hold_values(said.get("platform", {}), run["platform"])
    if run.get("agents"):
        sheet = made.sheet("metrics.json agents", "run.json")
        sheet.hold_rows(said.get("agents", []), run["agents"], ("address",))
    if run.get("shares"):
        sheet = made.sheet("metrics.json shares", "run.json")
        sheet.hold_rows(said.get("shares", []), run["shares"], ("share",))
    verdict, causes = certificate.validity(
        said | found,
        by_share.lag.p99_ms(),
        _capture_drops(result),
        len(run.get("dead_senders", [])),
        run.get("gateway_drops"),
        vehicle_drops=sum(sender.get("datagrams_unsent") or 0 for sender in run.get("senders", [])),
        refused_gateways=len(run.get("refused_gateways", [])),
        twin_reopened=len(run.get("twin_reopened", [])),
        lost_senders=len(run.get("lost_senders", [])),
        agents=run.get("agents", []),
        shares=run.get("shares", []),
    )
    validity = said.get("validity", {})
    sheet = made.sheet("metrics.json validity", "the figures")
    sheet.hold("verdict", validity.get("verdict"), verdict)
    sheet.hold("causes", [cause["name"] for cause in validity.get("causes", [])], causes)


def _audit_purposes(made: Audit, spent: dict[tuple[str, str | None, str], int] | None) -> None:
    """Hold the bytes by purpose against the capture's own counts: each byte is in exactly one purpose."""
    result = made.result
    if not result.has("wire_categories.parquet") or spent is None:
        made.notes.append("wire_categories.parquet is missing: the run did not tell its bytes' purposes")
        return
    said: dict[tuple[str, str | None, str], int] = {}
    for row in result.purposes:
        key = row["phase"], row["vehicle_id"], row["direction"]
        said[key] = said.get(key, 0) + row["bytes"]
    sheet = made.sheet("wire_categories.parquet", "wire.events")
    for key in dict.fromkeys([*said, *spent]):
        sheet.hold(" ".join(str(part) for part in key), said.get(key, 0), spent.get(key, 0))


def _audit_page(made: Audit, found: figures.Figures) -> None:
    result = made.result
    page = Page(result)
    sheet = made.sheet("report.html", "all logs")
    sheet.hold_values(page.values, found)
    for name, text in page.texts.items():
        if name in found:
            sheet.hold(f"{name}, as printed", text, as_read(found[name], unit_of(name)))
    spent: dict[str, dict[str, int]] = {}
    for row in result.purposes:
        ways = spent.setdefault(row["purpose"], dict.fromkeys(figures.WAYS, 0))
        if row["direction"] in ways:
            ways[row["direction"]] += row["bytes"]
    for purpose in dict.fromkeys([*page.purposes, *spent]):
        printed = page.purposes.get(purpose, ())
        found_here = [as_read(spent.get(purpose, {}).get(way)) for way in figures.WAYS]
        sheet.hold(f"bytes for {purpose}", ", ".join(printed) or "no row", ", ".join(found_here))


def _audit_frames(made: Audit) -> None:
    """Hold the capture's counts against the frames themselves, as another program reads them: of all vehicles at once."""
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
    captured = logs.read_wire(result.file("wire.events")) or {}
    sheet.hold_rows(tables.wire_rows(captured), tables.wire_rows(counted), LINK_KEY, frames.COUNTED)
    if result.has("wire_categories.parquet"):
        _audit_attributed_frames(made, pcap, counted)


def _audit_attributed_frames(made: Audit, pcap: Path, counted: WireCounts) -> None:
    """Hold purposes, layers and messages against the frames of those whose bytes are attributed."""
    result = made.result
    ends = attributed_ends(result)
    probes: dict[str, int] = dict.fromkeys(figures.WAYS, 0)
    for row in result.purposes:
        if row["purpose"] == "probe" and row["phase"] == "run" and row["direction"] in probes:
            probes[row["direction"]] += row["bytes"]
    sheet = made.sheet("wire_categories.parquet", "frames.pcap, by tshark")
    for way, count in frames.probe_bytes(pcap, result.terms.start_at_ns, ends).items():
        sheet.hold(f"probe bytes {way}", probes[way], count)
    _audit_layers(sheet, result, attributed(counted, ends))
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
    for row in result.purposes:
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


def _capture_drops(result: Result) -> int | None:
    for name in ("wire_categories.parquet", "wire.parquet"):
        if (drops := result.metadata(name).get(b"kernel_drops")) is not None:
            return int(drops)
    return None


def _numbered(rows: Iterable[Row], begin: int = 0) -> list[Row]:
    return [{"step": number, **row} for number, row in enumerate(rows, begin)]
