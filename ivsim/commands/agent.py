"""`ivsim agent`: a part of a load test's vehicles on this machine, for a coordinator on another."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ivsim.agents.address import Address

LISTEN = "127.0.0.1:7070"


def command(
    listen: Annotated[
        str,
        typer.Option(help="HOST:PORT to listen at; port 0: any free one.", metavar="HOST:PORT"),
    ] = LISTEN,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the token that a coordinator has to know; else the variable IVSIM_AGENT_TOKEN."
        ),
    ] = None,
) -> None:
    """Run senders for `ivsim load --agent` on another machine, one load test after another, until Ctrl-C or SIGTERM.

    What it started for a coordinator is stopped when that goes, or has not been heard of for 10 s.
    """
    from ivsim.agents.address import address_of  # noqa: PLC0415 - --help need not wait for them
    from ivsim.agents.login import TOKEN_VARIABLE  # noqa: PLC0415
    from schemas.errors import Refusal  # noqa: PLC0415
    from schemas.tokens import read_token  # noqa: PLC0415

    try:
        address = address_of(listen, least_port=0)
    except ValueError as error:
        raise Refusal(f"--listen {error}") from None
    token = read_token("" if token_file is None else str(token_file), TOKEN_VARIABLE)
    if not token:
        raise Refusal(
            f"an agent needs a token: --token-file FILE, or {TOKEN_VARIABLE}; anybody could load a broker with it else"
        )
    asyncio.run(_serve(address, token))


async def _serve(address: Address, token: str) -> None:
    from ivsim.agents.service import Agent  # noqa: PLC0415
    from ivsim.code_version import version_line  # noqa: PLC0415
    from schemas.control import heeded  # noqa: PLC0415

    stop = asyncio.Event()
    for number in (signal.SIGTERM, *heeded(signal.SIGINT, signal.SIGHUP)):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with Agent(address, token, version_line()) as agent:
        print(f"agent at {agent.address} (Ctrl-C ends)", flush=True)
        await stop.wait()
