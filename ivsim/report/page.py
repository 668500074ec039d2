"""The one page of a run: it opens offline, and each number in it is read from the run directory."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
from markupsafe import Markup

from gateways.protocols import PROTOCOLS
from ivsim.labels import words_of
from ivsim.report.decisions import HEADS, decision_rows, read_decisions
from ivsim.report.figures import Figures, all_drawn
from ivsim.report.html import rendered
from ivsim.report.run_tables import Columns, at_edge, columns_of, topology_of
from ivsim.report.style import (
    PART_COLUMNS,
    badge,
    capital,
    latency_words,
    number,
    spoken_in,
    title_of,
    window_words,
)
from ivsim.topologies import TOPOLOGIES
from ledger.metrics import FATES, HOPS, METRICS, REFUSING_HOPS
from simulator.capture.tables import attributed_count
from twin.queries.answers import QUERY_METRICS

# What a check of the certificate says, by the heading of its column.
CHECK = {
    "parameter": "parameter",
    "direction": "direction",
    "asked": "asked",
    "achieved": "achieved",
    "tolerance": "tolerance",
    "verdict": "verdict",
    "what it would have found": "power",
}
# What is known of an agent's clock, in the order of the columns.
AGENT_CLOCK = ("clock_ahead_before_ms", "clock_ahead_after_ms", "clock_uncertainty_ms")
# What security cost, by the words of its row.
SECURITY = {
    "handshakes_full": "full handshakes",
    "handshakes_resumed": "resumed handshakes",
    "handshake_p50_ms": "handshake, median, ms",
    "handshake_p99_ms": "handshake, 99th percentile, ms",
    "full_handshake_p50_ms": "full handshake, median, ms",
    "full_handshake_bytes_mean": "full handshake, records both ways, B",
    "resumed_handshake_p50_ms": "resumed handshake, median, ms",
    "resumed_handshake_bytes_mean": "resumed handshake, records both ways, B",
    "handshake_bytes_uplink": "handshakes, uplink, B",
    "handshake_bytes_downlink": "handshakes, downlink, B",
    "record_bytes_uplink": "headers and tags of records, uplink, B",
    "record_bytes_downlink": "headers and tags of records, downlink, B",
    "access_refused": "connections refused for who the vehicle is",
}


def write_page(directory: Path, figures: Mapping[str, Figures] | None = None) -> Path:
    """Write `report.html` of a run directory from its files; return the path.

    `figures`: of each part of the page, where they are drawn already.
    """
    drawn = figures or all_drawn(directory)
    manifest = json.loads((directory / "manifest.json").read_text())
    metrics = json.loads((directory / "metrics.json").read_text())
    path = directory / "report.html"
    text = rendered(
        "run.html",
        title=f"ivsim run {manifest['run']}",
        head=_head(manifest),
        badges=_badges(metrics),
        warnings=_warnings(manifest, metrics),
        notes=manifest.get("notes", []),
        key_figures=_key_figures(metrics, topology_of(manifest)),
        way=_way(manifest["options"], metrics),
        failed=_failed(metrics),
        window=window_words(metrics),
        certificate=certificate_table(metrics),
        figures=_marked(drawn["messages"]),
        link_figures=_marked(drawn["link"]),
        refusals=_refusals(directory / "ledger.parquet"),
        wire=_wire(columns_of(directory / "wire_categories.parquet")),
        wire_sample=_sample(directory / "wire_categories.parquet"),
        parts=_parts(metrics),
        agents=_agents(metrics),
        shares=_shares(metrics),
        batches=_batches(manifest, directory, drawn["batches"]),
        query=_query(metrics),
        security=_security(metrics),
        live=_live(metrics),
        metrics=[
            (metric, json.dumps(metrics[name]), number(metrics[name], metric.unit))
            for name, metric in METRICS.items()
            if name in metrics
        ],
        host=decided_by_host(manifest),
        manifest=json.dumps(manifest, indent=2, sort_keys=True),
    )
    path.write_text(text)
    return path


def _key_figures(metrics: dict[str, Any], topology: str) -> list[tuple[str, str]]:
    """Return the figures that people quote, each with its title: fates, the latency to the end of the way, overhead."""
    words = latency_words(topology)
    latency = "end_to_end_latency" if "end_to_end_latency" in words else next(iter(words))
    fates, cost = ("due", "delivery_ratio"), "overhead_bytes_per_message"
    titles = {
        **{name: title_of(name, METRICS[name].unit) for name in fates},
        **{f"{latency}_{part}_ms": f"{capital(words[latency])}, {part}" for part in ("p50", "p99")},
        cost: title_of(cost, METRICS[cost].unit),
    }
    return [
        (title, number(metrics[name], METRICS[name].unit))
        for name, title in titles.items()
        if metrics.get(name) is not None and (name != cost or metrics.get("due") != 0)
    ]


def _marked(figures: Figures) -> list[tuple[str, Markup]]:
    # matplotlib has escaped what it writes.
    return [(caption, Markup(svg)) for caption, svg in figures]  # noqa: S704


def _badges(metrics: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return the two verdicts of a run, each with its name and colour: whether its figures may be used, what its link proved."""
    found = {"run": metrics.get("validity"), "link": metrics.get("certificate")}
    return [(name, *badge(str(one.get("verdict", "unknown")))) for name, one in found.items() if one]


