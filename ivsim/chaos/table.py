"""The chaos command's tables, one a mode and no wider than 80 columns; it judges nothing."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table

from gateways.protocols import PROTOCOLS
from ivsim.chaos.case import Case
from ivsim.chaos.promises import ALWAYS, PROMISES, Judgement

Judged = dict[Case, Judgement]
IN_TWIN, CONSUMED = "in twin", "consumed"
COLUMNS = ("fault", IN_TWIN, "late", "lost or\nrefused", "unsent", "acked,\nlost", "promise", "verdict")
WORDS = 2  # columns that are words stand at both ends
LEGEND_WIDTH = 80


def print_tables(console: Console, judged: Judged) -> None:
    """Print a table per mode, the meaning of the promises, and why a case is broken."""
    for protocol, mode in dict.fromkeys((case.protocol, case.mode) for case in judged):
        guarantee = PROTOCOLS[protocol].modes[mode].guarantee.replace("_", " ")
        through = any(case.platform for case in judged)
        table = _table(f"{protocol} {mode} ({guarantee})", CONSUMED if through else IN_TWIN)
        for case, judgement in judged.items():
            if (case.protocol, case.mode) == (protocol, mode):
                table.add_row(case.fault, *row(judgement))
        console.print(table)
        console.print()
    used = {judgement.promise for judgement in judged.values()}
    for promise in PROMISES:
        if promise.word in used:
            _say(console, f"{promise.word}: {promise.meaning}.")
    _say(console, f"always: {'; '.join(ALWAYS)}.")
    for case, judgement in judged.items():
        for line in judgement.broken:
            _say(console, f"{case.name} broke its promise: {line}", style="bold red")


def row(judgement: Judgement) -> tuple[str, ...]:
    """Return the cells of one case after its fault."""
    counts = judgement.counts
    arrived = counts.get("delivered", 0) + counts.get("late", 0)
    gone = [f"{count} {hop}" for hop, count in judgement.lost_by_hop.items()]
    if refused := counts.get("refused"):
        gone.append(f"{refused} refused")
    lost = ", ".join(gone)
    return (
        f"{arrived}/{counts.get('due', 0)}",
        str(counts.get("late", 0)),
        lost or "0",
        str(counts.get("unsent", 0)),
        str(judgement.acknowledged_and_lost),
        judgement.promise,
        "BROKEN" if judgement.broken else "kept",
    )


def _table(title: str, arrived: str) -> Table:
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
    )
    for index, name in enumerate(COLUMNS):
        word = index == 0 or index >= len(COLUMNS) - WORDS
        heading = arrived if name == IN_TWIN else name
        table.add_column(heading, justify="left" if word else "right", no_wrap=word)
    return table


def _say(console: Console, text: str, style: str | None = None) -> None:
    console.print(text, style=style, highlight=False, width=min(LEGEND_WIDTH, console.width))
