"""The report of the repeated paper: claims, figures, controls, method; every number comes from the results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, pstdev
from typing import ClassVar, Final

from ivsim.papers.base import Paper
from ivsim.papers.ifip2020 import charts
from ivsim.papers.ifip2020.causes import CAUSES
from ivsim.papers.ifip2020.codec_claims import CURRENT_STATUS, FLAT, PROTO, TEXT, FormatCells
from ivsim.papers.ifip2020.controls import controls_section
from ivsim.papers.ifip2020.decisions import (
    BYTES,
    CPP_STUDY,
    FORMATS_STUDY,
    LATENCIES,
    AllObservations,
    decided_claims,
    some,
)
from ivsim.papers.ifip2020.paper import LOSSES, MODES, SIZES, PaperCells
from ivsim.papers.ifip2020.reasons import reasons
from ivsim.report.drawing import Charts
from ivsim.study import differences, soundness
from ivsim.study.claims import Decided, judged_together
from ivsim.study.claims_report import answer, borne_out, claims_section, evidence_section, number_of
from ivsim.study.corpus import time_metric
from ivsim.study.engines.codec_cpp.driver import DIRECTIONS, OPERATIONS
from ivsim.study.engines.codec_cpp.observations import memory_metric
from ivsim.study.engines.echo.observations import Observations
from ivsim.study.engines.echo.placement import STAGGER_NS
from ivsim.study.engines.run_axes import options_of
from ivsim.study.headline import opening
from ivsim.study.markdown import table
from ivsim.study.report import caveats, machine_section, results
from ivsim.study.results import CellResult
from ivsim.study.statistics import Interval
from ivsim.study.store import Store, minutes_of
from ivsim.study.summary import DASH, scaled, written


class Ifip2020(Paper):
    """The protocol paper of IFIP Networking 2020, with the formats that it compares."""

    studies: ClassVar[tuple[str | Path, ...]] = ("ifip2020", FORMATS_STUDY, CPP_STUDY)

    def decided(self, store: Store) -> list[Decided]:
        return decided_claims(AllObservations(store))

    def report_parts(self, store: Store, decided: Sequence[Decided]) -> list[str]:
        observations = AllObservations(store)
        why = reasons(observations, decided)
        study, found = store.study, results(store)
        apart = differences.differences(study, found)
        advice = opening(study.headline_kind, study.measured_by, found, apart)
        head = f"# {study.title}\n\n{study.question}\n\n{advice}\n\n**{answer(decided)}**"
        if store.quick:
            head += "\n\nA quick run: one repetition of small samples, which decides no claim."
        return [
            f"{head}\n\n{_size(store, found)}",
            claims_section(decided, "bytes are per crossing of the link", borne_out(why, CAUSES)),
            evidence_section(decided, why),
            _results(observations.sent),
            controls_section(observations.sent, store),
            _bare(observations.bare, len(decided)),
            _due(observations.due, len(decided)),
            _formats(observations.formats),
            differences.section(study, apart),
            _method(found),
            *study.measured_by.sections(store.path, found),
            soundness.section(found),
            machine_section(store),
            caveats(store, found),
        ]

    def report_charts(self, store: Store) -> Charts:
        observations = AllObservations(store)
        return charts.paper_charts(observations, results(store))


def _size(store: Store, found: Sequence[CellResult]) -> str:
    """Say how large this run was."""
    done = [result for result in found if result.done]
    options = options_of(found[0].cell)
    due = [int(one.figures["due"]) for result in done for one in result.done]
    middle = sorted(due)[len(due) // 2] if due else 0
    sessions = len(list((store.path / "sessions").glob("*")))
    vehicles = sorted({options_of(result.cell).vehicles for result in found})
    each = " to ".join(str(one) for one in dict.fromkeys((vehicles[0], vehicles[-1])))
    return (
        f"This run: {len(done)} of {len(found)} cells in {sessions} sessions, {each} vehicles a cell, one message"
        f" each {options.interval_s:g} s over {options.duration_s - options.warmup_s:g} s: {middle} measured messages in the"
        f" middle cell, {sum(due):,} in all; {minutes_of(store)}."
    )


def _results(observations: Observations) -> str:
    parts = ["## Results"]
    for size in SIZES:
        latency, lost, overhead = [], [], []
        for mode in MODES:
            cells = [observations.get(f"loss_{size}", mode, loss=loss) for loss in LOSSES]
            latency.append([mode, *(DASH if c is None else written(c.latency()) for c in cells)])
            lost.append(
                [mode, *(DASH if c is None else _lost(c.missing, c.due, c.unsuccessful()) for c in cells)]
            )
            overhead.append([mode, *(DASH if c is None else written(c.overhead()) for c in cells)])
        head = ["mode", *(f"{loss:.0%}" for loss in LOSSES)]
        parts += [
            f"### {size}: mean latency in ms by loss",
            table(head, latency),
            f"### {size}: messages never received by loss",
            table(head, lost),
            f"### {size}: overhead per message and crossing in bytes by loss",
            table(head, overhead),
        ]
    parts.append(
        "Intervals are from vehicles within repetitions. Latency is from the moment the"
        " client library got the message until the receiver beside the vehicle had it, over the messages received."
    )
    return "\n\n".join(parts)


def _lost(missing: int, due: int, interval: Interval) -> str:
    return f"{missing} of {due}: {written(scaled(interval, 'ratio')[0])} %"


def _bare(observations: PaperCells, claims: int) -> str:
    """Show the bytes once more, without TCP's pure acknowledgements."""
    rows = []
    for mode in MODES:
        cells = [observations.get(f"loss_{size}", mode, loss=loss) for size in SIZES for loss in (0.0, 0.25)]
        rows.append([mode, *(DASH if c is None else written(c.overhead()) for c in cells)])
    head = ["mode", *(f"{size}, {loss}" for size in SIZES for loss in ("0%", "25%"))]
    verdicts = [
        [str(d.number), d.claim.statement, f"**{d.verdict}**", number_of(d)]
        for d in judged_together(some(observations, BYTES), claims)
    ]
    return (
        "### The same bytes without TCP segments that only acknowledge\n\n"
        + table(head, rows)
        + "\n\nOverhead per message and crossing. Whether the paper counts these segments is not said; if it does not,"
        " the claims about bytes read so:\n\n" + table(["#", "claim", "verdict", "found"], verdicts)
    )


