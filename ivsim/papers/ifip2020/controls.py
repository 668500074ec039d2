"""The controls of the repeated paper: what the set-up itself could have decided, each with the cells that show it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ivsim.papers.ifip2020.decisions import BLOCKS, settings_of
from ivsim.papers.ifip2020.latency_claims import PAPER_RTT
from ivsim.papers.ifip2020.paper import (
    CON,
    LOSSES,
    MODES,
    NON,
    PING,
    SIZES,
    TCP,
    PaperCells,
    at,
    difference,
    pings_together,
)
from ivsim.study.clusters import Clusters, difference_of_means
from ivsim.study.engines.echo.engine import pings
from ivsim.study.engines.echo.observations import EchoObservations, Observations, compare_latency
from ivsim.study.markdown import table
from ivsim.study.statistics import Interval, holm
from ivsim.study.store import Store
from ivsim.study.summary import DASH, short, written

BBR_LOSSES: Final = (0.0, 0.1, 0.25)


def controls_section(observations: PaperCells, store: Store) -> str:
    return "\n\n".join(
        [
            "## Controls",
            fewer_vehicles(observations),
            _both_ways(observations),
            _bbr(observations),
            _one_datagram(observations),
            _one_block(observations),
            _best(observations, store),
        ]
    )


def fewer_vehicles(observations: Observations) -> str:
    """Compare side by side with few vehicles alone at twice the interval, over the same seconds of the trace."""
    found = []
    for mode in MODES:
        a, b = (
            observations.get("loss_large", mode, loss=0.0),
            observations.get("fewer", mode, interval_s=20.0),
        )
        if a is not None and b is not None:
            alike = first_units(_of_repetitions(a, b).latencies, b.cell.options.vehicles)
            apart = difference_of_means(alike, b.latencies, same_units=True)
            found.append((mode, alike.mean(), b.latency(), apart))
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
    text = (
        f"Means in ms of the same vehicles, over the same seconds of the trace, when they run beside all the others and"
        f" when they run alone at twice the interval. {count} of {len(rows)} modes differ by more"
        " than noise (by vehicle, Holm): running side by side "
        + ("changes the result." if count else "is not seen to change the result.")
    )
    return f"### Fewer vehicles, longer interval (large, 0 % loss)\n\n{table(head, rows)}\n\n{text}"


def _of_repetitions(cell: EchoObservations, other: EchoObservations) -> EchoObservations:
    """Return a cell with the repetitions alone that another one has, too: those were in the same seconds of the trace."""
    wanted = {kept.task.repetition for kept in other.repetitions}
    return replace(cell, repetitions=[kept for kept in cell.repetitions if kept.task.repetition in wanted])


def first_units(cells: Clusters, units: int) -> Clusters:
    """Return the messages of the first so many vehicles of each repetition."""
    some = cells.unit < units
    return replace(
        cells,
        values=cells.values[some],
        repetition=cells.repetition[some],
        unit=cells.unit[some],
        units=units,
    )


def _both_ways(observations: Observations) -> str:
    rows = []
    for mode in MODES:
        row = [mode]
        for loss in (0.0, 0.1, 0.25):
            one, two = (
                observations.get("loss_small", mode, loss=loss),
                observations.get("both_ways", mode, loss=loss),
            )
            row += [_brief(cell) for cell in (one, two)]
        rows.append(row)
    head = ["mode", *(f"{loss}, {way}" for loss in ("0%", "10%", "25%") for way in ("one way", "both"))]
    return (
        "### One netem on the broker's machine, and shaping in both directions (small)\n\n"
        + table(head, rows)
        + "\n\nMean latency and share never received. `one way` is the paper's set-up; `both` has the trace's rate uplink,"
        " half the RTT in each direction, and the loss in each."
    )


def _bbr(observations: PaperCells) -> str:
    """Compare CUBIC, which the paper's systems had, with BBR, which many hosts have today."""
    found, rows = [], []
    for size in SIZES:
        for mode in TCP:
            cells = [
                (at(observations, size, mode, loss), observations.get(f"bbr_{size}", mode, loss=loss))
                for loss in BBR_LOSSES
            ]
            if any(bbr is not None for _cubic, bbr in cells):
                rows.append([size, mode, *(_brief(cell) for pair in cells for cell in pair)])
                found += [difference(compare_latency, cubic, bbr) for cubic, bbr in cells]
    if not rows:
        return "### CUBIC and BBR\n\nNot measured."
    differs = holm([c.p_value if c is not None else 1.0 for c in found])
    head = ["size", "mode", *(f"{loss:.0%}, {name}" for loss in BBR_LOSSES for name in ("CUBIC", "BBR"))]
    slower = sum(more and c is not None and c.difference > 0 for c, more in zip(found, differs, strict=True))
    return (
        "### CUBIC and BBR\n\n"
        + table(head, rows)
        + f"\n\nMean latency and share never received. Of {len(found)} pairs of cells {sum(differs)} differ in the mean by"
        f" more than noise (by vehicle, Holm): BBR is slower in {slower}, faster in {sum(differs) - slower}."
    )


