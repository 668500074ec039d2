"""`ivsim shell`: a shell on a vehicle's side of a link that is open; it changes nothing of the run."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Annotated, Final

import typer

from ivsim.testbed.live_runs import LiveRun, live_runs
from ivsim.topologies import TOPOLOGIES
from schemas.errors import Refusal
from schemas.topics import CLOUD_ADDRESS, MAX_VEHICLES, vehicle_address, vehicle_id
from simulator.links.addressing import VEHICLES_SIDE
from simulator.links.privileges import ensure_privileges

# What is sent from no vehicle's address is lost on the link: whoever can be told the address is.
RC: Final = """\
[ -f ~/.bashrc ] && . ~/.bashrc
PS1='vehicle {number} \\$ '
ping() {{ command ping -I "$VEHICLE_ADDRESS" "$@"; }}
curl() {{ command curl --interface "$VEHICLE_ADDRESS" "$@"; }}
"""


def command(
    vehicle: Annotated[
        str, typer.Argument(metavar="VEHICLE", help="Its number, 1 for the first, or its id.")
    ],
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND", help="Run this instead of a shell; its options behind `--`."),
    ] = None,
    *,
    run: Annotated[
        str | None, typer.Option("--run", help="The run or testbed, where several are open.")
    ] = None,
) -> None:
    """Open a shell where a vehicle of a run lives: what it sends crosses the vehicle's own replayed link.

    VEHICLE_ADDRESS, CLOUD_ADDRESS and VEHICLE_DEVICE are set. ping and curl send
    from the vehicle's address by themselves; others have to be told it, such as
    `nc -s $VEHICLE_ADDRESS`. `tcpdump -ni $VEHICLE_DEVICE host $VEHICLE_ADDRESS`
    shows the vehicle's packets. What you send counts in the run's wire bytes.
    """
    number = _number(vehicle)
    found = _chosen(run)
    if (most := found.vehicles()) is not None and number > most:
        raise Refusal(f"vehicle {number}: {found.name} has {most} vehicles")
    topology = TOPOLOGIES.get(found.topology() or "")
    if topology is not None and topology.edge:
        raise Refusal(
            f"vehicle {number}: {found.name} has no link of a vehicle's: its links are its gateways'"
        )
    ensure_privileges()
    environment = os.environ | {
        "VEHICLE": vehicle_id(number),
        "VEHICLE_ADDRESS": vehicle_address(number),
        "VEHICLE_DEVICE": VEHICLES_SIDE.device,
        "CLOUD_ADDRESS": CLOUD_ADDRESS,
    }
    inside = ["nsenter", f"--net=/run/netns/{found.vehicles_namespace}"]
    if words:
        if shutil.which(words[0]) is None:
            raise Refusal(f"{words[0]}: no such program")
        raise typer.Exit(subprocess.run([*inside, *words], env=environment, check=False).returncode)
    print(
        f"vehicle {number} of {found.name}: {vehicle_address(number)}; the cloud is {CLOUD_ADDRESS}; `exit` ends"
    )
    with tempfile.TemporaryDirectory(prefix="ivsim-shell-") as directory:
        rc = Path(directory) / "rc"
        rc.write_text(RC.format(number=number))
        shell = [*inside, "bash", "--rcfile", str(rc), "-i"]
        code = subprocess.run(shell, env=environment, check=False).returncode
    raise typer.Exit(code)


def _number(vehicle: str) -> int:
    digits = vehicle.removeprefix(vehicle_id(1)[:-6])
    number = int(digits) if digits.isascii() and digits.isdigit() else 0
    if not 1 <= number <= MAX_VEHICLES:
        raise Refusal(
            f"vehicle {vehicle!r}: expected a number of 1 to {MAX_VEHICLES:,}, or an id such as {vehicle_id(1)}"
        )
    return number


def _chosen(name: str | None) -> LiveRun:
    """Return the run that is meant, whose link is open; Refusal where that is none, or not one."""
    found = [run for run in live_runs() if run.vehicles_namespace is not None]
    names = ", ".join(run.name for run in found)
    if name is not None:
        for run in found:
            if run.name == name:
                return run
        raise Refusal(f"--run {name!r}: {f'open are {names}' if found else 'no run is open here'}")
    if not found:
        raise Refusal("no run is open here: `ivsim run` in another terminal, or `ivsim up`")
    if len(found) > 1:
        raise Refusal(f"several runs are open: --run with one of {names}")
    return found[0]