def _due(observations: PaperCells, claims: int) -> str:
    """Show the latencies once more, from when a message was due."""
    rows = []
    for mode in MODES:
        cells = [
            observations.get(f"loss_{size}", mode, loss=loss) for size in SIZES for loss in (0.0, 0.1, 0.25)
        ]
        rows.append([mode, *(DASH if c is None else written(c.latency()) for c in cells)])
    head = ["mode", *(f"{size}, {loss}" for size in SIZES for loss in ("0%", "10%", "25%"))]
    verdicts = [
        [str(d.number), d.claim.statement, f"**{d.verdict}**", number_of(d)]
        for d in judged_together(some(observations, LATENCIES), claims)
    ]
    return (
        "### The same latencies from the moment a message was due\n\n"
        + table(head, rows)
        + "\n\nMean latency in ms. It contains the wait of a message for the exchange before it: CoAP allows one at a time"
        " (NSTART = 1, RFC 7252, 4.7), which aiocoap's layer here keeps to. Read so, the claims about latency become:"
        "\n\n" + table(["#", "claim", "verdict", "found"], verdicts)
    )


CPP_SHOWN: Final = (
    "payload_bytes_mean",
    *(time_metric(operation) for operation in OPERATIONS),
    *(memory_metric(way) for way in DIRECTIONS),
)
PYTHON_SHOWN: Final = (
    *("payload_bytes_mean", "build_encode_us", "decode_us", "decode_all_us", "three_fields_us"),
    *("encode_memory_kib", "decode_memory_kib"),
)


def _formats(cells: FormatCells) -> str:
    """Show what the formats cost: in C++, which the paper measured, and in Python, which sends the messages here."""
    cpp = [(name, cells.cpp(name)) for name in (PROTO, FLAT)]
    python = [(name, cells.get(CURRENT_STATUS, name)) for name in (TEXT, PROTO, FLAT)]
    said = "" if cells.why_no_cpp is None else f"Not measured: {cells.why_no_cpp}."
    return "\n\n".join(
        [
            "## Serialisation of CurrentStatus",
            "### C++'s libraries, which decide claims 17 to 19",
            _costs(cpp, CPP_SHOWN) or said or "Not measured.",
            "### Python's libraries, which send the messages here and decide the size of JSON alone",
            _costs(python, PYTHON_SHOWN) or "Not measured.",
        ]
    )


def _costs(cells: Sequence[tuple[str, CellResult | None]], metrics: Sequence[str]) -> str:
    rows = [
        [name, *(written(cell.interval(metric)) for metric in metrics)]
        for name, cell in cells
        if cell is not None
    ]
    return table(["format", *metrics], rows) if rows else ""


def _method(found: Sequence[CellResult]) -> str:
    """Return the method, with the numbers of this run's cells."""
    options = options_of(found[0].cell)
    trace = options.traces[0]
    rtt_ms = [ms for s in range(int(trace.duration_s)) if (ms := trace.step_at(s).rtt_ms) is not None]
    rtt = f"{fmean(rtt_ms):.1f} ms in the mean ({pstdev(rtt_ms):.1f} ms)" if rtt_ms else "not of the trace"
    return METHOD.format(
        trace=options.trace,
        rtt=rtt,
        interval=f"{options.interval_s:g}",
        warmup=f"{options.warmup_s:g}",
        timeout=f"{options.loss_timeout_s:g}",
        stagger=f"{STAGGER_NS / 1e6:g}",
    )


METHOD = """## Method

- The paper's set-up: publisher and subscriber on one machine, the broker across the link, the message crosses it twice.
  CoAP has no broker: a POST to an observable resource, observed from the publisher's machine.
- The paper's netem worked on the broker's machine, and so shaped only what left it. So does this: the whole RTT, the
  loss and the rate (the trace's uplink column, though it is the downlink that gets it) are on the way back; the way out
  is free. netem takes a rate of 0 for none, so a zero of the series is no limit here either.
- The series is a generated one of the same kind (traces/README.md: `{trace}`), as logged on a phone that was
  downloading, and the RTT is drawn anew each second: {rtt}. One message per vehicle and {interval} s.
- Many vehicles run side by side, each with its own queue, rate, delay and loss. Vehicle j of every cell starts at the
  same second of the trace and sends the same readings at the same offsets, all seven modes at the same time ({stagger} ms
  apart): what the link did to a message drops out of a paired comparison. The first {warmup} s are not measured.
  Vehicles go on sending until the last measured message had {timeout} s.
- Connections are made before the trace begins.
- Bytes are those of frames at the vehicles' end. What belongs to no message is spread evenly over the vehicle's
  messages; TCP's retransmissions are left out, CoAP's are counted; both crossings are halved, as only so the paper's
  250 B for QoS 2 can be read."""
