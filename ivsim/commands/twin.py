"""`ivsim twin`: serve the fleet's twins, get one, watch all; twin.service does the work."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from schemas.config import checked
from schemas.errors import Refusal
from schemas.outlet import log_to_stderr
from schemas.topics import MAX_VEHICLES, vehicle_id

if TYPE_CHECKING:
    from twin.service.config import ServiceConfig

EXIT_UNKNOWN = 1
PORT = 8080
URL = f"http://127.0.0.1:{PORT}"
SORTS = ("id", "age", "speed", "gaps")

# Fields of the service's configuration, and the options that they come from.
_TYPED = {
    "bootstrap": "--kafka",
    "kafka_login": "--kafka-login",
    "topics_prefix": "--prefix",
    "host": "--host",
    "port": "--port",
    "token_file": "--token-file",
    "stale_after_s": "--stale-after",
    "title": "--title",
    "roads_file": "--roads",
}

app = typer.Typer(no_args_is_help=True, help="The vehicles' twins: serve them, get one, watch all.")

_Kafka = Annotated[
    str | None, typer.Option("--kafka", help="HOST:PORT: read Kafka itself, without a service.")
]
_Login = Annotated[
    Path | None,
    typer.Option("--kafka-login", help="File by which one logs in at that Kafka; without, in the clear."),
]
_Prefix = Annotated[str, typer.Option("--prefix", help="Prefix of the run's topics, with --kafka.")]
_Url = Annotated[str, typer.Option("--url", help="Where `ivsim twin serve` listens.")]
_Token = Annotated[
    Path | None, typer.Option("--token-file", help="File with the token; else the variable IVSIM_TWIN_TOKEN.")
]


@app.command()
def serve(
    kafka: Annotated[str, typer.Option("--kafka", help="HOST:PORT of the Kafka that has the twins.")],
    kafka_login: _Login = None,
    prefix: Annotated[str, typer.Option("--prefix", help="Prefix of the run's topics.")] = "",
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="Port to listen on; 0: any free one.")] = PORT,
    token_file: _Token = None,
    stale_after: Annotated[
        float, typer.Option("--stale-after", help="Seconds until a twin is stale.")
    ] = 10.0,
    title: Annotated[str, typer.Option("--title", help="What the page says it shows.")] = "",
    roads: Annotated[
        Path | None, typer.Option("--roads", help="GeoJSON whose lines are drawn under the vehicles.")
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Start before the run's topics are there, and wait for them.")
    ] = False,
) -> None:
    """Serve the twins over HTTP with a page at /, until Ctrl-C; a token is needed off loopback."""
    from ivsim.testbed.kafka_admin import probe  # noqa: PLC0415 - as below: --help need not wait

    login = _login(kafka_login)
    config = _config(
        bootstrap=kafka,
        kafka_login=login,
        topics_prefix=prefix,
        host=host,
        port=port,
        token_file=str(token_file or ""),
        stale_after_s=stale_after,
        title=title,
        roads_file=str(roads or ""),
        wait_for_topics=wait,
    )
    probe(kafka, login=login)
    log_to_stderr("%(message)s")
    asyncio.run(_serve(config))


async def _serve(config: ServiceConfig) -> None:
    from schemas.loop_commands import stop_on_signal  # noqa: PLC0415
    from twin.service.server import ReaderDiedError, TwinService  # noqa: PLC0415

    stop = asyncio.Event()
    stop_on_signal(stop)
    async with TwinService(config) as service:
        print(f"twins of {config.bootstrap} at {service.url} (Ctrl-C ends)", flush=True)
        try:
            await service.until(stop)
        except ReaderDiedError as error:
            print(f"ivsim: {error}", file=sys.stderr)
            raise typer.Exit(1) from error


@app.command()
def get(
    vehicle: Annotated[str, typer.Argument(metavar="VEHICLE", help="A vehicle id, or its number.")],
    fields: Annotated[
        str | None, typer.Option(help="Only these, such as attributes,features(position,freshness).")
    ] = None,
    kafka: _Kafka = None,
    kafka_login: _Login = None,
    prefix: _Prefix = "",
    url: _Url = URL,
    token_file: _Token = None,
) -> None:
    """Print one twin as JSON; exit code 1 when there is no such vehicle."""
    from twin.service.client import open_source  # noqa: PLC0415

    name = _vehicle(vehicle)
    with open_source(_source(kafka, kafka_login, prefix, token_file), url, _token(token_file)) as source:
        thing = source.thing(name, fields)
    if thing is None:
        print(f"ivsim: no twin of vehicle {name}", file=sys.stderr)
        raise typer.Exit(EXIT_UNKNOWN)
    print(json.dumps(thing, indent=2, ensure_ascii=False))


@app.command()
def watch(
    kafka: _Kafka = None,
    kafka_login: _Login = None,
    prefix: _Prefix = "",
    url: _Url = URL,
    token_file: _Token = None,
    sort: Annotated[str, typer.Option(help=f"One of: {', '.join(SORTS)}.")] = "id",
    rows: Annotated[int, typer.Option(help="Vehicles in the table, 1 to 200.")] = 20,
    once: Annotated[bool, typer.Option("--once", help="Print the table one time and end.")] = False,
) -> None:
    """Show the fleet as a table that is renewed every second, until Ctrl-C."""
    from ivsim.commands.twin_table import show  # noqa: PLC0415
    from twin.service.client import open_source  # noqa: PLC0415

    if sort not in SORTS:
        raise Refusal(f"--sort {sort}: allowed are {', '.join(SORTS)}")
    if not 1 <= rows <= 200:
        raise Refusal(f"--rows {rows}: allowed are 1 to 200")
    with open_source(_source(kafka, kafka_login, prefix, token_file), url, _token(token_file)) as source:
        show(source, sort, rows, once=once)


def _vehicle(word: str) -> str:
    if not word.isdecimal():
        return word
    if not 1 <= int(word) <= MAX_VEHICLES:
        raise Refusal(f"VEHICLE {word}: allowed are 1 to {MAX_VEHICLES}, or a vehicle id")
    return vehicle_id(int(word))


def _config(**words: Any) -> ServiceConfig:
    from twin.service.config import ServiceConfig  # noqa: PLC0415

    return checked(words, ServiceConfig, "ivsim twin", _TYPED)


def _login(file: Path | None) -> str:
    if file is None:
        return ""
    from ivsim.runs.endpoints import checked_login  # noqa: PLC0415

    return checked_login(file)


def _source(
    kafka: str | None, kafka_login: Path | None, prefix: str, token_file: Path | None
) -> ServiceConfig | None:
    from ivsim.testbed.kafka_admin import probe  # noqa: PLC0415

    if kafka is None:
        for option, value in (("--prefix", prefix), ("--kafka-login", kafka_login)):
            if value:
                raise Refusal(f"{option}: needs --kafka HOST:PORT")
        return None
    if token_file is not None:
        raise Refusal("--token-file: not with --kafka, which asks no service")
    login = _login(kafka_login)
    probe(kafka, login=login)
    return _config(bootstrap=kafka, kafka_login=login, topics_prefix=prefix, history_bytes=0)


def _token(token_file: Path | None) -> str:
    from twin.service.config import read_token  # noqa: PLC0415

    return read_token(str(token_file or ""))
