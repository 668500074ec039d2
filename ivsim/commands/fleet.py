"""`ivsim fleet`: the messages of a fleet of any size as files, without a link, a broker or a clock."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ivsim.code_version import version_line
from ivsim.commands.files import writing
from ivsim.fleet_options import FLEET, OPTIONS, PANELS, FleetOptions, fleet_options
from ivsim.option_signature import option_parameters, taking
from schemas.errors import Refusal
from schemas.json_files import write_json
from simulator.fleet_files import write_fleet

NOTE = "fleet.json"


@taking(option_parameters(OPTIONS, PANELS, variables=None))
def command(
    *,
    output: Annotated[
        Path,
        typer.Option(
            help="Directory of the files; must not hold any yet.", metavar="PATH", rich_help_panel=FLEET
        ),
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print fleet.json alone on standard output.", rich_help_panel=FLEET)
    ] = False,
    **given: Any,
) -> None:
    """Write the messages of a fleet as Parquet files: what a run of the same seed would send, and nothing is sent.

    Rows have due_offset_ns, vehicle_id, epoch, sequence and payload. A file holds a thousand vehicles, and so does the
    memory. fleet.json is written last, with what was asked and how much there is: without it the files are a part.
    """
    options = fleet_options({name: value for name, value in given.items() if value is not None})
    with writing("--output", output):
        output.mkdir(parents=True, exist_ok=True)
        if any(output.iterdir()):
            raise Refusal(f"--output {output}: is not empty; name a new directory")
        note = _write(options, output)
    print(json.dumps(note, indent=2) if as_json else _words(note, output))


def _write(options: FleetOptions, output: Path) -> dict[str, Any]:
    """Write the files and the note on them; return the note."""
    vehicles = options.place.vehicles(options.vehicles)
    note: dict[str, Any] = {
        "version": version_line(),
        "options": options.model_dump(),
        "files": 0,
        "vehicles": 0,
        "messages": 0,
        "payload_bytes": 0,
    }
    for file in write_fleet(options.scenario, vehicles, options.start_at_ms * 1_000_000, output):
        note["files"] += 1
        note["vehicles"] += file.vehicles
        note["messages"] += file.messages
        note["payload_bytes"] += file.payload_bytes
    write_json(output / NOTE, note)
    return note


def _words(note: dict[str, Any], output: Path) -> str:
    return (
        f"{output}: {note['messages']:,} messages of {note['vehicles']:,} vehicles,"
        f" {note['payload_bytes']:,} bytes of payload, in {note['files']:,} files"
    )
