"""`ivsim chaos`: kill or cut a part in the middle of a run and check what the mode promised."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from gateways.protocols import PROTOCOLS
from ivsim.chaos.case import Case, run_case
from ivsim.chaos.faults import FAULTS
from ivsim.chaos.promises import Judgement
from ivsim.run_directory import write_json
from schemas.errors import Refusal

# Every protocol's modes as the protocol paper compares them; --modes names others.
MODES = (
    ("mqtt", "qos0"), ("mqtt", "qos1"), ("mqtt", "qos2"), ("amqp", "auto"),
    ("amqp", "manual-confirms-persistent"), ("coap", "con"), ("coap", "non"),
)  # fmt: skip
COLUMNS = ("due", "delivered", "late", "lost", "unsent", "acknowledged and lost")


def cases_of(protocol: str | None, mode: str | None, fault: str | None) -> list[Case]:
    """Return the cases that the words choose; Refusal for a word no table has."""
    if protocol is not None and protocol not in PROTOCOLS:
        raise Refusal(f"--protocol {protocol!r}: allowed are {', '.join(PROTOCOLS)}")
    if fault is not None and fault not in FAULTS:
        raise Refusal(f"--fault {fault!r}: allowed are {', '.join(FAULTS)}")
    modes = [(p, m) for p, m in MODES if protocol in (None, p)]
    if mode is not None:
        if protocol is None or mode not in PROTOCOLS[protocol].modes:
            owners = [
                f"{p.name} has {', '.join(p.modes)}" for p in PROTOCOLS.values() if protocol in (None, p.name)
            ]
            raise Refusal(f"--mode {mode!r}: name its --protocol; {'; '.join(owners)}")
        modes = [(protocol, mode)]
    found = [Case(p, m, f.name) for p, m in modes for f in FAULTS.values() if fault in (None, f.name)]
    return [case for case in found if FAULTS[case.fault].applies_to(case.protocol)]


def command(
    every: Annotated[
        bool, typer.Option("--all", help="Every mode with every fault (about 40 minutes).")
    ] = False,
    protocol: Annotated[str | None, typer.Option(help=f"One of: {', '.join(PROTOCOLS)}.")] = None,
    mode: Annotated[str | None, typer.Option(help="A mode of that protocol, such as qos1.")] = None,
    fault: Annotated[str | None, typer.Option(help=f"One of: {', '.join(FAULTS)}.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of every case's run.")] = 1,
    output: Annotated[Path | None, typer.Option(help="Directory of the results.")] = None,
) -> None:
    """Kill or cut one part in the middle of a run, bring it back, and check what each mode promised."""
    if not every and (protocol, mode, fault) == (None, None, None):
        raise Refusal("ivsim chaos: choose --all, or a --protocol, --mode or --fault")
    cases = cases_of(protocol, mode, fault)
    base = output or Path("results") / time.strftime("chaos-%Y%m%d-%H%M%S", time.gmtime())
    base.mkdir(parents=True, exist_ok=True)
    console = Console(stderr=True)
    judged: list[tuple[Case, Judgement]] = []
    began_s = time.monotonic()
    for index, case in enumerate(cases):
        left_s = (time.monotonic() - began_s) / index * (len(cases) - index) if index else None
        left = "" if left_s is None else f", {left_s / 60:.0f} min left"
        console.print(f"[{index + 1}/{len(cases)}{left}] {case.name}", highlight=False)
        judged.append((case, run_case(case, base, seed=seed)[1]))
        write_json(base / "chaos.json", {case.name: vars(judgement) for case, judgement in judged})
    Console().print(table_of(judged))
    broken = [f"{case.name}: {line}" for case, judgement in judged for line in judgement.broken]
    for line in broken:
        console.print(line, style="bold red", highlight=False)
    raise typer.Exit(1 if broken else 0)


def table_of(judged: list[tuple[Case, Judgement]]) -> Table:
    """Return mode by fault with what became of the messages."""
    table = Table("protocol", "mode", "fault", *COLUMNS, "lost at", "verdict")
    for case, judgement in judged:
        counts = {**judgement.counts, "acknowledged and lost": judgement.acknowledged_and_lost}
        hops = ", ".join(f"{hop} {count}" for hop, count in sorted(judgement.lost_by_hop.items()))
        verdict = "broken" if judgement.broken else "kept"
        table.add_row(*case, *(str(counts[name]) for name in COLUMNS), hops, verdict)
    return table
