"""`ivsim link`: which links work here, and what they really do; simulator.links does the work."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ivsim.listing import listing, width_of
from schemas.errors import Refusal
from schemas.topics import MAX_VEHICLES
from simulator.link_schedule import LinkSchedule
from simulator.links import AUTO, LINKS, Condition, Link, choose, open_link, why_not
from simulator.links.privileges import ensure_privileges
from simulator.links.proof import checks
from simulator.links.proof.checks import Check, Verdict
from simulator.links.proof.verify import Proof, Step, representative, verify
from simulator.links.proof.verify_fleet import verify_fleet
from simulator.links.proof.verify_replay import verify_replay
from simulator.traces import BUNDLED, bundled, read_trace

app = typer.Typer(no_args_is_help=True, help="The emulated link: what works here, and proof of what it does.")

ALL = "all"
STEPS_AT_ONCE = 20  # vehicles of the link on which steps are proven
REPLAY_SECONDS = 8
LONGEST_TRACE_S = 3600
FILE_WIDTH = 160
MAX_SECONDS = 3600
AGAIN = " (measured again: it was off once, and that may be the machine)"

STANDARD = (
    Step("delay alone", Condition(None, 35.0), Condition(None, 10.0)),
    Step("loss alone", Condition(None, 5.0, 0.05), Condition(None, 5.0, 0.25)),
    Step("slow", Condition(100e3, 60.0), Condition(200e3, 60.0)),
    Step("1 Mbit/s, 1 % loss", Condition(1e6, 35.0, 0.01), Condition(2e6, 35.0, 0.01)),
    Step("5 Mbit/s", Condition(5e6, 35.0), Condition(10e6, 35.0)),
    Step("20 Mbit/s", Condition(20e6, 20.0), Condition(5e6, 20.0)),
    Step("outage up", Condition(0.0, 35.0), Condition(5e6, 35.0)),
)


@app.command()
def show() -> None:
    """Say which back ends work here, and why the others do not."""
    ensure_privileges()
    table = Table("link", "works here", "why not")
    for name in LINKS:
        reason = why_not(name)
        table.add_row(name, "yes" if reason is None else "no", reason or "")
    console = _console()
    console.print(table)
    try:
        console.print(f"auto chooses {choose(AUTO)}")
    except Refusal:
        console.print("auto finds no link that emulates")


@app.command(name="verify")
def verify_link(
    trace: Annotated[
        str | None,
        typer.Option(
            help=f"A bundled trace's name, a file, or {ALL!r}: its representative seconds, replayed."
        ),
    ] = None,
    link: Annotated[str, typer.Option(help=f"One of: {AUTO}, {', '.join(LINKS)}.")] = AUTO,
    vehicles: Annotated[
        int, typer.Option(min=1, max=MAX_VEHICLES, help="Above 20: also each vehicle's own delay and loss.")
    ] = STEPS_AT_ONCE,
    seconds: Annotated[
        float, typer.Option(min=1, max=MAX_SECONDS, help="Length of each kind of probe traffic, s.")
    ] = 4.0,
    loss: Annotated[
        float, typer.Option(min=0, max=1, help="Loss ratio asked where a trace has none.")
    ] = 0.01,
) -> None:
    """Drive UDP and TCP through the link, print asked against achieved; exit code 1 when a step is off."""
    if link not in {AUTO, *LINKS}:
        raise Refusal(f"--link {link!r}: allowed are {AUTO}, {', '.join(LINKS)}")
    series = [(name, _series(name, loss)) for name in _names(trace)]
    ensure_privileges()
    reason = None if link == AUTO else why_not(link)
    if reason is not None:
        raise Refusal(f"--link {link}: {reason}")
    run = f"verify{secrets.token_hex(2)}"
    console = _console()
    verdicts: list[Verdict] = []
    with open_link(link, run, max(vehicles, STEPS_AT_ONCE)) as opened:
        _print_properties(opened)
        if not series:
            verdicts += _verify_steps(console, opened, "standard steps", STANDARD, seconds)
        for name, conditions in series:
            verdicts += _verify_trace(console, opened, name, conditions, seconds)
        if vehicles > STEPS_AT_ONCE:
            title = f"{vehicles} vehicles at once"
            verdicts += _twice(
                lambda again: print_checks(
                    console, title + again, verify_fleet(opened, vehicles, max(seconds, 5.0))
                )
            )
    off = verdicts.count("off")
    console.print(f"{len(verdicts)} steps, {off} off")
    if off:
        raise typer.Exit(1)


def _console() -> Console:
    """Return a console as wide as the terminal; in a file a row of the table keeps to one line."""
    return Console() if Console().is_terminal else Console(width=FILE_WIDTH)


def _names(trace: str | None) -> Sequence[str]:
    if trace is None:
        return ()
    return tuple(BUNDLED) if trace == ALL else (trace,)


def _series(name: str, loss: float) -> list[tuple[Condition, Condition]]:
    trace = bundled(name) if name in BUNDLED else read_trace(name)
    schedule = LinkSchedule(trace, 1, 1, loss_ratio=loss, offsets=False)
    return [schedule.at(second)[1] for second in range(int(min(max(1, trace.duration_s), LONGEST_TRACE_S)))]


def _verify_trace(
    console: Console, link: Link, name: str, series: list[tuple[Condition, Condition]], seconds: float
) -> list[Verdict]:
    verdicts = _verify_steps(console, link, name, representative(name, series), seconds)
    fast = [pair for pair in series if (pair[0].rate_bps or 0) > 0]
    if not fast:
        return verdicts
    middle = len(fast) // 2
    window = fast[middle : middle + REPLAY_SECONDS]
    title = f"{name}, replayed under a saturating flow"
    return verdicts + _twice(
        lambda again: print_checks(console, title + again, verify_replay(link, STEPS_AT_ONCE, window))
    )


def _verify_steps(
    console: Console, link: Link, title: str, steps: Sequence[Step], seconds: float
) -> list[Verdict]:
    proofs = verify(link, steps, seconds)
    _print_proofs(console, title, proofs)
    off = [proof.step for proof in proofs if proof.verdict == "off"]
    good = [proof.verdict for proof in proofs if proof.verdict != "off"]
    return good + (_print_proofs(console, title + AGAIN, verify(link, off, seconds)) if off else [])


def _twice(measure: Callable[[str], list[Verdict]]) -> list[Verdict]:
    """Measure once more what was off: a busy machine is off by chance, a wrong link each time.

    Both tables are printed; the second one counts.
    """
    verdicts = measure("")
    return measure(AGAIN) if "off" in verdicts else verdicts


def _print_proofs(console: Console, title: str, proofs: Sequence[Proof]) -> list[Verdict]:
    table = _table(title)
    for proof in proofs:
        table.add_row(Text(proof.step.name, style="bold"))
        for check in proof.checks:
            _add(table, check)
        table.add_section()
    console.print(table)
    return [proof.verdict for proof in proofs]


def print_checks(console: Console, title: str, made: Sequence[Check]) -> list[Verdict]:
    """Print a proof's checks as a table; return the verdict over all of them, alone in a list."""
    table = _table(title)
    for check in made:
        _add(table, check)
    console.print(table)
    return [checks.overall(made)]


def _table(title: str) -> Table:
    columns = ("parameter", "direction", "asked", "achieved", "tolerance", "verdict")
    return Table(
        *columns, title=title, title_justify="left", expand=False, box=SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )


def _add(table: Table, check: Check) -> None:
    words = (check.parameter, check.direction, check.asked, check.achieved, check.tolerance)
    table.add_row(*words, check.verdict, style="bold red" if check.verdict == "off" else None)


def _print_properties(link: Link) -> None:
    said = {name: value for name, value in link.properties().items() if name != "name"}
    print(f"link {link.name}")
    print(
        "\n".join(
            listing([(name.replace("_", " "), str(value)) for name, value in said.items()], width_of(), 2)
        )
    )
