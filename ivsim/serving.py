"""Gateway, twins and twin service on servers that are there, until they are stopped; topics and state stay."""

from __future__ import annotations

import fcntl
import secrets
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from gateways.config import GatewayConfig
from gateways.protocols.base import Protocol
from ivsim.gateway_alone import LOOPBACK, configured
from ivsim.gateway_options import Asked
from ivsim.options import RunOptions, history_directory, own_workers
from ivsim.runs.children import READY_S, Children, ChildSpec
from ivsim.runs.endpoints import login_of
from ivsim.runs.interrupt import Interrupted, interruptible
from ivsim.runs.outcome import EXIT_FAILED
from ivsim.runs.preflight import check_producer, check_spark, check_spark_master, check_store, free_port
from ivsim.runs.processes import session_config
from ivsim.runs.twin_session import READY_S as TWIN_READY_S
from ivsim.serve_options import ServeOptions
from ivsim.target import check_answers, parse
from ivsim.testbed.kafka_admin import missing_topics, probe
from ivsim.testbed.process import NotReady, ProcessDied
from ivsim.testbed.registry import RunRecord
from schemas.errors import Refusal
from schemas.formats import OWN_FORMATS
from schemas.topics import KafkaTopics
from twin.config import TwinConfig
from twin.kafka_topics import wanted
from twin.service.config import ServiceConfig
from twin.service.roads import read_roads

TITLE: Final = "ivsim serve"
# Within an hour, of a query that has died on a cluster: beyond them the cause is no passing one.
REOPENINGS: Final = 10
_LOOK_EVERY_S: Final = 0.5


def serve(protocol: Protocol, asked: Asked, environment: Mapping[str, str]) -> int:
    """Serve until SIGTERM or Ctrl-C; return 0 after an orderly stop, 1 when a part has died.

    Refusal for what is wrong before anything was started or made, but for the state's directory.
    """
    run, own = asked
    assert isinstance(own, ServeOptions)
    if own.state is None:
        raise Refusal("--state: which directory? The twins' state is kept there, and it has no default")
    if own_workers(run.spark_master) is not None:
        raise Refusal(
            f"--spark-master {run.spark_master}: is a run's own and ends with it; write local[N], spark://HOST:PORT, k8s://URL or"
            " yarn"
        )
    gateway = configured(protocol, asked, environment)
    check_producer(run)
    state = Path(own.state).absolute()
    twin, service = twin_config(run, state), service_config(run, own)
    _check_servers(protocol, asked, gateway, twin)
    configs = {"gateway": gateway, "twin": twin, "page": service}
    try:
        # The first signal ends it; further ones wait until everything is closed.
        with interruptible(), _taken(state, own.state), ExitStack() as stack:
            _watch(_started(stack, state, protocol, configs))
    except Interrupted:
        print("ivsim: stopped; topics and state stay", file=sys.stderr)
    except (ProcessDied, NotReady) as death:
        print(f"ivsim: {death}", file=sys.stderr)
        return EXIT_FAILED
    return 0


def twin_config(run: RunOptions, state: Path) -> TwinConfig:
    """Return what the twin process is told."""
    return TwinConfig(
        **session_config(run),
        run_dir=str(state),
        checkpoint_dir=run.spark_checkpoint or str(state / "checkpoint"),
        reopenings=REOPENINGS if run.spark_checkpoint is not None else 0,
        bootstrap=run.kafka or "",
        kafka_login=login_of(run),
        topics_prefix=run.kafka_topic_prefix,
        more_formats=() if run.format in OWN_FORMATS else (run.format,),
        trigger=run.trigger,
        history=str(history_directory(run) or run.history or ""),
        topic_partitions=run.kafka_partitions,
        topic_replication=run.kafka_replication,
        topic_min_insync=run.kafka_min_insync,
        future_tolerance_s=run.future_tolerance_s,
    )


