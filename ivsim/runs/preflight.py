"""What must be there before a run starts anything: every missing part is one clear line with its remedy."""

from __future__ import annotations

import resource
import shutil
import socket

from ivsim.options import RunOptions, option_name
from ivsim.runs.endpoints import login_of
from ivsim.runs.shards import SPARE_FILES, open_files, shard_count, sockets_a_vehicle
from ivsim.runs.target_credentials import target_credentials
from ivsim.target import check_answers, check_consent, parse
from ivsim.testbed.kafka import java_command
from ivsim.testbed.kafka_admin import probe
from ivsim.testbed.paths import installed_jars
from ivsim.testbed.servers import KAFKA, SERVERS
from ivsim.topologies import TOPOLOGIES
from schemas.errors import Refusal
from schemas.topics import vehicle_id
from twin.fold_jar import fold_jar

SPARK_SCHEME = "spark://"
ANSWER_S = 5.0
PROGRAMS = {"nsenter": "util-linux", "setpriv": "util-linux"}


def preflight(options: RunOptions) -> None:
    """Return when the components of this run are installed and answer; Refusal names the first that does not."""
    for program, package in PROGRAMS.items():
        if shutil.which(program) is None:
            raise Refusal(f"no {program} found: run `make setup`, or install the package {package}")
    for part in options.parts:
        if part.protocol.broker is not None and options.target is None:
            SERVERS[part.protocol.broker].find()
    _descriptors(options)
    if options.target is not None:
        _target(options, options.target)
    if options.page:
        _free_port("--page-port", options.page_port)
    if options.metrics_port is not None:
        _free_port("--metrics-port", options.metrics_port)
    if options.spark_master is not None:
        _spark_master(options.spark_master)
    java_command()
    installed_jars("spark")
    fold_jar()
    if TOPOLOGIES[options.topology].bridged:
        _kafka(options)


def _descriptors(options: RunOptions) -> None:
    """Each vehicle has a socket in its sender, an echo's receiver another; each connection has one in the broker."""
    sockets, allowed = sockets_a_vehicle(options), open_files()
    most = 0
    for part in options.parts:
        own = len(part.vehicles)
        shards = shard_count(options, own)
        # Of each kind of process: how many share the part's vehicles, and what lets more of them do it.
        kinds = {f"each of {shards} senders" if shards > 1 else "the sender": (shards, option_name("shards"))}
        relayed = options.target is not None
        if relayed:
            kinds["the relay"] = (1, "")
        elif part.protocol.broker is not None:
            kinds[part.protocol.broker] = (1, "")
        for process, (sharing, remedy) in kinds.items():
            # Of TCP one to the vehicle and one to the target; of UDP all vehicles have one.
            each = sockets * 2 if process == "the relay" and part.protocol.transport == "tcp" else sockets
            files = -(-own // sharing) * each + SPARE_FILES
            most = max(most, files)
            if allowed and allowed < files:
                fitting = max(0, (allowed - SPARE_FILES) // each) * sharing * options.vehicles // own
                raise Refusal(
                    f"{option_name('vehicles')} {options.vehicles}: {process} needs {files} open files, {allowed} are"
                    f" allowed, enough for {fitting} vehicles: raise `ulimit -Hn`"
                    + (f", or {remedy}" if remedy else "")
                )
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # what this run starts inherits it


def _target(options: RunOptions, url: str) -> None:
    """Refuse a broker that does not answer, credentials that are not there, and a load that nobody has agreed to."""
    target = parse(url)
    load = f"{options.vehicles / options.interval_s:.3g} messages/s of {options.vehicles} vehicles"
    check_consent(target, options.target_consent, load)
    credentials = target_credentials(options, target)
    check_answers(target, credentials.tls(vehicle_id(1)))


def _free_port(option: str, port: int) -> None:
    """Refuse a port that somebody listens on, before half a minute has gone into starting the rest."""
    with socket.socket() as probe_socket:
        # As the page's server does: a port that has just been closed is free.
        probe_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe_socket.bind(("127.0.0.1", port))
        except OSError as error:
            raise Refusal(f"{option} {port}: {error.strerror}; 0 takes a free one") from None


def _spark_master(master: str) -> None:
    """Refuse a standalone master none of whose addresses takes a connection; others are found by Spark itself."""
    if not master.startswith(SPARK_SCHEME):
        return
    addresses = master.removeprefix(SPARK_SCHEME).split(
        ","
    )  # more than one where masters stand by for each other
    problems = [problem for address in addresses if (problem := _no_answer(address)) is not None]
    if len(problems) == len(addresses):
        raise Refusal(f"--spark-master {master}: {problems[0]}")


def _no_answer(address: str) -> str | None:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65_536:
        return "expected spark://HOST:PORT"
    try:
        socket.create_connection((host, int(port)), timeout=ANSWER_S).close()
    except OSError as error:
        return f"no answer from {address}: {error.strerror or error}"
    return None


def _kafka(options: RunOptions) -> None:
    if options.kafka is None:
        SERVERS[KAFKA].find()
    else:
        probe(options.kafka, login=login_of(options))