def _way(options: dict[str, Any], metrics: dict[str, Any]) -> list[dict[str, str]]:
    """Return the way of a delivered message, places and hops in turn; [] where it ends before a gateway, or none arrived."""
    topology = TOPOLOGIES.get(options.get("topology", ""))
    if topology is None or not topology.bridged or metrics.get("bridge_delay_p50_ms") is None:
        return []
    protocol = PROTOCOLS.get(str(options.get("protocol")))
    broker = "broker" if options.get("mix") or (protocol is not None and protocol.broker) else ""
    first, second = (
        (broker or "direct", "link") if topology.edge else (f"link{broker and ', broker'}", "bridge")
    )
    hops = [("vehicle", first, "one_way_delay"), ("gateway", second, "bridge_delay")]
    end = str(options.get("platform")).capitalize()
    if topology.twins:
        hops.append(("Kafka", "Spark", "processing_delay"))
        end = "twin"
    found: list[dict[str, str]] = []
    for node, by, name in hops:
        times = {part: number(metrics.get(f"{name}_{part}_ms"), "ms") for part in ("p50", "p99")}
        found += [{"node": node}, {"by": by, **times}]
    return [*found, {"node": end}]


def _failed(metrics: dict[str, Any]) -> list[str]:
    """Return what became of the messages that were not delivered, a line for each fate; [] where all were."""
    places = {"lost": ("at", HOPS), "refused": ("by", REFUSING_HOPS)}
    lines = []
    for fate in FATES[1:]:
        count = metrics.get(fate)
        if not count:
            continue
        word, hops = places.get(fate, ("", ()))
        counts = {hop: metrics.get(f"{fate}_{word}_{hop}") for hop in hops}
        where = ", ".join(f"{found:,} {word} {hop}" for hop, found in counts.items() if found)
        many = "1 message is" if count == 1 else f"{count:,} messages are"
        lines.append(f"{many} {fate}: {where}." if where else f"{many} {fate}.")
    return lines


def _head(manifest: dict[str, Any]) -> str:
    options = manifest["options"]
    count = options["gateways"] if at_edge(options) else 0
    through = f" through {count} gateway{'s' if count > 1 else ''} at the edge" if count else ""
    topology = TOPOLOGIES.get(options.get("topology", ""))
    if topology is not None and topology.bridged and not topology.twins:
        through += f" through {options['platform']} ({options['platform_durability']})"
    share = f"share {options['share']} of " if options.get("share") else ""
    return (
        f"{spoken_in(options)}, {share}{options['vehicles']} vehicles{through}, one message each"
        f" {options['interval_s']:g} s for {options['duration_s']:g} s, {options['format']},"
        f" link {manifest['link'].get('name', options['link'])}; trace {options['trace']},"
        f" loss ratio {options['loss_ratio']:g}, seed {options['seed']}{'; ' + said if (said := words_of(options)) else ''}"
    )


