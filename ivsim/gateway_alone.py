"""One gateway in the foreground, between a broker (or its own port) and a Kafka that are there, until it is stopped."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateways.config import GatewayConfig
from gateways.process import GatewayProcess
from gateways.protocols.base import Protocol, SharedKeys, Tls
from gateways.protocols.shared_keys import shared_keys
from gateways.protocols.tls import tls_context
from ivsim.gateway_options import PASSWORD, USERNAME, Asked
from ivsim.options import RunOptions
from ivsim.runs.endpoints import login_of
from ivsim.runs.preflight import check_producer
from ivsim.runs.target_credentials import target_credentials
from ivsim.target import Account, parse
from ivsim.testbed.credentials import GATEWAY
from ivsim.testbed.kafka_admin import make_missing, missing_topics, probe
from schemas.errors import Refusal
from schemas.outlet import ERR, OUT, log_to_stderr
from schemas.settings import as_mapping
from schemas.topics import KafkaTopics
from twin.new_topics import Copies

LOOPBACK = "127.0.0.1"


def run_gateway(protocol: Protocol, asked: Asked, environment: Mapping[str, str]) -> int:
    """Run a gateway until SIGTERM or Ctrl-C; return 0 after an orderly stop, 1 after a failure on the way.

    Refusal for what is wrong before anything was taken; nothing has been connected to before all files are read.
    """
    config = configured(protocol, asked, environment)
    check_producer(asked.run)
    _topics(asked)
    log_to_stderr("%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("gateways").setLevel(logging.INFO)
    told = Told(protocol, config)
    return asyncio.run(GatewayProcess(protocol.name, config, told.event, owned=False).run())


def configured(protocol: Protocol, asked: Asked, environment: Mapping[str, str]) -> GatewayConfig:
    """Return what the gateway is told, out of its options and the files that they name; connects to nothing."""
    run, own = asked
    assert run.kafka is not None
    towards = _server if protocol.broker is None else _client
    return GatewayConfig(
        bootstrap=run.kafka,
        kafka_login=login_of(run),
        kafka_producer=as_mapping(run.kafka_producer),
        mode=run.mode,
        format=run.format,
        topics_prefix=run.kafka_topic_prefix,
        address=own.address or "",
        name=own.name,
        early_ack=run.early_ack,
        metrics_port=run.metrics_port,
        **towards(protocol, asked, environment),
    )


def _client(protocol: Protocol, asked: Asked, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return what a gateway needs that connects to a broker."""
    run, own = asked
    assert run.target is not None
    target = parse(run.target)
    account = _account(run, environment)
    credentials = target_credentials(run, target, [GATEWAY])
    tls = credentials.tls(GATEWAY)
    if tls is not None:
        _check_tls(run, tls)
    if account is None and GATEWAY in credentials.passwords:
        account = Account(credentials.usernames[GATEWAY], credentials.passwords[GATEWAY])
    return {
        "host": target.host,
        "port": target.port,
        "tls": tls,
        "username": None if account is None else account.username,
        "password": None if account is None else account.password,
        "keepalive_s": run.keepalive_s,
        "virtual_host": own.virtual_host,
        "exchange": own.exchange if "exchange" in protocol.gateway_settings else "",
        "shared": own.group is not None,
        **({} if own.group is None else {"group": own.group}),
    }


def _server(protocol: Protocol, asked: Asked, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return what a gateway needs that is itself the server."""
    run, own = asked
    for variable in (USERNAME, PASSWORD):
        if variable in environment:
            raise Refusal(f"{variable}: {protocol.name} has no broker to log in at")
    # OSCORE protects messages and not the connection: it has no port of its own (RFC 8613).
    usual = {str(one.security): one.port for one in protocol.schemes.values()}.get(run.security)
    usual = usual or protocol.port
    host, _, port = (own.listen or f"{LOOPBACK}:{usual}").rpartition(":")
    keys = None
    if own.keys is not None:
        path = str(Path(own.keys).absolute())
        try:
            shared_keys(path)
        except Refusal as refusal:
            raise Refusal(f"--keys: {refusal}") from None
        keys = SharedKeys(path, "oscore" if run.security == "oscore" else "dtls-psk")
    return {
        "host": host.removeprefix("[").removesuffix("]"),
        "port": int(port),
        "keys": keys,
        "shared": own.reuse_port,
    }


def _account(run: RunOptions, environment: Mapping[str, str]) -> Account | None:
    """Return the account that the environment names; Refusal for half of one, and for one beside a file."""
    given = [variable for variable in (USERNAME, PASSWORD) if environment.get(variable)]
    if not given:
        return None
    if len(given) == 1:
        raise Refusal(f"{given[0]}: needs {PASSWORD if given[0] == USERNAME else USERNAME} beside it")
    if run.target_accounts is not None:
        raise Refusal(f"{given[0]}: not beside --target-accounts {run.target_accounts}, which says it, too")
    return Account(environment[USERNAME], environment[PASSWORD])


def _check_tls(run: RunOptions, tls: Tls) -> None:
    try:
        tls_context(tls)
    except Refusal as refusal:
        raise Refusal(f"--target {run.target}: {refusal}") from None


def _topics(asked: Asked) -> None:
    """Refuse a Kafka that does not answer, or that lacks a topic which nobody has asked to make."""
    run, own = asked
    assert run.kafka is not None
    login = login_of(run)
    probe(run.kafka, login=login)
    topics = KafkaTopics(run.kafka_topic_prefix)
    names = (topics.status, topics.dead_letter)
    missing = missing_topics(run.kafka, names, login)
    if not missing:
        return
    if not own.make_topics:
        raise Refusal(f"--kafka {run.kafka}: no topic {', '.join(missing)}: make it, or add --make-topics")
    copies = Copies(run.kafka_replication, run.kafka_min_insync)
    make_missing(run.kafka, missing, partitions=run.kafka_partitions, copies=copies, login=login)
    print(f"ivsim: made {', '.join(missing)}", file=sys.stderr)


class Told:
    """Says in words what happens to a gateway: on standard output where it stands, on standard error what went wrong.

    Whoever has stopped reading misses it, and the gateway goes on.
    """

    def __init__(self, protocol: Protocol, config: GatewayConfig) -> None:
        self._protocol, self._config = protocol, config

    def event(self, name: str, **said: Any) -> None:
        """Take one event of a gateway process."""
        words = {"ready": self._ready, "done": self._done}.get(name)
        if words is not None:
            OUT.write(words(said))
        elif name == "error":
            ERR.write(f"ivsim: {said['message']}\n")

    def _ready(self, said: Mapping[str, Any]) -> str:
        topic = KafkaTopics(self._config.topics_prefix).status
        here = "at" if self._protocol.broker is None else "of the broker at"
        host = f"[{said['host']}]" if ":" in said["host"] else said["host"]
        words = (
            f"{self._protocol.label} gateway {self._config.name} {here} {host}:{said['port']}:"
            f" into {topic} of Kafka {self._config.bootstrap} (Ctrl-C ends)\n"
        )
        if said["metrics_port"] is not None:
            words += f"metrics and health: http://{LOOPBACK}:{said['metrics_port']}/metrics, /health\n"
        return words

    def _done(self, said: Mapping[str, Any]) -> str:
        kept = said["delivered"] - said["dead_letters"]
        again = "" if said["drained"] else f"; {said['held']} not acknowledged, which come again"
        return (
            f"stopped: {said['received']} messages taken, {kept} in Kafka,"
            f" {said['dead_letters']} dead letters{again}\n"
        )