def service_config(run: RunOptions, own: ServeOptions) -> ServiceConfig:
    """Return what the twin service is told; it listens on loopback alone."""
    return ServiceConfig(
        bootstrap=run.kafka or "",
        kafka_login=login_of(run),
        topics_prefix=run.kafka_topic_prefix,
        port=run.page_port,
        future_tolerance_s=run.future_tolerance_s,
        title=TITLE,
        roads_file=_roads_file(own.roads),
    )


def _roads_file(typed: str | None) -> str:
    if typed is None:
        return ""
    path = str(Path(typed).absolute())
    read_roads(path)  # a refusal comes before anything is started
    return path


def _check_servers(protocol: Protocol, asked: Asked, gateway: GatewayConfig, twin: TwinConfig) -> None:
    """Refuse what is not there, a port that is taken, and topics that nobody has asked to make."""
    run, own = asked
    assert run.kafka is not None
    free_port("--page-port", run.page_port)
    if run.metrics_port is not None:
        free_port("--metrics-port", run.metrics_port)
    check_spark()
    if run.spark_master is not None:
        check_spark_master(run.spark_master)
    if protocol.broker is not None and run.target is not None:
        check_answers(parse(run.target), gateway.tls)
    probe(run.kafka, login=twin.kafka_login)
    missing = missing_topics(run.kafka, [topic.topic for topic in wanted(twin)], twin.kafka_login)
    if missing and not own.make_topics:
        raise Refusal(f"--kafka {run.kafka}: no topic {', '.join(missing)}: make it, or add --make-topics")
    check_store(run)


@contextmanager
def _taken(state: Path, typed: str) -> Iterator[None]:
    """Have the state's directory to oneself; Refusal when it cannot be, or another one has it."""
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (state / "lock").open("a")
    except OSError as error:
        raise Refusal(f"--state {typed}: {error.strerror}") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Refusal(f"--state {typed}: another ivsim serve has it") from None
        yield


def _started(stack: ExitStack, state: Path, protocol: Protocol, configs: Mapping[str, Any]) -> Children:
    """Start the twins, which make their topics, then who fills and who reads these; return once all are ready."""
    identity = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-serve-{secrets.token_hex(3)}"
    record = stack.enter_context(RunRecord(identity, state))
    work = state / "work"
    work.mkdir(mode=0o700, exist_ok=True)
    # What the processes are told has the account at the broker in it, and goes with them.
    stack.callback(shutil.rmtree, work, ignore_errors=True)
    children = Children(record, work, stack)
    print("ivsim: starting the twins", file=sys.stderr)
    twin: TwinConfig = configs["twin"]
    made = children.start(ChildSpec("twin", ("twin",), twin)).wait_for("ready", TWIN_READY_S)["topics_made"]
    if made:
        print(f"ivsim: made {', '.join(made)}", file=sys.stderr)
    gateway = children.start(
        ChildSpec("gateway", ("gateways", protocol.name, "--config"), configs["gateway"])
    )
    page = children.start(ChildSpec("page", ("twin.service",), configs["page"]))
    where = gateway.wait_for("ready", READY_S)
    url = page.wait_for("ready", READY_S)["url"]
    print(
        f"{protocol.label} gateway at {where['host']}:{where['port']}, into"
        f" {KafkaTopics(twin.topics_prefix).status} of Kafka {twin.bootstrap}; twins at {url} (Ctrl-C ends)"
    )
    if where["metrics_port"] is not None:
        print(
            f"metrics and health of the gateway: http://{LOOPBACK}:{where['metrics_port']}/metrics, /health"
        )
    sys.stdout.flush()
    return children


def _watch(children: Children) -> None:
    """Return never; ProcessDied when a part ends, or a query of the twins does."""
    told = 0.0
    while True:
        time.sleep(_LOOK_EVERY_S)  # a process that ends tells nobody here; a signal ends the wait
        children.check()
        said = children["twin"].latest.get("reopened")
        if said is not None and said["at_s"] != told:
            told = said["at_s"]
            print(
                f"ivsim: Spark's query died and was opened again ({said['reopened']} of {said['of']} times in an hour):"
                f" {said['cause']}",
                file=sys.stderr,
            )
