"""The claims decided, and the report: ratios as published and with intervals, starts and warm-up, the harness, kills."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final

from ivsim.papers.base import Paper, within
from ivsim.papers.kafka_clients.cells import (
    CONSUME,
    COUNTS,
    JAVA,
    LABELS,
    LIBRDKAFKA,
    PRODUCE,
    PUBLISHED,
    SETTINGS,
    SIZES,
    Cells,
)
from ivsim.papers.kafka_clients.claims import CLAIMS
from ivsim.papers.kafka_clients.statistics import as_published, median_ratio
from ivsim.papers.parts import Part, ratios
from ivsim.report.style import number
from ivsim.study.claims import Decided, decide, judged_together
from ivsim.study.claims_report import answer, claims_section, evidence_section
from ivsim.study.markdown import table
from ivsim.study.report import results, sections
from ivsim.study.results import CellResult
from ivsim.study.statistics import Interval
from ivsim.study.store import Store
from ivsim.study.summary import DASH

STUDY: Final = "kafka-clients"
COSTS: Final = "kafka-clients-costs"
KILLS: Final = "kafka-clients-kills"
# What the harness may add to a client's own loop.
MOST_ADDED: Final = 0.05
BARE: Final = "bare"
FATES: Final = ("produced", "acknowledged", "consumed", "duplicates", "acknowledged_lost")
FIGURES: Final = (
    *("produce_ms", "produce_client_cpu_us", "produce_broker_cpu_us"),
    *("consume_ms", "consume_client_cpu_us", "consume_broker_cpu_us", "resident_mib"),
)


class KafkaClients(Paper):
    """KNet project, "KNet: performance evaluation", documentation of KNet 2.4.3, 2024."""

    studies: ClassVar[tuple[str | Path, ...]] = (STUDY, COSTS, KILLS)

    def decided(self, store: Store) -> list[Decided]:
        return decided_claims(results(store))

    def report_parts(self, store: Store, decided: Sequence[Decided]) -> list[str]:
        found = results(store)
        head, *others = sections(store, found)
        cells = Cells(found)
        further = {name: results(one) for name in (COSTS, KILLS) if (one := within(store, name)) is not None}
        return [
            f"{head}\n\n**{answer(decided)}**",
            claims_section(
                decided, f"ratios are of pairs of runs of one repetition; J is {JAVA}, L {LIBRDKAFKA}"
            ),
            evidence_section(decided),
            published(cells),
            *(ratios_of(cells, sweep) for sweep in SETTINGS[1:]),
            *(one(further[COSTS]) for one in (costs, singles, starts, harness) if COSTS in further),
            *([kills(further[KILLS])] if KILLS in further else []),
            *others,
        ]


def decided_claims(found: Sequence[CellResult]) -> list[Decided]:
    """Return the twelve claims in their order."""
    return judged_together(decide(CLAIMS, Cells(found)))


def published(cells: Cells) -> str:
    """Return the document's tables beside what was found: ratios of means, deviations and variation, and medians."""
    rows = []
    for metric, label in LABELS.items():
        for count in COUNTS:
            for size, (mean, deviation) in zip(SIZES, PUBLISHED[metric][count], strict=True):
                pairs = list(cells.pairs(metric, size, count).values())
                here = as_published(pairs)
                rows.append(
                    [
                        label,
                        f"{count:,}",
                        f"{size:,}",
                        *(f"{one:.0f}" for one in (mean, deviation, 100 * deviation / mean)),
                        *([f"{one:.0f}" for one in here] if here is not None else [DASH] * 3),
                        _ratio(median_ratio(pairs)),
                        str(len(pairs)),
                    ]
                )
    head = [
        "",
        "messages",
        "bytes",
        "published: mean",
        "SD",
        "CV",
        "here: mean",
        "SD",
        "CV",
        "median J/L",
        "pairs",
    ]
    return (
        "## As published\n\n100 x J / L: means, standard deviations (SD) and coefficients of variation (CV) at the"
        " document's settings; below 100 J needs less. The median is of the ratios of pairs, with its exact 95 % interval"
        " from order statistics.\n\n" + table(head, rows)
    )


def ratios_of(cells: Cells, sweep: str) -> str:
    """Return both clients' medians, and their ratio, at one of the other settings."""
    rows = []
    for metric, label in LABELS.items():
        for size in SIZES:
            pairs = list(cells.pairs(metric, size, COUNTS[0], sweep=sweep).values())
            part = Part("", [a / b for a, b in pairs], 0, 1)
            rows.append(
                [
                    label,
                    f"{size:,}",
                    *(number(_median([pair[k] for pair in pairs])) for k in (0, 1)),
                    _ratio(median_ratio(pairs)),
                    _ratio(part.interval()),
                    str(len(pairs)),
                ]
            )
    head = ["", "bytes", "J, ms", "L, ms", "median J/L", "geometric mean J/L", "pairs"]
    return f"## With the settings `{sweep}`\n\n{COUNTS[0]:,} messages.\n\n" + table(head, rows)