def _warnings(manifest: dict[str, Any], metrics: dict[str, Any]) -> list[str]:
    lines = list(manifest.get("warnings", []))
    validity = metrics.get("validity") or {}
    if validity.get("verdict", "valid") != "valid":
        causes = "; ".join(cause["words"] for cause in validity["causes"])
        lines.insert(0, f"This run is {validity['verdict']}: {causes}.")
    return lines


def certificate_table(metrics: dict[str, Any]) -> dict[str, Any] | None:
    """Return the certificate's verdict and statement, and its checks as a table, without a column that none fills."""
    found = metrics.get("certificate")
    if not found:
        return None
    checks = found.get("checks", [])
    shown = {head: key for head, key in CHECK.items() if any(check.get(key) for check in checks)}
    return {
        "verdict": found.get("verdict"),
        "colour": badge(str(found.get("verdict")))[1],
        "statement": found.get("statement", ""),
        "head": list(shown),
        "rows": [[check.get(key, "") for key in shown.values()] for check in checks],
    }


def _refusals(ledger: Path) -> list[tuple[str, str, str]]:
    """Return what the peers said to the messages that they refused, and what became of those."""
    if not ledger.is_file():
        return []
    names = ["refused_reason", "fate"]
    told = pq.read_table(ledger, columns=names, filters=pc.field("refused_reason").is_valid())
    counts = told.group_by(names).aggregate([([], "count_all")])
    order = [("count_all", "descending"), *((name, "ascending") for name in names)]
    return [
        (row["refused_reason"], row["fate"], number(row["count_all"]))
        for row in counts.sort_by(order).to_pylist()
    ]


def _wire(categories: Columns) -> list[list[str]]:
    """Return where every captured byte went, by purpose and direction; frames whole, link layer included."""
    if not categories:
        return []
    sums: Counter[tuple[str, str]] = Counter()
    for purpose, way, count in zip(
        *(categories[name] for name in ("purpose", "direction", "bytes")), strict=True
    ):
        sums[str(purpose), str(way)] += int(count)
    of_purpose: Counter[str] = Counter()
    for (purpose, _), count in sums.items():
        of_purpose[purpose] += count
    return [
        [purpose, *(number(sums[purpose, way]) for way in ("uplink", "downlink"))]
        for purpose, _ in of_purpose.most_common()
    ]


def _sample(categories: Path) -> int | None:
    """Return of how many vehicles, or gateways, the bytes' purposes are known; None: of all, or of none."""
    return attributed_count(pq.read_schema(categories)) if categories.is_file() else None


def _parts(metrics: dict[str, Any]) -> dict[str, Any] | None:
    """Return what each protocol of a mixed fleet came to; None of a fleet that speaks one."""
    if not metrics.get("parts"):
        return None
    return {
        "heads": ["protocol and mode", *(head.replace("_", " ") for head, _, _ in PART_COLUMNS)],
        "rows": [
            [
                f"{part['protocol']} {part['mode']}",
                *(number(part[name], unit) for _, name, unit in PART_COLUMNS),
            ]
            for part in metrics["parts"]
        ],
    }


def _agents(metrics: dict[str, Any]) -> list[list[str]]:
    """Return what each agent had, how far its clock was ahead, and why it was lost, if it was."""
    return [
        [
            f"{agent['address']} ({agent['name']})",
            ", ".join(agent["senders"]),
            number(agent["vehicles"]),
            number(agent["senders_cpu_s"]),
            *(_milliseconds(agent[name]) for name in AGENT_CLOCK),
            f"lost: {agent['lost']}" if agent["lost"] else "to the end",
        ]
        for agent in metrics.get("agents") or []
    ]


