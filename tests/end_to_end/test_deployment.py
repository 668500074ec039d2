"""A deployment as docs/deploy.md builds it, and what its parts' ends cost under load.

Three brokers of Kafka that want a login, two Spark workers that have nothing of ours, state and history in an object store, and
four generators in networks of their own. The broker that leads, an executor and the driver are killed one after the other.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from fleet_shares import SHARES, await_shares, sending, soon, wire_to
from fleet_shares import networks as share_networks

from ivsim.audit import audit
from ivsim.library.join import join
from ivsim.testbed.kafka import KafkaServer
from ivsim.testbed.kafka_admin import leader_of
from ivsim.testbed.kafka_cluster import bootstrap_of, kafka_cluster
from ivsim.testbed.mosquitto import MosquittoServer
from ivsim.testbed.process import OwnedProcess
from ivsim.testbed.registry import RunRecord
from ivsim.testbed.spark_cluster import SparkCluster
from schemas.kafka_login import client_settings, read_login
from tests import oracle
from tests.spark_executors import executors_of
from tests.store_server import BUCKET, KEYS, StoreServer, store_with_keys
from twin.object_store import reached
from twin.place import Place

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.broker,
    pytest.mark.netns,
    pytest.mark.full,
]

T = TypeVar("T")
LOAD_S, RATE = 120, 40
FLEET = ("--stage", f"{LOAD_S}s:{RATE // 2}", "--rate", "2", "--seed", "5", "--loss-timeout", "60")
# States between one kill and the next: some ten seconds of them.
BETWEEN_ENDS = 400


def until(there: Callable[[], T | None], limit_s: float, why: Callable[[], object] = lambda: "") -> T:
    """Return what is there once it is; AssertionError with the reason when the time is over.

    Nobody tells a test of a record, an object or a line of a log: it looks, and waits a moment.
    """
    end_s = time.monotonic() + limit_s
    while (found := there()) is None:
        assert time.monotonic() < end_s, why()
        time.sleep(0.2)  # see above
    return found


class Served:
    """A command that serves until it is stopped, as a supervisor has it: who starts it again has the same words.

    Args:
        words: of `ivsim`.
        log: its standard error goes there.
        ready: what it prints once it is ready.
    """

    def __init__(self, words: list[str], log: Path, ready: str) -> None:
        self._log, self._ready = log, ready
        with log.open("w") as errors:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", "ivsim.cli", *words],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True,
                env={**os.environ, "IVSIM_STATE_DIR": str(log.with_suffix(".notes"))},
            )  # fmt: skip

    def await_ready(self) -> None:
        assert self.popen.stdout is not None
        # A part that does not come about in time ends the command, and with it this line.
        line = self.popen.stdout.readline()
        assert self._ready in line, line + self.told()

    def told(self) -> str:
        return self._log.read_text()

    def process(self, word: str) -> psutil.Process:
        """Return the part of it whose command has a word."""
        children = psutil.Process(self.popen.pid).children(recursive=True)
        (found,) = [one for one in children if "python" in one.name() and word in one.cmdline()]
        return found

    def close(self) -> int:
        """Stop it in order, where it lives; return its exit code; idempotent."""
        self.popen.terminate()
        try:
            return self.popen.wait(90)
        finally:
            self.popen.kill()
            self.popen.wait(10)
            assert self.popen.stdout is not None
            self.popen.stdout.close()


class Topic:
    """How far a topic has come."""

    def __init__(self, bootstrap: str, name: str, login: str) -> None:
        self._consumer = Consumer(client_settings(bootstrap, login) | {"group.id": "test", "log_level": 0})
        found = self._consumer.list_topics(name, 30).topics[name].partitions
        self._partitions = [TopicPartition(name, number) for number in found]

    def records(self) -> int:
        """Return how many it has had; where the broker that was asked has just ended, the next one is asked."""
        told: list[KafkaException] = []

        def asked() -> int | None:
            try:
                return sum(self._consumer.get_watermark_offsets(one, 10)[1] for one in self._partitions)
            except KafkaException as error:
                told.append(error)
                return None

        return until(asked, 60, lambda: told[-1])

    def await_records(self, least: int, of: Served) -> None:
        def enough() -> int | None:
            assert of.popen.poll() is None, of.told()
            return found if (found := self.records()) >= least else None

        until(enough, 120, of.told)

    def close(self) -> None:
        self._consumer.close()


@contextmanager
def topic(bootstrap: str, name: str, login: str) -> Iterator[Topic]:
    made = Topic(bootstrap, name, login)
    try:
        yield made
    finally:
        made.close()


class Deployment:
    """The servers, and what runs on them.

    Attributes:
        brokers: of Kafka; `bootstrap` and `login` lead to them.
        killed_ns: part -> when it was killed.
    """

    def __init__(
        self, brokers: list[KafkaServer], cluster: SparkCluster, store: StoreServer, broker: str, base: Path
    ) -> None:
        self.brokers, self.cluster, self.store, self.base = brokers, cluster, store, base
        self.bootstrap, self.login = bootstrap_of(brokers), brokers[0].login
        self.state = base / "state"
        profile = base / "prod.toml"
        profile.write_text(
            f'[kafka]\nbootstrap = "{self.bootstrap}"\nlogin = "{self.login}"\ntopic_prefix = "fleet."\n'
            f"partitions = 2\nreplication = 3\nmin_insync = 2\n"
            f'[spark]\nmaster = "{cluster.url}"\ncheckpoint = "s3a://{BUCKET}/twins"\n[spark.conf]\n'
            + "".join(f'"{key}" = "{value}"\n' for key, value in cluster.conf.items())
            + f'[store]\nendpoint = "{store.endpoint}"\nhistory = "s3a://{BUCKET}/fleet"\n'
            f'[target]\nurl = "mqtt://{broker}"\nconsent = "{broker.partition(":")[0]}"\n'
        )
        self._of_all = ["mqtt", "--profile", str(profile), "--make-topics", "--group", "fleet"]
        self.started: list[Served] = []
        self.killed_ns: dict[str, int] = {}

    def serve(self) -> Served:
        """Start the twins with a gateway, for the first time or again."""
        words = ["--name", "first", "--state", str(self.state), "--page-port", "0"]
        return self._start(["serve", *self._of_all, *words], "twins at http://")

    def gateway(self) -> Served:
        return self._start(["gateway", *self._of_all, "--name", "second"], "MQTT gateway second")

    def _start(self, words: list[str], ready: str) -> Served:
        self.started.append(Served(words, self.base / f"served-{len(self.started)}.log", ready))
        self.started[-1].await_ready()
        return self.started[-1]

    def kill(self, part: str, *processes: psutil.Process | OwnedProcess) -> None:
        self.killed_ns[part] = time.time_ns()
        for process in processes:
            process.kill()

    def kill_one_after_the_other(self, serving: Served, states: Topic, until_s: float) -> None:
        """Kill broker, executor and driver; of the first two, wait until messages come into the twins again.

        `until_s` is when the load ends.
        """
        states.await_records(BETWEEN_ENDS, serving)
        number = leader_of(self.bootstrap, "fleet.vehicle.status", login=self.login)
        leader = self.brokers[number - 1]
        self.kill("the broker that leads", leader.process)
        states.await_records(states.records() + BETWEEN_ENDS, serving)
        leader.relaunch()
        leader.await_answer()

        self.kill("an executor", psutil.Process(executors_of(self.cluster.workers[0].process.pid)[0]))
        until(lambda: "was opened again (" in serving.told() or None, 60, serving.told)
        states.await_records(states.records() + BETWEEN_ENDS, serving)

        twin = serving.process("twin")
        (java,) = [one for one in twin.children() if one.name() == "java"]
        self.kill("the driver", java, twin)
        assert time.time() < until_s - 10, "the load was over too soon"
        assert serving.popen.wait(90) == 1, serving.told()

    def pauses_s(self) -> dict[str, float]:
        """Return the longest time without an update of any twin that began within 10 s of each kill, or held it."""
        states = oracle.read_topic(self.bootstrap, "fleet.twin.state", self.login)
        gaps = list(pairwise(sorted(record["timestamp_ns"] for record in states)))
        return {
            part: max((later - earlier) / 1e9 for earlier, later in gaps if earlier - 10e9 <= at_ns <= later)
            for part, at_ns in self.killed_ns.items()
        }

    def close(self) -> list[int]:
        """Stop what runs, the last first; return the exit codes in the order of the starts."""
        return [one.close() for one in reversed(self.started)][::-1]


@pytest.fixture
def networks(run_record: RunRecord) -> Iterator[tuple[str, list[str]]]:
    with share_networks(run_record) as made:
        yield made


@pytest.fixture
def mosquitto(networks: tuple[str, list[str]], run_record: RunRecord) -> Iterator[MosquittoServer]:
    with MosquittoServer(run_record, host="0.0.0.0", namespace=networks[0], name="theirs") as server:
        yield server


@pytest.fixture
def deployment(
    networks: tuple[str, list[str]], mosquitto: MosquittoServer, run_record: RunRecord, tmp_path: Path
) -> Iterator[Deployment]:
    with (
        wire_to(networks[0], run_record) as address,
        kafka_cluster(run_record, 3, security="sasl-ssl") as brokers,
        store_with_keys(tmp_path / "store") as store,
        SparkCluster(run_record, 2) as cluster,
    ):
        made = Deployment(brokers, cluster, store, f"{address}:{mosquitto.port}", tmp_path)
        try:
            yield made
        finally:
            made.close()


@pytest.mark.timeout(600)
def test_a_broker_an_executor_and_the_driver_are_killed_and_no_message_is_missing_or_counted_twice(
    deployment: Deployment, mosquitto: MosquittoServer, networks: tuple[str, list[str]], run_record: RunRecord, tmp_path: Path
) -> None:  # fmt: skip
    bootstrap, login = deployment.bootstrap, deployment.login
    serving = deployment.serve()
    deployment.gateway()
    start_at = soon()
    with (
        sending(networks[1], mosquitto.port, start_at, FLEET, tmp_path) as runs,
        topic(bootstrap, "fleet.twin.state", login) as states,
    ):
        deployment.kill_one_after_the_other(serving, states, start_at.timestamp() + LOAD_S)
        deployment.serve()
        await_shares(runs)
    shares = [tmp_path / f"share-{number + 1}" for number in range(SHARES)]
    whole = join(shares, tmp_path / "whole").path
    ledger = pq.read_table(whole / "ledger.parquet").to_pylist()
    assert {row["fate"] for row in ledger} == {"delivered"}
    due = {(row["vehicle_id"], row["epoch"], row["sequence"]) for row in ledger}
    assert len(ledger) == len(due) == LOAD_S * RATE
    await_status(bootstrap, login, due)
    await_counted(bootstrap, login, due)
    kept = await_history(deployment.store, due)
    assert max(Counter(kept).values()) == 1, "a message is twice in the history"
    disks = [run_record.directory / f"spark-worker-{number}" for number in (1, 2)]
    seen = [deployment.state, *shares, *tmp_path.glob("served-*"), whole, *disks]
    assert all(path.exists() for path in seen)
    secrets = {read_login(login).password, KEYS["AWS_SECRET_ACCESS_KEY"]}
    assert arguments_with(secrets) == []
    assert [path for path in files_at(seen) if holds(path, secrets)] == []
    pauses_s = deployment.pauses_s()
    assert deployment.close() == [1, 0, 0], [one.told() for one in deployment.started]
    found = audit(whole)
    assert found.agrees, json.dumps(found.notes)
    print(
        *(f"killed {part}: no twin moved for {pause_s:.1f} s" for part, pause_s in pauses_s.items()), sep="\n"
    )


def await_status(bootstrap: str, login: str, due: set[tuple[str, int, int]]) -> None:
    """Return once each message has a record; none is of another."""

    def all_there() -> bool | None:
        found = {identity(record) for record in oracle.read_topic(bootstrap, "fleet.vehicle.status", login)}
        assert found <= due
        return found == due or None

    until(all_there, 60)


def identity(record: dict[str, Any]) -> tuple[str, int, int]:
    headers = record["headers"]
    return record["key"].decode(), int(headers["epoch"]), int(headers["sequence"])


def await_counted(bootstrap: str, login: str, due: set[tuple[str, int, int]]) -> None:
    """Return once each twin has all records of its vehicle, each once, and knows which of them are of one message."""
    records = Counter(identity(one)[0] for one in oracle.read_topic(bootstrap, "fleet.vehicle.status", login))
    names = ("messages", "duplicates", "gaps", "given_up", "sequence")
    expected = {
        vehicle: [records[vehicle], records[vehicle] - count, 0, 0, count]
        for vehicle, count in Counter(vehicle for vehicle, _, _ in due).items()
    }

    def counted() -> bool | None:
        newest: dict[str, list[int]] = {}
        states = oracle.read_topic(bootstrap, "fleet.twin.state", login)
        for record in sorted(states, key=lambda record: record["offset"]):
            newest[record["key"].decode()] = [int(record["headers"][name]) for name in names]
        over = {vehicle: own for vehicle, own in newest.items() if own[0] > expected[vehicle][0]}
        assert not over, f"counted twice: {over}"
        return newest == expected or None

    until(counted, 60, lambda: expected)


def await_history(store: StoreServer, due: set[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """Return the messages of the history's rows, once all are there."""
    system, path = reached(Place(f"s3a://{BUCKET}/fleet/history"), store.endpoint)

    def all_there() -> list[tuple[str, int, int]] | None:
        try:
            table = ds.dataset(path, filesystem=system, partitioning="hive").to_table(
                columns=["vehicle_id", "epoch", "sequence"]
            )
        except FileNotFoundError:  # small files have just become one
            return None
        rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        assert set(rows) <= due
        return rows if set(rows) == due else None

    return until(all_there, 120)


def arguments_with(secrets: set[str]) -> list[list[str]]:
    found = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
        except psutil.NoSuchProcess:
            continue
        if any(secret in " ".join(words) for secret in secrets):
            found.append(words)
    return found


def files_at(places: list[Path]) -> list[Path]:
    """Return the files, and those below the directories."""
    return [path for place in places for path in (place, *place.rglob("*")) if path.is_file()]


def holds(path: Path, secrets: set[str]) -> bool:
    try:
        content = path.read_bytes()
    except OSError:
        return False
    return any(secret.encode() in content for secret in secrets)
