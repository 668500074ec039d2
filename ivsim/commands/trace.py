"""`ivsim trace`: bring drives in, make, describe, draw, hand on; simulator.traces does the work."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from ivsim.commands.files import writing
from ivsim.listing import listing, paragraph, table, width_of
from ivsim.option_signature import taking
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
from simulator.traces.describe import facts, tables
from simulator.traces.geojson import to_geojson
from simulator.traces.importers import IMPORTERS, Options, import_trace
from simulator.traces.importers.mahimahi import Opportunities
from simulator.traces.importers.options import DIRECTIONS, OPTIONS
from simulator.traces.plot import FORMATS, plot

app = typer.Typer(
    no_args_is_help=True, help="Traces of cellular links: import, export, list, show, plot, generate."
)

_TraceArgument = Annotated[str, typer.Argument(metavar="TRACE", help="A bundled trace's name or a file.")]
_TO = ("mahimahi", "csv", "parquet", "geojson")
_Out = Annotated[Path, typer.Option("--output", help="Result: *.csv or *.parquet.")]


def _open(name: str) -> Trace:
    """A bundled name, else a file; a file of a foreign format must be imported first."""
    if name in BUNDLED:
        return bundled(name)
    path = Path(name)
    if not path.exists() and "/" not in name and not path.suffix:
        raise Refusal(f"trace {name!r}: neither a file nor a bundled trace ({', '.join(BUNDLED)})")
    return read_trace(path)


def _choice(values: Iterable[str]) -> str:
    return ", ".join(values)


def _import_parameters() -> list[inspect.Parameter]:
    """Return one parameter for each policy of an import; what is given several times becomes a tuple."""
    found = []
    for name, (kind, asked) in OPTIONS.items():
        plain: Any = list[str] | None if kind == tuple[str, ...] | None else kind
        annotation = Annotated[plain, typer.Option(asked.word, help=asked.help)]
        found.append(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        )
    return found


@app.command("import")
@taking(_import_parameters())
def import_(
    *,
    file: Annotated[Path, typer.Argument(help="A recorded drive.")],
    out: _Out,
    from_: Annotated[str, typer.Option("--from", help=f"auto, or one of {_choice(IMPORTERS)}.")] = "auto",
    **given: Any,
) -> None:
    """Bring a recorded drive into our schema; what the file leaves open must be said here."""
    said: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in given.items()
        if value != []
    }
    options = Options(**said)
    if out.exists() and file.exists() and out.samefile(file):
        raise Refusal(f"--output {out}: is the drive that is read")
    trace = import_trace(file, from_, options)
    _write(trace, out)
    print(f"policy: {trace.header.get('policy', 'none needed')}")


def _write(trace: Trace, out: Path) -> None:
    if out.suffix not in (".csv", ".parquet"):
        raise Refusal(f"--output {out}: must end in .csv or .parquet")
    _checked_folder(out)
    with writing("--output", out):
        write_trace(trace, out)
    print(f"{out}: {trace.duration_s:g} s, {len(trace.time_s)} steps, {', '.join(trace.all_columns())}")


def _checked_folder(out: Path) -> None:
    if not out.parent.is_dir():
        raise Refusal(f"--output {out}: the folder {out.parent} does not exist")


@app.command()
def export(
    trace: _TraceArgument,
    out: Annotated[Path, typer.Option("--output", help="The file to write.")],
    to: Annotated[str, typer.Option(help=f"{', '.join(_TO[:-1])} or {_TO[-1]}.")] = "mahimahi",
    direction: Annotated[str | None, typer.Option(help="mahimahi: uplink or downlink.")] = None,
) -> None:
    """Hand a trace on to another tool."""
    if to not in _TO:
        raise Refusal(f"--to {to!r}: must be one of {', '.join(_TO)}")
    if to != "mahimahi" and direction is not None:
        raise Refusal("--direction: for --to mahimahi alone")
    source = _open(trace)
    if to != "mahimahi" and out.suffix != f".{to}":
        raise Refusal(f"--output {out}: must end in .{to}")
    if to == "geojson":
        _write_way(source, trace, out)
        return
    if to != "mahimahi":
        _write(source, out)
        return
    _checked_folder(out)
    direction = direction or _only_direction(source)
    if direction not in DIRECTIONS:
        raise Refusal(f"--direction {direction!r}: must be one of {', '.join(DIRECTIONS)}")
    opportunities = Opportunities(source, direction)
    with writing("--output", out), out.open("w", encoding="ascii", newline="\n") as file:
        file.writelines(opportunities.blocks())
    print(f"{out}: {opportunities.count} delivery opportunities in {source.duration_s:g} s ({direction})")


def _write_way(source: Trace, name: str, out: Path) -> None:
    _checked_folder(out)
    way = to_geojson({name if name in BUNDLED else Path(name).stem: source})
    if way is None:
        raise Refusal(f"trace {name}: has no way: latitude_deg and longitude_deg, of two places or more")
    with writing("--output", out):
        out.write_text(way, encoding="utf-8", newline="\n")
    print(f"{out}: {len(source.time_s)} positions")


def _only_direction(trace: Trace) -> str:
    present = [name for name, column in DIRECTIONS.items() if column in trace.columns()]
    if len(present) != 1:
        raise Refusal(f"{trace.source}: has {len(present)} rate columns: give --direction uplink or downlink")
    return present[0]


@app.command("list")
def list_() -> None:
    """The bundled traces, the profiles they are drawn from, and the formats that import."""
    print("bundled traces")
    rows = []
    for name, recipe in BUNDLED.items():
        mark = " (the default)" if name == DEFAULT else ""
        columns = [profile_named(p).column for p in recipe.profiles] + ["loss_ratio"] * recipe.loss
        rows.append((name, f"{recipe.duration_s:>5} s", f"{', '.join(columns)}: {recipe.about}{mark}"))
    width = width_of()
    print("\n".join(listing(rows, width, indent=2)))
    print("\nprofiles for `ivsim trace generate --profile`")
    profiles = [(profile.name, f"{profile.column}: {profile.note}") for profile in PROFILES.values()]
    print("\n".join(listing(profiles, width, indent=2)))
    print("\nformats for `ivsim trace import --from`")
    print("\n".join(listing([(one.name, one.about) for one in IMPORTERS.values()], width, indent=2)))


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
    source, width = _open(trace), width_of()
    print("\n".join([trace, *(line for fact in facts(source) for line in paragraph(fact, width))]))
    for found in tables(source, against):
        print("\n".join(["", *table(found.head, found.rows, width)]))


@app.command("plot")
def plot_(
    trace: _TraceArgument,
    out: Annotated[Path, typer.Option("--output", help=f"The picture: *{' or *'.join(FORMATS)}.")],
) -> None:
    """Draw a trace: one panel per column over time."""
    _checked_folder(out)
    source = _open(trace)
    name = trace if trace in BUNDLED else Path(trace).name
    meaning = source.header.get("rate_meaning")
    rate = f", rate: {meaning.replace('_', ' ')}" if meaning else ""
    with writing("--output", out):
        plot(source, out, f"{name}, {source.duration_s:g} s{rate}")
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
        Path | None, typer.Option("--output", help="*.csv or *.parquet; without it, CSV is printed.")
    ] = None,
) -> None:
    """Draw a trace from fitted profiles, the same bytes on every machine for one seed."""
    profiles = [profile_named(name) for name in profile]
    outages = [_outage(text) for text in outage or []]
    try:
        trace = generate(profiles, seed, duration, loss=loss, outages=outages)
    except Refusal as refusal:  # it begins with what is wrong
        raise Refusal(f"--{refusal}") from None
    if out is None:
        print(to_csv(trace), end="")
    else:
        _write(trace, out)


def _outage(text: str) -> tuple[int, int]:
    start, colon, length = text.partition(":")
    if not (colon and start.isdecimal() and length.isdecimal()):
        raise Refusal(f"--outage {text!r}: must be START:SECONDS, such as 20:10")
    return int(start), int(length)