def _shares(metrics: dict[str, Any]) -> list[list[str]]:
    """Return of each share of the fleet its run, its clock, and what its figures are worth by themselves."""
    return [
        [
            share["share"],
            share["run"] or "missing",
            number(share["vehicles"]),
            "unknown" if share.get("clock_error_ms") is None else f"{share['clock_error_ms']:,.1f}",
            f"{share['verdict']}{': ' if share['words'] else ''}{share['words']}"
            if share["run"]
            else "unknown",
        ]
        for share in metrics.get("shares") or []
    ]


def _milliseconds(value: float | None) -> str:
    """Return a time to the microsecond, of which a clock's uncertainty has some."""
    return "unknown" if value is None else f"{value:,.3f}"


def _batches(manifest: dict[str, Any], directory: Path, figures: Figures) -> dict[str, Any] | None:
    """Return how gateways chose their batches; None where none did."""
    decisions = read_decisions(directory)
    if not decisions:
        return None
    options = manifest["options"]
    return {
        "policy": options["batching"],
        "limit": f"{options['batch_limit_ms']:g}",
        "heads": HEADS,
        "rows": decision_rows(decisions),
        "figures": _marked(figures),
    }


def _query(metrics: dict[str, Any]) -> dict[str, Any] | None:
    """Return what the query came to, row by row; None where there was none."""
    found = metrics.get("query")
    if not found:
        return None
    rows = [[metric.meaning, number(found[name], metric.unit)] for name, metric in QUERY_METRICS.items()]
    return {"name": found["name"], "limit": f"{found['limit_ms']:g}", "rows": rows}


def _security(metrics: dict[str, Any]) -> dict[str, Any] | None:
    """Return what security cost, row by row; None where there was none."""
    figures = metrics.get("security") or {}
    if figures.get("security", "plain") == "plain":
        return None
    return {
        "name": figures["security"],
        "rows": [(words, number(figures.get(key))) for key, words in SECURITY.items()],
    }


def _live(metrics: dict[str, Any]) -> dict[str, Any] | None:
    """Return whether the streaming job, at its end, had counted what the ledger counts."""
    live = metrics.get("live")
    if not live:
        return None
    if "counts_compared" not in live:
        words = f"The live figures were {live['verdict']}: nothing is compared."
    else:
        words = f"{live['counts_compared']} counts of the streaming job's last figures compared with ledger and link log: they {live['verdict']}."
    rows = [
        (one["vehicle_id"], one["figure"], number(one["live"]), number(one["ledger"]))
        for one in live.get("differences", [])
    ]
    return {"agree": live["verdict"] == "agree", "words": words, "rows": rows}


def decided_by_host(manifest: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what the host decided in this run, that a figure may depend on, each with a word for a person."""
    host, machine = manifest.get("host") or {}, manifest.get("machine") or {}
    clock, cpu = host.get("clock") or {}, host.get("cpu") or {}
    limits, libraries = host.get("limits") or {}, host.get("libraries") or {}
    memory = host.get("memory") or {}
    on = [
        f"{device}: {name}"
        for device, found in sorted((manifest.get("offloads") or {}).items())
        for name, state in found.items()
        if state
        and name != "rx"  # switched off with the sender's; what arrives without a checksum is not touched
    ]
    return [
        ("kernel", _word(machine.get("kernel"))),
        ("virtual machine", _word(cpu.get("virtual_machine"))),
        ("free memory goes back to the host", _word(memory.get("free_pages_returned"))),
        ("cores that it may use", _word(cpu.get("usable_cores"))),
        ("CPU governor", _word(cpu.get("governor"))),
        ("clock source", _word(clock.get("source"))),
        ("limit of CPU time, cores", _word(limits.get("cpu_cores"))),
        ("limit of memory, B", _word(limits.get("memory_bytes"))),
        ("congestion control", _word((manifest.get("tcp") or {}).get("congestion_control"))),
        ("offloads that are on", _word(on or "none") if manifest.get("offloads") else _word(None)),
        (
            "libraries",
            ", ".join(f"{name} {_word(found)}" for name, found in sorted(libraries.items())) or _word(None),
        ),
    ]


def _word(value: Any) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return number(value)
