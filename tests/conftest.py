"""Servers and testbeds that many tests share: each is started once, on loopback, when the first test asks for it."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from end_to_end_runs import Runs
from hypothesis import settings

from ivsim import Testbed
from ivsim.testbed import leftovers
from ivsim.testbed.kafka import KafkaServer
from ivsim.testbed.mosquitto import MosquittoServer
from ivsim.testbed.rabbitmq import RabbitmqServer
from ivsim.testbed.registry import RunRecord

# What commands keep of their times belongs to the session, and not to whoever runs the tests.
os.environ["IVSIM_CACHE"] = tempfile.mkdtemp(prefix="ivsim-cache-")
atexit.register(shutil.rmtree, os.environ["IVSIM_CACHE"], ignore_errors=True)

# Hypothesis' own profile for shared machines: no deadline for an example (200 ms otherwise, which any pause breaks), and
# the same examples in every run, so that a failure belongs to the change that it meets.
settings.load_profile("ci")

# Cheapest first: a broken pure part shows before anything is started, and shared servers start late.
ORDER = ("broker", "kafka", "netns", "browser", "spark", "slow")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests in the order of what they start; within it their own order is kept."""
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    return max((ORDER.index(mark.name) + 1 for mark in item.iter_markers() if mark.name in ORDER), default=0)


@pytest.fixture(scope="session")
def session_record(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRecord]:
    """The run record of the test session itself, with notes in the session's own directory."""
    base = tmp_path_factory.mktemp("session")
    previous = os.environ.get("IVSIM_STATE_DIR")
    os.environ["IVSIM_STATE_DIR"] = str(base / "state")
    with RunRecord(f"t{uuid.uuid4().hex[:8]}", base) as record:
        yield record
    if previous is None:
        del os.environ["IVSIM_STATE_DIR"]
    else:
        os.environ["IVSIM_STATE_DIR"] = previous


@pytest.fixture
def run_record(tmp_path: Path, session_record: RunRecord) -> Iterator[RunRecord]:
    """A run record and directory for one test; `run_record.run_id` names namespaces without collisions."""
    with RunRecord(f"t{uuid.uuid4().hex[:8]}", tmp_path) as record:
        yield record


@pytest.fixture(scope="session")
def kafka(session_record: RunRecord) -> Iterator[str]:
    """A Kafka broker's bootstrap address. Use topic prefixes of your own: the broker is shared."""
    with KafkaServer(session_record) as server:
        yield server.bootstrap


@pytest.fixture(scope="session")
def mosquitto_loopback(session_record: RunRecord) -> Iterator[tuple[str, int]]:
    """Host and port of an open mosquitto. Use topics or client ids of your own: the broker is shared."""
    with MosquittoServer(session_record) as server:
        yield server.host, server.port


@pytest.fixture(scope="session")
def rabbitmq_loopback(session_record: RunRecord) -> Iterator[tuple[str, int]]:
    """Host and port of an open RabbitMQ (guest/guest). Use exchanges and queues of your own: it is shared."""
    with RabbitmqServer(session_record) as server:
        yield server.host, server.port


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """Runs in processes of their own, on one `ivsim up` where they ask for it."""
    made = Runs(tmp_path_factory.mktemp("runs"))
    yield made
    made.close()


@pytest.fixture(scope="session")
def testbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    """A testbed of the test process; runs follow each other on it."""
    with pytest.MonkeyPatch.context() as patch:
        state = tmp_path_factory.mktemp("state")
        patch.setenv("IVSIM_STATE_DIR", str(state))
        with Testbed() as opened:
            yield opened
        assert list(state.iterdir()) == []
        assert leftovers.find() == []
