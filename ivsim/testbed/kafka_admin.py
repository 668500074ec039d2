"""What is asked of a Kafka by its administrators: whether it answers, and topics made, listed and deleted; starts none."""

from __future__ import annotations

import re
import socket
import ssl
import time
from collections.abc import Sequence
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from ivsim.testbed.kafka_versions import check_version
from schemas.errors import Refusal
from schemas.kafka_login import client_settings
from schemas.topics import KafkaTopics
from twin.listed_topics import await_listed
from twin.new_topics import ONE, Copies, new_topic

TOPIC_TIMEOUT_S: Final = 30.0
# A broker on a busy machine takes seconds; where nobody listens is known at once.
ANSWER_S: Final = 20.0
# How long is waited before it is asked whether TLS is spoken there; a Kafka that speaks none notes such a question in its log.
TLS_S: Final = 3.0
# How long an answer is waited for before librdkafka's errors are looked at for the first time.
FIRST_LOOK_S: Final = 1.0
# Who says this says it again.
_REFUSED: Final = (KafkaError._AUTHENTICATION, KafkaError._SSL)  # noqa: SLF001 - their public names
# By TLS 1.3 a broker that does not know the client's certificate says so behind the handshake (RFC 8446, 4.4.2.4).
_ALERT: Final = "SSL alert number"
# What stands around a reason: the address before it, and in which state of the client it came.
_CLIENTS_OWN: Final = re.compile(r"^\S+?://\S+?: | \(after [^)]*\)$")


def answers(bootstrap: str, timeout_s: float, login: str = "") -> bool:
    """Return whether a Kafka broker at `bootstrap` answers a metadata request in time."""
    return _silence(bootstrap, timeout_s, login) is None


def _silence(bootstrap: str, timeout_s: float, login: str) -> str | None:
    """Return None once a broker answers a metadata request; else why none does, as librdkafka says, "" where it says nothing.

    A client that is refused, for its password or for how it speaks, is told at once: librdkafka would go on trying.
    """
    heard: list[KafkaError] = []
    admin = _admin(bootstrap, login, error_cb=heard.append)
    deadline_s, look_s = time.monotonic() + timeout_s, FIRST_LOOK_S
    while (left_s := deadline_s - time.monotonic()) > 0:
        try:
            if admin.list_topics(timeout=min(look_s, left_s)).brokers:
                return None
        except KafkaException:
            look_s *= 2  # an answer that comes later is lost: one that is slow has more time each time
        admin.poll(0)
        if any(error.code() in _REFUSED or _ALERT in error.str() for error in heard):
            break
    reasons = [error.str() for error in heard if error.code() != KafkaError._ALL_BROKERS_DOWN]  # noqa: SLF001 - its public name
    return _CLIENTS_OWN.sub("", reasons[-1]) if reasons else ""


def _speaks_tls(address: tuple[str, int], timeout_s: float) -> bool:
    """Return whether who listens there answers a TLS handshake, whatever certificate it shows."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection(address, timeout_s) as connection:
            context.wrap_socket(connection).close()
    except OSError:
        return False
    return True


def probe(bootstrap: str, timeout_s: float = ANSWER_S, login: str = "") -> None:
    """Return when a Kafka broker of those named by the user answers, and is of a version that ivsim can use.

    Else Refusal, at once where nobody listens.

    Args:
        bootstrap: HOST:PORT, of several by commas.
        timeout_s: for its answer.
        login: path of the file by which clients log in; "" without.
    """
    refused = ""
    for address in addresses(bootstrap):
        try:
            socket.create_connection(address, timeout_s).close()
        except OSError as error:
            refused = str(error.strerror or error)
        else:
            break
    else:
        raise Refusal(f"--kafka {bootstrap}: no Kafka broker answered: {refused}")
    why = _silence(bootstrap, min(TLS_S, timeout_s), login)
    if why is not None and not login and _speaks_tls(address, timeout_s):
        raise Refusal(f"--kafka {bootstrap}: it speaks TLS: --kafka-login says how to log in")
    if why is not None and timeout_s > TLS_S:
        why = _silence(bootstrap, timeout_s - TLS_S, login)
    if why is not None:
        how = f" to --kafka-login {login}" if login else ""
        said = f": {why}" if why else f" within {timeout_s:g} s"
        raise Refusal(f"--kafka {bootstrap}: no Kafka broker answered{how}{said}")
    check_version(address, timeout_s, login)


def addresses(bootstrap: str) -> list[tuple[str, int]]:
    """Return host and port of each broker named; Refusal for what is none."""
    found = []
    for word in bootstrap.split(","):
        host, _, port = word.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
            raise Refusal(f"--kafka {bootstrap}: expected HOST:PORT, of several by commas")
        found.append((host.strip("[]"), int(port)))
    return found


def create_topics(
    bootstrap: str,
    topics: KafkaTopics,
    *,
    partitions: int = 2,
    copies: Copies = ONE,
    login: str = "",
    synced: bool = False,
) -> None:
    """Create the topics of a run, stamped by the broker; `twin.state` keeps the newest record per key.

    They are there for everyone when it returns. With `synced` a broker flushes each record to its disk.
    """
    wanted = [
        new_topic(name, partitions, compact=name == topics.state, copies=copies, synced=synced)
        for name in topics.all()
    ]
    _create(bootstrap, login, wanted)


def missing_topics(bootstrap: str, names: Sequence[str], login: str = "") -> list[str]:
    """Return those of the topics that Kafka does not have; Refusal when it does not answer."""
    try:
        known = _admin(bootstrap, login).list_topics(timeout=ANSWER_S).topics
    except KafkaException as error:
        raise Refusal(f"--kafka {bootstrap}: {error.args[0].str()}") from None
    return [name for name in names if name not in known]


def make_missing(
    bootstrap: str, names: Sequence[str], *, partitions: int, copies: Copies, login: str = ""
) -> None:
    """Create these topics, stamped by the broker; Refusal with Kafka's words when it would not."""
    _create(bootstrap, login, [new_topic(name, partitions, copies=copies) for name in names])


