"""How long the twin's taking is waited for, and the ledger: written, dead or too late, and each is told in a line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ivsim.option_rules import run_options
from ivsim.report.figures import FiguresAside
from ivsim.runs import ledger_job
from ivsim.runs.directory import RunDirectory
from ivsim.runs.display import Display
from ivsim.runs.interrupt import Interrupted
from ivsim.runs.ledger_job import LEDGER, LedgerJob, Taking, await_ledger, why, without_ledger
from ivsim.testbed.child import Child
from ivsim.testbed.process import NotReady, ProcessDied
from ivsim.testbed.registry import RunRecord
from ledger.build import ledger_limit_s
from ledger.config import LedgerConfig
from ledger.kept import Tally
from ledger.sources import KAFKA_RECORD, STATE_TOPIC, STATUS_TOPIC
from schemas.topics import vehicle_id

# A ledger that nobody waits for to its end: whoever leaves it alone fails by the limit of the test.
NEVER_DONE = "import time\ntime.sleep(600)"
HEADERS = {
    "format": "protobuf", "protocol": "mqtt", "mode": "qos1", "epoch": "1", "sequence": "1", "received_at_ns": "1",
}  # fmt: skip


def rows(topic: str, *vehicles: int, **headers: str) -> pa.Table:
    """Return a record of each of these vehicles."""
    said = {f"header_{name}": value.encode() for name, value in (HEADERS | headers).items()}
    common = {
        "topic": topic,
        "partition": 0,
        "offset": 0,
        "appended_at_ns": 1,
        "value_bytes": 20,
        "value_has_key": True,
    }
    names = [vehicle_id(vehicle).encode() for vehicle in vehicles]
    return pa.Table.from_pylist([{**common, "key": name, **said} for name in names], KAFKA_RECORD)


def goes_on_with(taking: Taking, tally: Tally, new: pa.Table) -> bool:
    """Return whether it goes on when these records have come."""
    tally.add(new)
    return taking.goes_on()


class Twin:
    """A session whose process lives until `death` is set."""

    death: ProcessDied | None = None

    @property
    def process(self) -> Any:
        return SimpleNamespace(check=self._check)

    def _check(self) -> None:
        if self.death is not None:
            raise self.death


@pytest.fixture
def tally() -> Iterator[Tally]:
    with closing(Tally(LedgerConfig(run_dir="."))) as tally:
        yield tally


@pytest.fixture
def twin() -> Any:
    return Twin()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which the test sets."""
    now_s = [1_000.0]
    monkeypatch.setattr(ledger_job, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    return now_s


def test_it_is_over_when_the_twins_have_counted_every_good_record(tally: Tally, twin: Any) -> None:
    taking = Taking(tally, twin, due=4)
    assert goes_on_with(taking, tally, rows(STATUS_TOPIC, 1, 1, 2))
    assert goes_on_with(taking, tally, rows(STATUS_TOPIC, 3, format="unheard-of"))
    assert goes_on_with(taking, tally, rows(STATE_TOPIC, 1, messages="2"))
    assert taking.words() == "the twin has taken 2 of 3 good records"
    again = rows(STATE_TOPIC, 1, messages="1")
    assert goes_on_with(taking, tally, again)  # as a twin that was started again writes it
    assert taking.goes_on()
    assert not goes_on_with(taking, tally, rows(STATE_TOPIC, 2, messages="1"))
    assert (tally.good, tally.rejected, tally.taken, taking.problem) == (3, 1, 3, None)


def test_a_twin_that_takes_nothing_more_is_waited_for_so_long(
    tally: Tally, twin: Any, clock: list[float]
) -> None:
    taking = Taking(tally, twin, due=10_000)
    assert goes_on_with(taking, tally, rows(STATUS_TOPIC, 1, 1, 1))
    clock[0] += 15
    assert goes_on_with(taking, tally, rows(STATE_TOPIC, 1, messages="1"))
    clock[0] += 15
    assert taking.goes_on()
    clock[0] += 6
    assert not taking.goes_on()
    assert taking.problem == "the twin has taken 1 of 3 good records after 36 s"
    assert not taking.goes_on()


def test_a_twin_that_takes_one_now_and_then_is_not_waited_for_without_end(
    tally: Tally, twin: Any, clock: list[float]
) -> None:
    taking = Taking(tally, twin, due=10_000)
    assert goes_on_with(taking, tally, rows(STATUS_TOPIC, *[1] * 100))
    for number in range(1, 4):
        clock[0] += 12
        assert goes_on_with(taking, tally, rows(STATE_TOPIC, 1, messages=str(number)))
    clock[0] += 12
    assert not goes_on_with(taking, tally, rows(STATE_TOPIC, 1, messages="4"))
    assert taking.problem == "the twin has taken 4 of 100 good records after 48 s"


def test_a_twin_that_has_died_ends_the_wait(tally: Tally, twin: Any) -> None:
    taking = Taking(tally, twin, due=1)
    twin.death = ProcessDied("twin", None, "query twin: dead")
    assert not goes_on_with(taking, tally, rows(STATUS_TOPIC, 1))
    assert taking.problem is not None
    assert "query twin: dead" in taking.problem


def test_where_nothing_is_in_kafka_nothing_is_waited_for(tally: Tally, twin: Any) -> None:
    taking = Taking(tally, twin, due=5)
    assert not taking.goes_on()
    assert taking.problem is None


def child(run_record: RunRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> Child:
    (tmp_path / "ledger_of_paper.py").write_text(program)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{':'.join(sys.path)}")
    return Child("ledger", ["ledger_of_paper"], run_record, stop_timeout_s=1.0)


def test_one_that_is_written_in_time(run_record, tmp_path, monkeypatch) -> None:
    await_ledger(child(run_record, tmp_path, monkeypatch, "print('{}')"), 60.0)


def test_one_that_fails_says_its_last_word(run_record, tmp_path, monkeypatch) -> None:
    program = "import sys\nprint('ledger: vehicle 7: 3 due, 2 placed', file=sys.stderr)\nsys.exit(1)"
    with pytest.raises(ProcessDied) as died:
        await_ledger(child(run_record, tmp_path, monkeypatch, program), 60.0)
    assert why(died.value) == "ledger ended with exit code 1: ledger: vehicle 7: 3 due, 2 placed"


def test_one_that_takes_too_long_is_ended(run_record, tmp_path, monkeypatch) -> None:
    slow = child(run_record, tmp_path, monkeypatch, NEVER_DONE)
    with pytest.raises(NotReady, match="ledger was not written within 0 s"):
        await_ledger(slow, 0.1)
    assert not slow.running()


def slow_job(slow: Child, directory: Path) -> tuple[LedgerJob, list[str]]:
    """Return the work of a run of two messages, whose ledger is built by a process that takes ten minutes."""
    run = RunDirectory(directory)
    pq.write_table(pa.table({"sequence": [1, 2]}), run.emissions)
    components = SimpleNamespace(children={LEDGER: slow})
    started: Any = SimpleNamespace(
        components=components, directory=run, options=run_options(), kafka_log=None
    )
    return LedgerJob(started, problems := [], FiguresAside(directory)), problems


def raising(error: BaseException) -> Callable[[], dict[str, Any]]:
    def write() -> dict[str, Any]:
        raise error

    return write


def test_without_a_ledger_what_was_due_ends_with_the_run(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    emitted = pa.array([1, None, None, 8, None], pa.int64())
    pq.write_table(pa.table({"due_at_ns": [1, 2, 3, 6, 7], "emitted_at_ns": emitted}), run.emissions)
    assert without_ledger(run)["run_due"] == 5
    run.snapshot.write_text('{"stop_at_ns": null}')
    assert without_ledger(run)["run_due"] == 5
    run.snapshot.write_text('{"stop_at_ns": 5}')
    assert without_ledger(run)["run_due"] == 4


def test_one_that_a_signal_ends_is_gone(run_record, tmp_path, monkeypatch) -> None:
    slow = child(run_record, tmp_path, monkeypatch, NEVER_DONE)
    job, problems = slow_job(slow, tmp_path)
    monkeypatch.setattr(job, "_write", raising(Interrupted(2)))
    with job._figures:
        figures, error, number = job.write(Display(quiet=True), None)
    assert (figures["run_due"], error, number) == (2, "there is no ledger: stopped by SIGINT", 2)
    assert problems == [error]
    assert not slow.running()


def test_no_figure_waits_for_one_that_nobody_awaits(run_record, tmp_path, monkeypatch) -> None:
    slow = child(run_record, tmp_path, monkeypatch, NEVER_DONE)
    job, _ = slow_job(slow, tmp_path)
    monkeypatch.setattr(job, "_write", raising(OSError("disk")))
    with job._figures as drawn:
        drawn.draw("messages", lambda: slow.wait_end(60))
        with pytest.raises(OSError, match="disk"):
            job.write(Display(quiet=True), None)
    assert not slow.running()


def test_more_messages_may_take_longer() -> None:
    assert ledger_limit_s(1_000) == pytest.approx(120.1)
    assert ledger_limit_s(6_000_000) == 720.0
