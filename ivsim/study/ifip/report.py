"""The report of the repeated paper: claims, figures, controls, method; every number comes from the results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ivsim.study.evidence import Evidence, Measured
from ivsim.study.ifip import pictures
from ivsim.study.ifip.decisions import (
    BYTES,
    LATENCIES,
    SERIALISATION,
    Decided,
    answer,
    decide,
    evidence_of,
    pings,
    some,
)
from ivsim.study.ifip.paper import LOSSES, MODES, SIZES
from ivsim.study.ifip.reasons import REASONS
from ivsim.study.ifip.verdicts import DISAGREE
from ivsim.study.report import caveats, machine_section, results, table, write
from ivsim.study.statistics import Interval, compare_means, holm, mean_interval
from ivsim.study.store import Store, minutes_of
from ivsim.study.summary import DASH, CellResult, scaled, short, written

__all__ = ["SERIALISATION", "claims_text", "failed", "write_report"]


def write_report(store: Store, directory: Path) -> Path:
    """Write report.md, figures and report.html; return the path of report.md."""
    evidence = evidence_of(store)
    decided = decide(store, evidence)
    found = results(store)
    study = store.study
    head = f"# {study.title}\n\n{study.question}\n\n**{answer(decided)}**"
    if store.quick:
        head += "\n\nA quick run: small samples, so that many a claim cannot be told."
    parts = [
        f"{head}\n\n{_size(store, found)}",
        _claims(decided),
        _reasons(decided),
        _results(evidence),
        _controls(evidence, store),
        _bare(store),
        _due(store),
        METHOD,
        machine_section(store, found),
        caveats(store, found),
    ]
    return write(directory, parts, pictures.of(evidence, found, pings(store, "direct")))


def _size(store: Store, found: Sequence[CellResult]) -> str:
    """Say how large this run was."""
    done = [result for result in found if result.done]
    options = found[0].cell.options
    due = [int(one.figures["due"]) for result in done for one in result.done]
    middle = sorted(due)[len(due) // 2] if due else 0
    sessions = len(list((store.path / "sessions").glob("*")))
    return (
        f"This run: {len(done)} of {len(found)} cells in {sessions} sessions, {options.vehicles} vehicles a cell, one message"
        f" each {options.interval_s:g} s over {options.duration_s - options.warmup_s:g} s: {middle} measured messages in the"
        f" middle cell, {sum(due):,} in all; {minutes_of(store)}."
    )


def failed(store: Store) -> bool:
    """Return whether any cell failed."""
    return any(result.reasons for result in results(store))


def claims_text(store: Store) -> str:
    """Return the claims as lines for a terminal."""
    decided = decide(store, evidence_of(store))
    lines = [f"{one.number:2}  {one.verdict:11}  {one.words}\n{'':17}{one.summary}" for one in decided]
    return "\n".join([*lines, "", answer(decided)])


def _claims(decided: Sequence[Decided]) -> str:
    rows = [[str(d.number), d.words, f"**{d.verdict}**", d.summary, d.test] for d in decided]
    words = (
        "A claim agrees when every statement it is made of does, disagrees as soon as one is contrary, and cannot be"
        " told otherwise. Differences and ratios stand with their 95 % intervals; bytes are per crossing of the link."
    )
    head = ["#", "claim", "verdict", "found here (at most four of what decided it)", "decided by"]
    return f"## Claims\n\n{table(head, rows)}\n\n{words}"


def _reasons(decided: Sequence[Decided]) -> str:
    lines = [
        f"- **{d.number}.** {REASONS.get(d.number, 'No reason was found.')}"
        for d in decided
        if d.verdict == DISAGREE
    ]
    return "## Why we disagree\n\n" + ("\n".join(lines) if lines else "We do not.")


def _results(evidence: Evidence) -> str:
    parts = ["## Results"]
    for size in SIZES:
        latency, lost, overhead = [], [], []
        for mode in MODES:
            cells = [evidence.get(f"loss_{size}", mode, loss=loss) for loss in LOSSES]
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
        "Student's t interval for means, as in the paper; Clopper-Pearson for shares. Latency is from the moment the"
        " client library got the message until the receiver beside the vehicle had it, over the messages received."
    )
    return "\n\n".join(parts)


def _lost(missing: int, due: int, interval: Interval) -> str:
    return f"{missing} of {due}: {written(scaled('unsuccessful_ratio', interval)[0])} %"


def _controls(evidence: Evidence, store: Store) -> str:
    return "\n\n".join(
        ["## Controls", _fewer(evidence), _both_ways(evidence), _one_block(evidence), _best(evidence, store)]
    )


def _fewer(evidence: Evidence) -> str:
    """Compare side by side with half of the vehicles at twice the interval, over the same roads."""
    found = []
    for mode in MODES:
        a, b = evidence.get("loss_large", mode, loss=0.0), evidence.get("fewer", mode, interval_s=20.0)
        if a is not None and b is not None:
            alike = a.received_of(b.cell.options.vehicles)
            found.append((mode, mean_interval(alike), b.latency(), compare_means(alike, b.received_ms)))
    differs = holm([c.p_value if c is not None else 1.0 for *_, c in found])
    rows = [
        [
            mode,
            written(a),
            written(b),
            DASH if c is None else written(Interval(c.difference, c.low, c.high, 2)),
            "yes" if more else "no",
        ]
        for (mode, a, b, c), more in zip(found, differs, strict=True)
    ]
    head = ["mode", "side by side, 10 s", "fewer, 20 s", "difference, ms", "more than noise"]
    count = sum(differs)
    words = (
        f"Means in ms of the same vehicles, on the same stretches of the road, when they run beside all the others and"
        f" when half of the vehicles run alone at twice the interval. {count} of {len(rows)} modes differ by more"
        " than noise (Welch, Holm): running side by side "
        + ("changes the result." if count else "is not seen to change the result.")
    )
    return f"### Fewer vehicles, longer interval (large, 0 % loss)\n\n{table(head, rows)}\n\n{words}"


def _both_ways(evidence: Evidence) -> str:
    rows = []
    for mode in MODES:
        row = [mode]
        for loss in (0.0, 0.1, 0.25):
            one, two = evidence.get("loss_small", mode, loss=loss), evidence.get("both_ways", mode, loss=loss)
            row += [_brief(cell) for cell in (one, two)]
        rows.append(row)
    head = ["mode", *(f"{loss}, {way}" for loss in ("0%", "10%", "25%") for way in ("one way", "both"))]
    return (
        "### One netem on the broker's machine, and a road in both directions (small)\n\n"
        + table(head, rows)
        + "\n\nMean latency and share never received. `one way` is the paper's set-up; `both` has the trace's rate uplink,"
        " half the RTT in each direction, and the loss in each."
    )


def _brief(cell: Measured | None) -> str:
    if cell is None:
        return DASH
    return f"{short(cell.latency().estimate or 0.0)} ms, {cell.missing / cell.due:.1%}"


def _one_block(evidence: Evidence) -> str:
    rows = []
    for mode in MODES:
        cells = [evidence.get("sizes", mode, message_bytes=1000)]
        cells += [evidence.get("one_block", mode, message_bytes=1000, loss=loss) for loss in LOSSES[2:]]
        rows.append(
            [
                mode,
                *(
                    DASH if c is None else f"{written(c.latency())} ms, {c.missing / c.due:.1%}"
                    for c in cells
                ),
            ]
        )
    return (
        "### Messages of 1,000 bytes, which CoAP carries in one block\n\n"
        + table(["mode", "0%", "5%", "10%", "25%"], rows)
        + "\n\nMean latency and share never received."
    )


def _bare(store: Store) -> str:
    """Read the bytes once more, without TCP's pure acknowledgements."""
    evidence = evidence_of(store, bare=True)
    rows = []
    for mode in MODES:
        cells = [evidence.get(f"loss_{size}", mode, loss=loss) for size in SIZES for loss in (0.0, 0.25)]
        rows.append([mode, *(DASH if c is None else written(c.overhead()) for c in cells)])
    head = ["mode", *(f"{size}, {loss}" for size in SIZES for loss in ("0%", "25%"))]
    verdicts = [[str(d.number), d.words, f"**{d.verdict}**", d.summary] for d in some(evidence, BYTES)]
    return (
        "### The same bytes without TCP segments that only acknowledge\n\n"
        + table(head, rows)
        + "\n\nOverhead per message and crossing. Whether the paper counts these segments is not said; if it does not,"
        " the claims about bytes read so:\n\n" + table(["#", "claim", "verdict", "found"], verdicts)
    )


