"""Whether what a profile names is there: each connection tried, nothing made and nothing changed anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from gateways.protocols import PROTOCOLS
from ivsim.deployment import read_profile
from ivsim.option_rules import checked_options
from ivsim.options import RunOptions, option_name, stored_places
from ivsim.runs.endpoints import login_of
from ivsim.runs.preflight import SPARK_SCHEME, check_producer, check_spark, check_spark_master, check_store
from ivsim.runs.target_credentials import target_credentials
from ivsim.target import SCHEMES, check_answers, parse
from ivsim.testbed.kafka_admin import check_topics, probe
from schemas.errors import Refusal
from schemas.topics import KafkaTopics, vehicle_id
from twin.new_topics import Copies


def options_of(path: Path) -> RunOptions:
    """Return the options of a run by a profile alone, with the protocol that its target speaks; Refusal names the key."""
    profile = read_profile(path)
    fields = dict(profile.fields)
    protocol = SCHEMES.get(str(fields.get("target", "")).partition(":")[0], (None,))[0]
    if protocol is not None:
        row = PROTOCOLS[protocol]
        fields |= {"protocol": protocol, "mode": row.default_mode}
        if row.broker is None:
            fields["topology"] = "peer"
    return checked_options(fields, lambda field: profile.names.get(field, option_name(field)))


class Found(NamedTuple):
    """One thing that was tried.

    Attributes:
        part: what it is.
        there: what was found, or None.
        missing: why a run could not use it, or None.
    """

    part: str
    there: str | None
    missing: str | None


def checks(options: RunOptions) -> Iterator[Found]:
    """Yield what became of each part that the options name; each is tried whatever became of the others."""
    if options.kafka is not None:
        answered = _tried("Kafka", lambda: _kafka(options))
        yield answered
        if answered.missing is None:
            yield _tried("Kafka topics", lambda: _topics(options))
    if options.kafka_producer:
        yield _tried("Kafka producer", lambda: _producer(options))
    if options.spark_master is not None:
        yield _tried("Spark", lambda: _spark(options.spark_master or ""))
    if stored_places(options):
        yield _tried("object store", lambda: _store(options))
    if options.target is not None:
        yield _tried("target", lambda: _target(options, options.target or ""))


def _tried(part: str, attempt: Callable[[], str]) -> Found:
    try:
        return Found(part, attempt(), None)
    except Refusal as refusal:
        return Found(part, None, str(refusal))


def _kafka(options: RunOptions) -> str:
    assert options.kafka is not None
    login = login_of(options)
    probe(options.kafka, login=login)
    return f"{options.kafka} answers{', logged in' if login else ', in the clear'}"


def _topics(options: RunOptions) -> str:
    assert options.kafka is not None
    topics = KafkaTopics(f"{options.kafka_topic_prefix}check.")
    copies = Copies(options.kafka_replication, options.kafka_min_insync)
    check_topics(
        options.kafka, topics, partitions=options.kafka_partitions, copies=copies, login=login_of(options)
    )
    return (
        f"topics {options.kafka_topic_prefix}* may be made: {options.kafka_partitions} partitions,"
        f" replication {options.kafka_replication}, min.insync.replicas {options.kafka_min_insync}"
    )


def _producer(options: RunOptions) -> str:
    check_producer(options)
    return f"librdkafka takes {', '.join(options.kafka_producer)}"


def _spark(master: str) -> str:
    check_spark()
    if not master.startswith(SPARK_SCHEME):
        return f"{master}: not tried, Spark itself finds it"
    check_spark_master(master)
    return f"{master} takes connections"


def _store(options: RunOptions) -> str:
    check_store(options, writing=False)
    return f"{', '.join(stored_places(options))} may be listed"


def _target(options: RunOptions, url: str) -> str:
    target = parse(url)
    credentials = target_credentials(options, target)
    check_answers(target, credentials.tls(vehicle_id(1)))
    return f"{target} answers"
