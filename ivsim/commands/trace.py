"""`ivsim trace`: bring drives in, make, describe, draw, hand on; simulator.traces does the work."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from schemas.errors import Refusal
from simulator.traces import (
    BUNDLED,
    DEFAULT,
    PROFILES,
    Trace,
    bundled,
    generate,
    profile_named,
    read_trace,
    to_csv,
    write_trace,
)
from simulator.traces.describe import summary
from simulator.traces.importers import IMPORTERS, Options, import_trace
from simulator.traces.importers.base import CLOCK_BACK, DIRECTIONS, DUPLICATES, GAPS
from simulator.traces.importers.mahimahi import to_mahimahi
from simulator.traces.model import COLUMNS, RATE_MEANINGS
from simulator.traces.plot import FORMATS, plot

app = typer.Typer(
    no_args_is_help=True, help="Traces of cellular links: import, export, list, show, plot, generate."
)

_TraceArgument = Annotated[str, typer.Argument(metavar="TRACE", help="A bundled trace's name or a file.")]
_Out = Annotated[Path, typer.Option("--out", help="Result: *.csv or *.parquet.")]


def _open(name: str) -> Trace:
    """A bundled name, else a file; a file of a foreign format must be imported first."""
    if name in BUNDLED:
        return bundled(name)
    path = Path(name)
    if not path.exists() and "/" not in name and not path.suffix:
        raise Refusal(f"trace {name!r}: neither a file nor a bundled trace ({', '.join(BUNDLED)})")
    return read_trace(path)


def _words(values: list[str] | None) -> tuple[str, ...] | None:
    return tuple(values) if values else None


def _choice(values: Iterable[str]) -> str:
    return ", ".join(values)


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="A recorded drive.")],
    out: _Out,
    from_: Annotated[str, typer.Option("--from", help=f"auto, or one of {_choice(IMPORTERS)}.")] = "auto",
    column: Annotated[
        list[str] | None, typer.Option(help=f"Take this column (again for more): {_choice(COLUMNS)}.")
    ] = None,
    direction: Annotated[
        str | None, typer.Option(help=f"Of a rate that does not say it: {_choice(DIRECTIONS)}.")
    ] = None,
    network_mode: Annotated[
        list[str] | None, typer.Option(help="Keep rows of this mode only, e.g. LTE; the others become gaps.")
    ] = None,
    state: Annotated[
        list[str] | None, typer.Option(help="Keep rows of this logger state only, e.g. D; likewise.")
    ] = None,
    duplicates: Annotated[
        str | None, typer.Option(help=f"Rows within one step: {_choice(DUPLICATES)} (average).")
    ] = None,
    hold: Annotated[float | None, typer.Option(help="Rows up to this many s apart are no gap (2).")] = None,
    gaps: Annotated[str | None, typer.Option(help=f"Longer ones: {_choice(GAPS)} (refuse).")] = None,
    clock_back: Annotated[
        str | None, typer.Option(help=f"Rows older than one before: {_choice(CLOCK_BACK)} (refuse).")
    ] = None,
    step: Annotated[float | None, typer.Option(help="Length of a step of the result, s (1).")] = None,
    period: Annotated[float | None, typer.Option(help="Time between rows that have no clock, s.")] = None,
    skip: Annotated[float | None, typer.Option(help="Leave out this much of the beginning, s.")] = None,
    rate_meaning: Annotated[
        str | None, typer.Option(help=f"Of a generic CSV's rates: {_choice(RATE_MEANINGS)}.")
    ] = None,
    time: Annotated[str | None, typer.Option(help="Generic CSV: NAME[:s, ms, us, ns or iso].")] = None,
    map_: Annotated[
        list[str] | None,
        typer.Option(
            "--map", help="Generic CSV: TARGET=NAME[:UNIT or :@UNIT_COLUMN], e.g. uplink_kbps=up:Mbit/s."
        ),
    ] = None,
    delimiter: Annotated[
        str | None, typer.Option(help="Generic CSV: comma, semicolon, tab, space (comma).")
    ] = None,
) -> None:
    """Bring a recorded drive into our schema; what the file leaves open must be said here."""
    options = Options(
        columns=_words(column),
        direction=direction,
        network_modes=_words(network_mode),
        states=_words(state),
        duplicates=duplicates,
        hold_s=hold,
        gaps=gaps,
        clock_back=clock_back,
        step_s=step,
        period_s=period,
        skip_s=skip,
        rate_meaning=rate_meaning,
        time=time,
        mapping=_words(map_),
        delimiter=delimiter,
    )
    trace = import_trace(file, from_, options)
    _write(trace, out)
    print(f"policy: {trace.header.get('policy', 'none needed')}")


def _write(trace: Trace, out: Path) -> None:
    if out.suffix not in (".csv", ".parquet"):
        raise Refusal(f"--out {out}: must end in .csv or .parquet")
    _checked_folder(out)
    write_trace(trace, out)
    print(f"{out}: {trace.duration_s:g} s, {len(trace.time_s)} steps, {', '.join(trace.columns())}")


def _checked_folder(out: Path) -> None:
    if not out.parent.is_dir():
        raise Refusal(f"--out {out}: the folder {out.parent} does not exist")


@app.command()
def export(
    trace: _TraceArgument,
    out: Annotated[Path, typer.Option("--out", help="The file to write.")],
    to: Annotated[str, typer.Option(help="mahimahi, csv or parquet.")] = "mahimahi",
    direction: Annotated[str | None, typer.Option(help="mahimahi: uplink or downlink.")] = None,
) -> None:
    """Hand a trace on to another tool."""
    if to not in ("mahimahi", "csv", "parquet"):
        raise Refusal(f"--to {to!r}: must be one of mahimahi, csv, parquet")
    source = _open(trace)
    if to != "mahimahi":
        if out.suffix != f".{to}":
            raise Refusal(f"--out {out}: must end in .{to}")
        _write(source, out)
        return
    _checked_folder(out)
    direction = direction or _only_direction(source)
    if direction not in DIRECTIONS:
        raise Refusal(f"--direction {direction!r}: must be one of {', '.join(DIRECTIONS)}")
    text = to_mahimahi(source, direction)
    out.write_text(text, encoding="ascii", newline="\n")
    print(f"{out}: {text.count(chr(10))} delivery opportunities in {source.duration_s:g} s ({direction})")


def _only_direction(trace: Trace) -> str:
    present = [name for name, column in DIRECTIONS.items() if column in trace.columns()]
    if len(present) != 1:
        raise Refusal(f"{trace.source}: has {len(present)} rate columns: give --direction uplink or downlink")
    return present[0]


@app.command("list")
def list_() -> None:
    """The bundled traces, the profiles they are drawn from, and the formats that import."""
    print("bundled traces")
    width = max(map(len, [*BUNDLED, *PROFILES, *IMPORTERS]))
    for name, recipe in BUNDLED.items():
        mark = " (the default)" if name == DEFAULT else ""
        columns = [profile_named(p).column for p in recipe.profiles] + ["loss_ratio"] * recipe.loss
        print(f"  {name:<{width}}  {recipe.duration_s:>5} s  {', '.join(columns)}: {recipe.about}{mark}")
    print("\nprofiles for `ivsim trace generate --profile`")
    for profile in PROFILES.values():
        print(f"  {profile.name:<{width}}  {profile.column}: {profile.note}")
    print("\nformats for `ivsim trace import --from`")
    for importer in IMPORTERS.values():
        print(f"  {importer.name:<{width}}  {importer.about}")


@app.command()
def show(
    trace: _TraceArgument,
    against: Annotated[
        str | None, typer.Option(help="Stand it beside the real drives behind this profile.")
    ] = None,
) -> None:
    """Statistics of a trace, beside those of the real drives where its profile is known."""
    if against is not None:
        profile_named(against)
    print("\n".join([trace, *summary(_open(trace), against)]))


@app.command("plot")
def plot_(
    trace: _TraceArgument,
    out: Annotated[Path, typer.Option("--out", help=f"The picture: *{' or *'.join(FORMATS)}.")],
) -> None:
    """Draw a trace: one panel per column over time."""
    _checked_folder(out)
    source = _open(trace)
    name = trace if trace in BUNDLED else Path(trace).name
    meaning = source.header.get("rate_meaning")
    plot(
        source,
        out,
        f"{name}, {source.duration_s:g} s" + (f", rate: {meaning.replace('_', ' ')}" if meaning else ""),
    )
    print(f"{out}: {', '.join(source.columns())}")


@app.command("generate")
def generate_(
    profile: Annotated[
        list[str], typer.Option(help=f"A series (again for another column): {_choice(PROFILES)}.")
    ],
    seed: Annotated[int, typer.Option(help="The same seed gives the same bytes.")] = 1,
    duration: Annotated[int, typer.Option(help="Length, s.")] = 600,
    loss: Annotated[bool, typer.Option("--loss", help="Add the RTT profile's loss bursts.")] = False,
    outage: Annotated[list[str] | None, typer.Option(help="START:SECONDS in which rates are 0.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="*.csv or *.parquet; without it, CSV is printed.")
    ] = None,
) -> None:
    """Draw a trace from fitted profiles, the same bytes on every machine for one seed."""
    profiles = [profile_named(name) for name in profile]
    trace = generate(profiles, seed, duration, loss=loss, outages=[_outage(text) for text in outage or []])
    if out is None:
        print(to_csv(trace), end="")
    else:
        _write(trace, out)


def _outage(text: str) -> tuple[int, int]:
    start, colon, length = text.partition(":")
    if not (colon and start.isdigit() and length.isdigit()):
        raise Refusal(f"--outage {text!r}: must be START:SECONDS, such as 20:10")
    return int(start), int(length)