def _median(values: Sequence[float]) -> float | None:
    return sorted(values)[(len(values) - 1) // 2] if values else None


def _ratio(found: Interval) -> str:
    if found.estimate is None:
        return DASH
    if found.low is None or found.high is None:
        return f"{found.estimate:.2f}"
    return f"{found.estimate:.2f} [{found.low:.2f}, {found.high:.2f}]"


def costs(found: Sequence[CellResult]) -> str:
    """Return what a record costs with each client, in processes that are warm."""
    rows = []
    for one in found:
        if one.cell.sweep != "clients" or not one.done:
            continue
        values = one.cell.values
        rows.append(
            [
                *(str(values[name]) for name in ("client", "bytes")),
                *(number(one.interval(name).estimate) for name in FIGURES),
            ]
        )
    head = [
        *("client", "bytes", "produce, ms", "client, µs CPU", "broker, µs CPU"),
        *("consume, ms", "client, µs CPU", "broker, µs CPU", "MiB"),
    ]
    return (
        "## What a record costs, warm\n\nMeans over repetitions; CPU time by record, of the client's processes (a JVM"
        " beside it included) and of the broker.\n\n" + table(head, rows)
    )


def harness(found: Sequence[CellResult]) -> str:
    """Return what the harness adds to each client's own loop, in time and in CPU time of the client."""
    cells = Cells(found)
    rows = []
    clients = sorted({str(one.cell.values["client"]) for one in cells.of_sweep(BARE)})
    for client in clients:
        for metric in (PRODUCE, CONSUME):
            for name in (metric, f"{LABELS[metric]}_client_cpu_us"):
                sides = [
                    {
                        repetition: value
                        for one in cells.of_sweep(BARE)
                        if (one.cell.values["client"], one.cell.values["path"]) == (client, path)
                        for repetition, value in figures_of(one, name).items()
                    }
                    for path in ("interface", "bare")
                ]
                part = Part("", ratios(*sides), 0, 1 + MOST_ADDED)
                rows.append([client, name, _ratio(part.interval()), _judged(part.interval())])
    head = ["client", "figure", "harness / own loop", f"at most {1 + MOST_ADDED:.2f}"]
    return (
        "## What the harness adds\n\nThe loop through the interface that all clients share over the library's own calls alone"
        " (no report for each record, no comparison of content), pairs of one repetition.\n\n"
        + table(head, rows)
    )


def figures_of(one: CellResult, metric: str) -> dict[int, float]:
    """Return a figure of each repetition that has it."""
    return {
        kept.task.repetition: float(kept.figures[metric])
        for kept in one.done
        if kept.figures.get(metric) is not None
    }


def _judged(found: Interval) -> str:
    if found.low is None or found.high is None:
        return "not told"
    if found.high <= 1 + MOST_ADDED:
        return "yes"
    return "no" if found.low > 1 + MOST_ADDED else "not told"


def starts(found: Sequence[CellResult]) -> str:
    """Return what a client's first seconds take: process, clients, the first answer; warm-up within the first records."""
    names = (
        "process_ms",
        "sender_open_ms",
        "first_answer_ms",
        "first_tenth_us",
        "rest_us",
        "produce_ms",
        "consume_ms",
    )
    rows = [
        [str(one.cell.values["client"]), *(number(one.interval(name).estimate) for name in names)]
        for one in found
        if one.cell.sweep == "cold" and one.done
    ]
    head = [
        *("client", "process and library, ms", "sender open, ms", "first answer, ms"),
        *("first tenth, µs/record", "rest, µs/record", "produce, ms", "consume, ms"),
    ]
    return (
        "## Cold start and warm-up\n\nA new process for each measurement, neutral settings; the steady state is above.\n\n"
        + table(head, rows)
    )


def singles(found: Sequence[CellResult]) -> str:
    """Return the round trip of one record at a time."""
    names = (
        "latency_mean_ms",
        "latency_p50_ms",
        "latency_p99_ms",
        "single_client_cpu_us",
        "single_broker_cpu_us",
    )
    rows = [
        [
            str(one.cell.values["client"]),
            str(one.cell.values["bytes"]),
            *(number(one.interval(name).estimate) for name in names),
        ]
        for one in found
        if one.cell.sweep == "single" and one.done
    ]
    head = ["client", "bytes", "mean, ms", "p50, ms", "p99, ms", "client, µs CPU", "broker, µs CPU"]
    return "## One record at a time\n\nLinger 0, after a warm-up; from sending to having.\n\n" + table(
        head, rows
    )


def kills(found: Sequence[CellResult]) -> str:
    """Return the ledgers over a kill of the broker, repetitions added up, and how long nothing was answered."""
    rows = []
    for one in found:
        if not one.done:
            continue
        values = one.cell.values
        rows.append(
            [
                str(values["platform"]),
                str(values["acks"]),
                *(number(_sum(one, name)) for name in FATES),
                *(number(one.interval(name).estimate) for name in ("recovery_s", "outage_s")),
            ]
        )
    head = [
        *("client", "acks", "due", "acknowledged", "present", "duplicates", "acknowledged, then lost"),
        *("recovery, s", "outage, s"),
    ]
    return (
        "## A kill of the broker\n\nSIGKILL while records are due, and a start at once; counts are sums over repetitions."
        " *Recovery* is from the kill to the first acknowledgement of a record sent after it, *outage* until the broker"
        " answers.\n\n" + table(head, rows)
    )


def _sum(one: CellResult, name: str) -> float | None:
    each = [kept.figures.get(name) for kept in one.done]
    known = [value for value in each if value is not None]
    return sum(known) if len(known) == len(each) else None