def check_topics(
    bootstrap: str, topics: KafkaTopics, *, partitions: int, copies: Copies, login: str = ""
) -> None:
    """Return when Kafka says that it would make such topics, and makes none; else Refusal with its words."""
    admin = _admin(bootstrap, login)
    wanted = [
        new_topic(name, partitions, compact=name == topics.state, copies=copies) for name in topics.all()
    ]
    asked = admin.create_topics(wanted, request_timeout=TOPIC_TIMEOUT_S, validate_only=True)
    for name, future in asked.items():
        try:
            future.result(2 * TOPIC_TIMEOUT_S)
        except KafkaException as error:
            raise Refusal(f"Kafka topic {name} on {bootstrap}: {error.args[0].str()}") from error


def topics_of(bootstrap: str, prefix: str, timeout_s: float = ANSWER_S, login: str = "") -> list[str]:
    """Return the names of the topics that begin with `prefix`. Raises KafkaException when nobody answers in time."""
    known = _admin(bootstrap, login).list_topics(timeout=timeout_s).topics
    return sorted(name for name in known if name.startswith(prefix))


def leader_of(bootstrap: str, topic: str, partition: int = 0, login: str = "") -> int:
    """Return the id of the node that leads a partition; Refusal when Kafka does not say."""
    try:
        found = _admin(bootstrap, login).list_topics(topic, timeout=ANSWER_S).topics[topic]
    except KafkaException as error:
        raise Refusal(f"Kafka {bootstrap}: {error.args[0].str()}") from error
    if partition not in found.partitions or found.partitions[partition].leader < 0:
        raise Refusal(f"Kafka {bootstrap}: nobody leads partition {partition} of {topic}")
    return int(found.partitions[partition].leader)


def delete_topics(bootstrap: str, prefix: str, login: str = "") -> dict[str, str]:
    """Delete every topic whose name begins with `prefix` from a broker that outlives the run.

    Returns those that stay, each with the reason; a broker that does not answer keeps them all. Kafka answers before
    they are gone.
    """
    admin = _admin(bootstrap, login)  # it must live until the last answer is in
    try:
        names = topics_of(bootstrap, prefix, ANSWER_S, login)
    except KafkaException as error:
        return {f"{prefix}*": error.args[0].str()}
    stay: dict[str, str] = {}
    futures = admin.delete_topics(names, request_timeout=TOPIC_TIMEOUT_S) if names else {}
    for name, future in futures.items():
        try:
            future.result(TOPIC_TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:  # gone already
                stay[name] = error.args[0].str()
        except TimeoutError:
            stay[name] = f"no answer within {TOPIC_TIMEOUT_S:g} s"
    return stay


def _create(bootstrap: str, login: str, topics: list[NewTopic]) -> None:
    admin = _admin(bootstrap, login)
    # A cluster that has just lost the broker whom it told clients to ask says for 9 s that it is there.
    asked = admin.create_topics(topics, operation_timeout=TOPIC_TIMEOUT_S, request_timeout=TOPIC_TIMEOUT_S)
    for name, future in asked.items():
        try:
            future.result(2 * TOPIC_TIMEOUT_S)
        except KafkaException as error:
            raise Refusal(f"Kafka topic {name} on {bootstrap}: {error.args[0].str()}") from error
    await_listed(admin, bootstrap, {topic.topic for topic in topics})


def _admin(bootstrap: str, login: str = "", **more: Any) -> AdminClient:
    # Loggers off: librdkafka writes "connection refused" to standard error while a broker starts.
    settings = {**client_settings(bootstrap, login), "log_level": 0, "socket.timeout.ms": 10_000}
    return AdminClient({**settings, **more})
