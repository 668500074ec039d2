"""What must be there before a run starts anything: every missing part is one clear line with its remedy."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from confluent_kafka import KafkaException, Producer

from gateways.producer import settings
from gateways.sinks import PLATFORM_SINKS, SINKS
from ivsim.agents.rig import ask_agents
from ivsim.options import RunOptions, history_directory, option_name, stored_places
from ivsim.runs.endpoints import login_of
from ivsim.runs.platforms import SERVER_OF
from ivsim.runs.shards import (
    SPARE_FILES,
    groups,
    open_files,
    sender_shares,
    shard_count,
    sockets_a_vehicle,
)
from ivsim.runs.stored_result import refuse_taken
from ivsim.runs.target_credentials import target_credentials
from ivsim.runs.target_trial import try_target
from ivsim.target import check_answers, check_consent, parse
from ivsim.testbed.java_client import client_jars, libjvm
from ivsim.testbed.kafka import java_command
from ivsim.testbed.kafka_admin import probe
from ivsim.testbed.paths import S3, how_to_get, installed_jars
from ivsim.testbed.servers import KAFKA, SERVERS
from ivsim.topologies import TOPOLOGIES
from schemas.errors import Refusal
from schemas.settings import as_mapping
from schemas.topics import vehicle_id
from simulator.links import tcp_stack
from twin import object_store
from twin.fold_jar import fold_jar
from twin.place import Place

SPARK_SCHEME = "spark://"
ANSWER_S = 5.0
# `--start-at` beyond is a slip of the date, or of the offset from UTC.
AHEAD_S = 3_600
# That the fold and Kafka's connector are made for.
SPARK_RELEASE = "4.3"
LOCAL_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
PROGRAMS = {"nsenter": "util-linux", "setpriv": "util-linux"}


def preflight(options: RunOptions) -> None:
    """Return when the components of this run are installed and answer; Refusal names the first that does not."""
    check_start(options)
    for program, package in PROGRAMS.items():
        if shutil.which(program) is None:
            raise Refusal(f"no {program} found: {how_to_get(package)}")
    for part in options.parts:
        if part.protocol.broker is not None and options.target is None:
            SERVERS[part.protocol.broker].find()
    if not tcp_stack.has(options.tcp):
        raise Refusal(f"{option_name('tcp')} {options.tcp}: this kernel has no such congestion control")
    check_open_files(options)
    check_local_ports(options)
    if options.target is not None:
        _target(options, options.target)
    check_agents(options)
    _ports(options)
    if options.spark_master is not None:
        check_spark_master(options.spark_master)
    if options.kafka_producer:
        check_producer(options)
    check_deliveries(options)
    check_store(options)
    refuse_taken(options)


def check_open_files(options: RunOptions) -> None:
    """Each vehicle has a socket in its sender, an echo's receiver another; each connection has one in the broker."""
    sockets, allowed = sockets_a_vehicle(options), open_files()
    most = 0
    for part in options.parts:
        own = max(len(vehicles) for _, vehicles in groups(options, part))
        shards = shard_count(options, own)
        # Of each kind of process: how many share the part's vehicles, and what lets more of them do it.
        sender = f"each of {shards} senders" if shards > 1 else "the sender"
        here = sum(len(share.vehicles) for share in sender_shares(options) if share.agent is None)
        kinds = {sender: (own, shards, option_name("shards"))} if here else {}
        if options.target is not None:
            kinds |= {"the relay": (here, 1, "")} if here else {}  # vehicles of agents need none
        elif options.entrance is not None and part.protocol.broker is not None:
            kinds |= {"the entrance": (own - here, 1, ""), part.protocol.broker: (own, 1, "")}
        elif part.protocol.broker is not None:
            kinds[part.protocol.broker] = (own, 1, _more_brokers(options))
        for process, (vehicles, sharing, remedy) in kinds.items():
            # Of TCP one to the vehicle and one to the target; of UDP all vehicles have one.
            twice = process in {"the relay", "the entrance"} and part.protocol.transport == "tcp"
            each = sockets * 2 if twice else sockets
            files = -(-vehicles // sharing) * each + SPARE_FILES
            most = max(most, files)
            if allowed and allowed < files:
                fitting = max(0, (allowed - SPARE_FILES) // each) * sharing * options.vehicles // vehicles
                raise Refusal(
                    f"{option_name('vehicles')} {options.vehicles}: {process} needs {files} open files, {allowed} are"
                    f" allowed, enough for {fitting} vehicles: raise `ulimit -Hn`"
                    + (f", or {remedy}" if remedy else "")
                )
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # what this run starts inherits it


def check_local_ports(options: RunOptions) -> None:
    """The relay to a target has one address: each vehicle's connection takes a port of it, if it is one of TCP.

    Vehicles themselves have an address each, and so each all ports.
    """
    if options.target is None:
        return
    connections = sum(
        len(share.vehicles)
        for share in sender_shares(options)
        if share.agent is None and share.part.protocol.transport == "tcp"
    )
    allowed = local_ports()
    if connections > allowed:
        fitting = allowed * options.vehicles // connections
        raise Refusal(
            f"{option_name('vehicles')} {options.vehicles}: the relay needs {connections} ports towards"
            f" {options.target}, this kernel has {allowed} for that, enough for {fitting} vehicles: widen"
            f" net.ipv4.ip_local_port_range, or {_more_machines(options)}"
        )


def _more_machines(options: RunOptions) -> str:
    """Return by which option more machines would send."""
    return f"more of {option_name('share')}" if options.share is not None else option_name("agents")


def local_ports() -> int:
    """Return how many ports the kernel chooses from for a connection (ip(7), ip_local_port_range)."""
    first, last = LOCAL_PORTS.read_text().split()
    return int(last) - int(first) + 1


def _more_brokers(options: RunOptions) -> str:
    """Return the option by which more brokers share the vehicles; "" where none does."""
    topology = TOPOLOGIES[options.topology]
    if not topology.bridged:
        return ""
    return option_name("gateways" if topology.edge else "brokers")


def _target(options: RunOptions, url: str) -> None:
    """Refuse a broker that does not answer, credentials that are not there, and a load that nobody has agreed to."""
    target = parse(url)
    load = f"{options.sending / options.interval_s:.3g} messages/s of {options.sending} vehicles"
    check_consent(target, options.target_consent, load)
    credentials = target_credentials(options, target)
    check_answers(target, credentials.tls(vehicle_id(options.parts[0].vehicles[0])))
    try_target(options, target, credentials)


def check_start(options: RunOptions) -> None:
    """Refuse a time that is over, or so far ahead that it is a slip."""
    if options.start_at_ns is None:
        return
    ahead_s = (options.start_at_ns - time.time_ns()) / 1e9
    if not 0 < ahead_s <= AHEAD_S:
        when = f"{-ahead_s:,.0f} s ago" if ahead_s <= 0 else f"{ahead_s:,.0f} s ahead"
        raise Refusal(
            f"{option_name('start_at')} {options.start_at}: is {when}; allowed are up to {AHEAD_S:,} s ahead"
        )


def check_agents(options: RunOptions) -> None:
    """Refuse agents that are not there, not ours, or that may open too few files for their vehicles."""
    if options.entrance is not None:
        _address_here(options.entrance)
    welcomes = ask_agents(options.agents, options.agent_token_file) if options.agents else []
    for share in sender_shares(options):
        if share.agent is None:
            continue
        files = len(share.vehicles) * sockets_a_vehicle(options) + SPARE_FILES
        allowed = welcomes[share.agent].open_files
        if allowed and allowed < files:
            raise Refusal(
                f"{option_name('agents')} {options.agents[share.agent]}: a sender needs {files} open files, {allowed} are"
                f" allowed there: raise `ulimit -Hn` there, or {option_name('shards')}"
            )


def _ports(options: RunOptions) -> None:
    if options.page:
        free_port(option_name("page_port"), options.page_port)
    if options.metrics_port is not None:
        free_port(option_name("metrics_port"), options.metrics_port)


def _address_here(host: str) -> None:
    """Refuse an entrance at an address that is not this machine's."""
    with socket.socket() as probe_socket:
        try:
            probe_socket.bind((host, 0))
        except OSError as error:
            raise Refusal(f"{option_name('entrance')} {host}: {error.strerror or error}") from None


def free_port(option: str, port: int) -> None:
    """Refuse a port that somebody listens on, before half a minute has gone into starting the rest."""
    with socket.socket() as probe_socket:
        # As the page's server does: a port that has just been closed is free.
        probe_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe_socket.bind(("127.0.0.1", port))
        except OSError as error:
            raise Refusal(f"{option} {port}: {error.strerror}; 0 takes a free one") from None


def check_spark() -> None:
    """Refuse a machine that lacks what Spark's session here needs, or has a PySpark of another release."""
    found = version("pyspark")
    if not found.startswith(f"{SPARK_RELEASE}."):
        raise Refusal(
            f"PySpark {found} is installed: ivsim works with Spark {SPARK_RELEASE}.x, and so must a cluster be"
        )
    java_command()
    installed_jars("spark")
    fold_jar()


def check_spark_master(master: str) -> None:
    """Refuse a standalone master none of whose addresses takes a connection; others are found by Spark itself."""
    if not master.startswith(SPARK_SCHEME):
        return
    addresses = master.removeprefix(SPARK_SCHEME).split(
        ","
    )  # more than one where masters stand by for each other
    problems = [problem for address in addresses if (problem := _no_answer(address)) is not None]
    if len(problems) == len(addresses):
        raise Refusal(f"--spark-master {master}: {problems[0]}")


def check_store(options: RunOptions, *, writing: bool = True) -> None:
    """Refuse an object store without its jars, that does not answer or takes no object, and a history that cannot be made."""
    if Place(options.spark_checkpoint or "").stored:
        installed_jars(S3)
        if "AWS_ACCESS_KEY_ID" not in os.environ and "AWS_PROFILE" in os.environ:
            raise Refusal(
                f"{option_name('spark_checkpoint')} {options.spark_checkpoint}: Spark reads no AWS_PROFILE: set AWS_ACCESS_KEY_ID"
                " and AWS_SECRET_ACCESS_KEY"
            )
    for place in stored_places(options):
        object_store.check(place, options.s3_endpoint or "", writing=writing)
    if writing and (directory := history_directory(options)) is not None:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=directory).close()
        except OSError as error:
            raise Refusal(f"{option_name('history')} {options.history}: {error.strerror}") from None


def _no_answer(address: str) -> str | None:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        return "expected spark://HOST:PORT"
    try:
        socket.create_connection((host, int(port)), timeout=ANSWER_S).close()
    except OSError as error:
        return f"no answer from {address}: {error.strerror or error}"
    return None


def check_deliveries(options: RunOptions) -> None:
    """Refuse twins without Spark, and a platform that is not there, or that gateways cannot write to."""
    topology = TOPOLOGIES[options.topology]
    if topology.twins:
        check_spark()
    if not topology.bridged:
        return
    if options.platform == KAFKA:
        check_client(options.kafka_client)
        _kafka(options)
        return
    SERVERS[SERVER_OF[options.platform]].find()
    if (lack := PLATFORM_SINKS[options.platform].lack()) is not None:
        raise Refusal(f"{option_name('platform')} {options.platform}: {lack}")


def _kafka(options: RunOptions) -> None:
    if options.kafka is None:
        SERVERS[KAFKA].find()
    else:
        login = login_of(options)
        SINKS[options.kafka_client].check_login(login)
        probe(options.kafka, login=login)


def check_client(name: str) -> None:
    """Refuse a client library of the gateways that is not installed, and one of Java without it or its jars."""
    kind = SINKS[name]
    if (lack := kind.lack()) is not None:
        raise Refusal(f"{option_name('kafka_client')} {name}: {lack}")
    if kind.java:
        try:
            libjvm()
            client_jars()
        except Refusal as refusal:
            raise Refusal(f"{option_name('kafka_client')} {name}: {refusal}") from None


def check_producer(options: RunOptions) -> None:
    """Refuse settings of the gateways' producers that librdkafka does not know, or values that it does not take."""
    try:
        # It looks for no broker until it is asked for something.
        Producer({**settings("127.0.0.1:1", 1, more=as_mapping(options.kafka_producer)), "log_level": 0})
    except KafkaException as error:
        raise Refusal(f"{option_name('kafka_producer')}: librdkafka: {error.args[0].str()}") from None