def _due(store: Store) -> str:
    """Read the latencies once more, from when a message was due."""
    evidence = evidence_of(store, since_sent=False)
    rows = []
    for mode in MODES:
        cells = [evidence.get(f"loss_{size}", mode, loss=loss) for size in SIZES for loss in (0.0, 0.1, 0.25)]
        rows.append([mode, *(DASH if c is None else written(c.latency()) for c in cells)])
    head = ["mode", *(f"{size}, {loss}" for size in SIZES for loss in ("0%", "10%", "25%"))]
    verdicts = [[str(d.number), d.words, f"**{d.verdict}**", d.summary] for d in some(evidence, LATENCIES)]
    return (
        "### The same latencies from the moment a message was due\n\n"
        + table(head, rows)
        + "\n\nMean latency in ms. It contains the wait of a message for the exchange before it: CoAP allows one at a time"
        " (NSTART = 1, RFC 7252, 4.7), which aiocoap's layer here keeps to. Read so, the claims about latency become:"
        "\n\n" + table(["#", "claim", "verdict", "found"], verdicts)
    )


def _best(evidence: Evidence, store: Store) -> str:
    rtt = pings(store, "direct")
    rows = [["ping", str(len(rtt)), written(mean_interval(rtt)), "", ""]]
    for mode in MODES:
        cell = evidence.get("best_case", mode, link="direct")
        if cell is not None:
            delay = cell.delay_ms[cell.delay_ms == cell.delay_ms]
            added = compare_means(rtt, delay)
            words = DASH if added is None else written(Interval(added.difference, added.low, added.high, 2))
            middle = f"{sorted(delay)[len(delay) // 2]:.2f}" if len(delay) else ""
            rows.append([mode, str(len(delay)), written(mean_interval(delay)), middle, words])
    emulated = pings(store, "auto")
    words = "Sent to received, small, no emulation."
    if emulated:
        words += f" The emulating link without any condition answers a ping in {written(mean_interval(emulated))} ms."
    head = ["mode", "n", "mean, ms", "median, ms", "above ping, ms"]
    return f"### Best case\n\n{table(head, rows)}\n\n{words}"


