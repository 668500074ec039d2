"""`ivsim gateway`: one gateway alone, in the foreground; ivsim.gateway_alone does the work."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from gateways.protocols import PROTOCOLS
from gateways.protocols.base import Protocol
from ivsim.deployment import read_profile
from ivsim.gateway_options import (
    ALONE,
    GATEWAY,
    PANELS,
    PASSWORD,
    USERNAME,
    VARIABLES,
    VEHICLES,
    Asked,
    Words,
    checked_gateway,
    known,
)
from ivsim.option_signature import check_variables, option_parameters, taking, word_parameters

app = typer.Typer(
    no_args_is_help=True, help="One gateway alone, from your broker or vehicles into your Kafka."
)

PROFILE = f"{VARIABLES}PROFILE"
ProfileFile = Annotated[
    Path | None,
    typer.Option(
        "--profile",
        help="A TOML file that says where Kafka and the broker are. What is typed or in the environment goes before it.",
        rich_help_panel=GATEWAY,
        envvar=PROFILE,
        show_envvar=False,
        metavar="PATH",
    ),
]


@app.callback()
def group() -> None:
    """One gateway alone, from your broker or vehicles into your Kafka, until Ctrl-C or SIGTERM."""


def command_of(
    protocol: Protocol,
    words_of: Words,
    panels: Sequence[str],
    run: Callable[[Protocol, Asked, Mapping[str, str]], int],
    **always: Any,
) -> Callable[..., None]:
    """Return the command of one protocol: its options from the signature and the environment, checked for `run`."""
    there = known(protocol, words_of)
    modes = word_parameters([protocol], VEHICLES, words=protocol.gateway_words, variables=VARIABLES)
    parameters = [*option_parameters(there, panels, variables=VARIABLES), *modes]

    @taking(parameters)
    def command(*, profile: ProfileFile = None, **given: Any) -> None:
        check_variables(parameters, os.environ, VARIABLES, (USERNAME, PASSWORD, PROFILE))
        said = {name: value for name, value in given.items() if value not in (None, [])}
        typed = {name: value for name, value in said.items() if name in there}
        words = {name: value for name, value in said.items() if name not in there}
        asked = checked_gateway(protocol, typed, words, read_profile(profile), words_of, **always)
        raise typer.Exit(run(protocol, asked, os.environ))

    return command


def taken(protocol: Protocol) -> str:
    """Return what a gateway of the protocol takes, for its help."""
    where = (
        "requests on a port of its own" if protocol.broker is None else "messages from a broker that is there"
    )
    return f"{protocol.label} {where}"


def _run(protocol: Protocol, asked: Asked, environment: Mapping[str, str]) -> int:
    from ivsim.gateway_alone import run_gateway  # noqa: PLC0415 - a second that --help need not wait

    return run_gateway(protocol, asked, environment)


for _one in PROTOCOLS.values():
    _made = command_of(_one, ALONE, PANELS, _run)
    _made.__doc__ = (
        f"Take {taken(_one)} into Kafka, until Ctrl-C or SIGTERM.\n\n"
        "Each option is also read from the environment: --kafka from IVSIM_GATEWAY_KAFKA."
    )
    app.command(_one.name)(_made)
