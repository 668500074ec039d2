"""What many tests share, each started once, on loopback, when the first test asks for it; and the order of the tests."""

from __future__ import annotations

import atexit
import gc
import os
import re
import shutil
import signal
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import nullcontext
from functools import cache
from pathlib import Path

import pytest
from end_to_end_runs import Runs
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from ivsim import Testbed
from ivsim.testbed.mosquitto import MosquittoServer
from ivsim.testbed.rabbitmq import RabbitmqServer
from ivsim.testbed.registry import RunRecord
from tests.one_spark import KINDS, OWN, TESTBED, OneSpark, kind_of
from tests.shared_kafka import Kafka, SharedKafka, session_notes, shared, started

pytest_plugins = ["tests.machine_watch"]
ROOT = Path(__file__).resolve().parents[1]

# What commands keep of their times belongs to the session, and not to whoever runs the tests.
os.environ["IVSIM_CACHE"] = tempfile.mkdtemp(prefix="ivsim-cache-")
atexit.register(shutil.rmtree, os.environ["IVSIM_CACHE"], ignore_errors=True)

# A shell's `&` starts its jobs with SIGINT ignored, which what they start inherits, as nohup does with SIGHUP: a program under
# test would not hear what is sent to it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Hypothesis' own profile for shared machines: no deadline for an example (200 ms otherwise, which any pause breaks), and
# the same examples in every run, so that a failure belongs to the change that it meets. `make properties` asks for more.
settings.register_profile("gate", settings.get_profile("ci"), max_examples=25)
settings.register_profile("thorough", settings.get_profile("ci"), max_examples=400)
settings.load_profile("gate")

# Cheapest first: a broken pure part shows before anything is started, and shared servers start late.
ORDER = ("broker", "kafka", "netns", "browser", "slow", "spark")
# By these words `make` chooses the files in which it looks for tests (Makefile).
SPELT = {*ORDER, "timing", "full"}
# What the files with a Spark go by: those on the testbed together, and the others.
ON_TESTBED, WITH_SPARK = "testbed", "spark"
SHARED = pytest.StashKey[SharedKafka]()
UNSPELT = pytest.StashKey[set[str]]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put tests in the order of what they start; within it their own order is kept.

    Where workers share them, those with a Spark begin, which two workers have all to themselves, and then the slow ones: what
    takes longest and comes last is one worker's alone.
    """
    config.stash[UNSPELT] = {
        f"{item.path.name}: {mark.name}"
        for item in items
        for mark in item.iter_markers()
        if mark.name in SPELT and f"mark.{mark.name}" not in _text_of(item.path)
    }
    shared = hasattr(config, "workerinput")
    first = ("spark", "slow") if shared else ()
    items.sort(key=lambda item: (*(item.get_closest_marker(mark) is None for mark in first), *_rank(item)))


def pytest_collection_finish() -> None:
    """Spare what was collected from each full collection of garbage: it is a million objects, half a second each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def unspelt(pytestconfig: pytest.Config) -> set[str]:
    """The files and marks of collected tests that `make` would not find, since the file does not spell the mark out."""
    return pytestconfig.stash[UNSPELT]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    """Tell a worker where it finds the session's Kafka."""
    config = node.config
    if SHARED not in config.stash:
        config.stash[SHARED] = SharedKafka()
        config.add_cleanup(config.stash[SHARED].close)
    node.workerinput["kafka"] = config.stash[SHARED].path


@cache
def _text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling | None:
    """Let `--dist loadscope` mean the scopes below."""
    return ScopesBySpark(config, log) if config.getoption("dist") == "loadscope" else None


class ScopesBySpark(LoadScopeScheduling):
    """A file to each worker at a time, but for the files with a Spark: those with the testbed go to one worker together,
    and the others, with runs that are by themselves, to another. In `make full`, whose testbed is in use for longest, the
    faults have a second one.

    xdist's own groups (3.8) are lost on pytest 9.2, which no longer reads the names that they are put into.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = _file_of(nodeid)
        scope = _scope_of(file)
        full = str(self.config.getoption("markexpr")).startswith("full")
        return "faults" if full and scope == ON_TESTBED and file.startswith("tests/faults/") else scope


def _file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


@cache
def _scope_of(file: str) -> str:
    text = _text_of(ROOT / file)
    if "mark.spark" not in text:
        return file
    if re.search(r"\btestbed: Testbed\b|\bruns\.(start_)?on_testbed\b|\bruns\.testbed\b", text):
        return ON_TESTBED
    return WITH_SPARK


def _rank(item: pytest.Item) -> tuple[int, int]:
    needs = max((ORDER.index(mark.name) + 1 for mark in item.iter_markers() if mark.name in ORDER), default=0)
    spark = item.get_closest_marker("spark") is not None
    return needs, KINDS.index(_kind_of(item)) if spark else 0


def _kind_of(item: pytest.Item) -> str:
    """Return which Spark a test marked `spark` uses: its own where its file has nothing to do with the testbed."""
    kind = kind_of(item.fixturenames)
    return OWN if kind == TESTBED and _scope_of(_file_of(item.nodeid)) != ON_TESTBED else kind


@pytest.fixture(scope="session")
def one_spark() -> Iterator[OneSpark]:
    """The holder of the one Spark that is up."""
    held = OneSpark()
    yield held
    held.close()


@pytest.fixture(autouse=True)
def _no_idle_spark(request: pytest.FixtureRequest) -> None:
    """A test without a Spark, or with one of its own, has no idle one beside it."""
    if not request.node.get_closest_marker("spark") or _kind_of(request.node) == OWN:
        request.getfixturevalue("one_spark").close()


@pytest.fixture(scope="session")
def session_record(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRecord]:
    """The run record of the test process itself, with notes in its own directory."""
    with session_notes(tmp_path_factory.mktemp("session")) as record:
        yield record


@pytest.fixture
def run_record(tmp_path: Path, session_record: RunRecord) -> Iterator[RunRecord]:
    """A run record and directory for one test; `run_record.run_id` names namespaces without collisions."""
    with RunRecord(f"t{uuid.uuid4().hex[:8]}", tmp_path) as record:
        yield record


@pytest.fixture(scope="session")
def session_kafka(request: pytest.FixtureRequest, session_record: RunRecord) -> Iterator[Kafka]:
    """The Kafka of the session. Use topic prefixes of your own: tests of other processes use it at the same time."""
    worker = getattr(request.config, "workerinput", None)
    with started(session_record) if worker is None else nullcontext(shared(worker["kafka"])) as found:
        yield found


@pytest.fixture(scope="session")
def kafka(session_kafka: Kafka) -> str:
    """Its bootstrap address."""
    return session_kafka.bootstrap


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
def runs(
    tmp_path_factory: pytest.TempPathFactory, one_spark: OneSpark, session_record: RunRecord
) -> Iterator[Runs]:
    """Runs in processes of their own, on the one testbed where they ask for it.

    Behind the session's record: the notes of the testbed's runs go where their tests look for them.
    """
    made = Runs(tmp_path_factory.mktemp("runs"), one_spark)
    yield made
    made.end_all()


@pytest.fixture(autouse=True)
def _no_run_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that fails leaves no run behind, which would be in the way of the next one on the testbed."""
    made = request.getfixturevalue("runs") if "runs" in request.fixturenames else None
    yield
    if made is not None:
        made.end_all()


@pytest.fixture
def testbed(runs: Runs) -> Testbed:
    """The testbed, in the test process; runs follow each other on it."""
    return runs.testbed()