def _brief(cell: EchoObservations | None) -> str:
    if cell is None:
        return DASH
    return f"{short(cell.latency().estimate or 0.0)} ms, {cell.missing / cell.due:.1%}"


def _one_datagram(observations: PaperCells) -> str:
    """Show CoAP's *large* messages in blocks, and in one datagram."""
    rows = []
    for mode in (NON, CON):
        for setting, cells in settings_of(observations).items():
            found = [at(cells, "large", mode, loss) for loss in LOSSES]
            row = [
                DASH if c is None else f"{_brief(c)}, {short(c.overhead().estimate or 0.0)} B" for c in found
            ]
            rows.append([mode, setting, *row])
    return (
        f"### CoAP's large messages: {BLOCKS}, or one datagram\n\n"
        + table(["mode", "sent as", *(f"{loss:.0%}" for loss in LOSSES)], rows)
        + "\n\nMean latency, share never received, overhead per message and crossing. The paper does not say which it had:"
        " the claims in which these messages have a part are decided for both, and one that agrees in one and disagrees in the"
        " other depends on it."
    )


def _one_block(observations: Observations) -> str:
    rows = []
    for mode in MODES:
        cells = [observations.get("sizes", mode, message_bytes=1000)]
        cells += [observations.get("one_block", mode, message_bytes=1000, loss=loss) for loss in LOSSES[2:]]
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


def _best(observations: PaperCells, store: Store) -> str:
    wires = (
        ("wire", pings_together([observations.ping_ms]), {"sweep": "best_case", "link": "direct"}),
        ("delayed", observations.paper_pings, {"sweep": "paper_ping", "rtt": PAPER_RTT}),
    )
    rows = []
    for name, rtt, where in wires:
        rows.append([name, "ping", str(rtt.n), written(rtt.mean()), written(rtt.quantile(0.5)), ""])
        for mode in MODES:
            cell = observations.get(mode=mode, **where)
            if cell is not None:
                delays = cell.delays
                added = difference_of_means(rtt, delays)
                text = (
                    DASH if added is None else written(Interval(added.difference, added.low, added.high, 2))
                )
                middle = written(delays.quantile(0.5))
                rows.append([name, mode, str(delays.n), written(delays.mean()), middle, text])
    emulated = pings_together([pings(store.path, "auto")])
    text = (
        f"Sent to received, small. `wire`: two namespaces joined by a virtual wire. `delayed`: what leaves the cloud waits"
        f" {PAPER_RTT} ms, so that a ping takes about what it took between the paper's two machines"
        f" ({PING.mean:g} ms, standard deviation {PING.deviation:g} ms, {PING.n} pings). Network cards, interrupts and the"
        " scheduler of a second machine are in neither: the paper's figure cannot be reached from below."
    )
    if emulated.n:
        text += f" The emulating link without any condition answers a ping in {written(emulated.mean())} ms."
    head = ["link", "mode", "n", "mean, ms", "median, ms", "above ping, ms"]
    return f"### Best case\n\n{table(head, rows)}\n\n{text}"