METHOD = """## Method

- The paper's set-up: publisher and subscriber on one machine, the broker across the link, the message crosses it twice.
  CoAP has no broker: a POST to an observable resource, observed from the publisher's machine.
- The paper's netem worked on the broker's machine, and so shaped only what left it. So does this: the whole RTT, the
  loss and the rate (the trace's uplink column, though it is the downlink that gets it) are on the way back; the way out
  is free. netem takes a rate of 0 for none, so a zero of the series is no limit here either.
- The series is a generated one of the same kind (traces/README.md: `paper-lte-car`), as logged on a phone that was
  downloading, and the RTT is drawn anew each second from a normal of 69.5 ms (5.6 ms). One message per vehicle and 10 s.
- Many vehicles run side by side, each with its own queue, rate, delay and loss. Vehicle j of every cell starts at the
  same second of the trace and sends the same readings at the same offsets, all seven modes at the same time (40 ms
  apart): what the road did to a message drops out of a paired comparison. The first 10 s are not measured. Vehicles
  go on sending until the last measured message had 20 s.
- Connections are made before the road begins.
- Bytes are those of frames at the vehicles' end. What belongs to no message is spread evenly over the vehicle's
  messages; TCP's retransmissions are left out, CoAP's are counted; both crossings are halved, as only so the paper's
  250 B for QoS 2 can be read."""
