"""`ivsim serve`: gateway, twins and twin service on servers that are there; ivsim.serving does the work."""

from __future__ import annotations

from collections.abc import Mapping

import typer

from gateways.protocols import PROTOCOLS
from gateways.protocols.base import Protocol
from ivsim.commands.gateway import command_of, taken
from ivsim.gateway_options import Asked
from ivsim.serve_options import SERVE, SERVE_PANELS

app = typer.Typer(
    no_args_is_help=True, help="Gateway, twins and their service on your broker and your Kafka."
)


@app.callback()
def group() -> None:
    """Gateway, twins and twin service on your broker and your Kafka, until Ctrl-C or SIGTERM."""


def _run(protocol: Protocol, asked: Asked, environment: Mapping[str, str]) -> int:
    from ivsim.serving import serve  # noqa: PLC0415 - a second that --help need not wait

    return serve(protocol, asked, environment)


for _one in PROTOCOLS.values():
    _made = command_of(_one, SERVE, SERVE_PANELS, _run, page=True)
    _made.__doc__ = (
        f"Take {taken(_one)} into Kafka, keep the vehicles' twins and serve them, until Ctrl-C or SIGTERM.\n\n"
        "Topics and state stay. Each option is also read from the environment: --kafka from IVSIM_GATEWAY_KAFKA."
    )
    app.command(_one.name)(_made)
