from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from confluent_kafka import KafkaError, KafkaException

from ivsim.runs import shared_parts
from ivsim.runs.endpoints import KafkaAddress
from ivsim.testbed import kafka_admin, leftovers, registry
from ivsim.testbed.kafka_admin import create_topics, delete_topics, topics_of
from ivsim.testbed.process import OwnedProcess
from ivsim.testbed.registry import ProcessMark, RunRecord, started_at_ticks
from schemas.topics import KafkaTopics

# A run that opens real things, says so, and waits to be killed. `trap` makes its child outlive the
# parent-death signal, as a process that hangs would.
OWNER = """
import pathlib, subprocess, sys, time
from ivsim.testbed.process import OwnedProcess
from ivsim.testbed.registry import RunRecord
run_id, directory, with_namespace = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3] == "yes"
record = RunRecord(run_id, directory).__enter__()
record.scratch(directory / "data")
(directory / "data").mkdir(parents=True)
namespace = f"ivsim-{run_id}-v" if with_namespace else None
if namespace:
    record.namespace(namespace)
    subprocess.run(["ip", "netns", "add", namespace], check=True)
    subprocess.run(["ip", "netns", "add", f"ivsim-{run_id}-r"], check=True)  # a link's own, noted by nobody
trapped = directory / "trapped"
script = f"trap '' TERM; : > '{trapped}'; while :; do sleep 0.1; done"
noted = OwnedProcess("stubborn", ["sh", "-c", script], record, namespace=namespace)
while not trapped.exists():  # until then it would die with its owner as any other does
    time.sleep(0.01)
# Started by a part that keeps no notes: only the environment tells whose it is.
marked = subprocess.Popen(["sleep", "300"], start_new_session=True)
print(noted.pid, marked.pid, flush=True)
time.sleep(300)
"""


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("IVSIM_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr(leftovers, "TERM_TIMEOUT_S", 0.5)  # the stubborn one sits out any deadline
    return tmp_path / "state"


def killed_run(directory: Path, *, with_namespace: bool) -> tuple[str, list[ProcessMark]]:
    run_id = f"t{uuid.uuid4().hex[:8]}"
    argv = [sys.executable, "-c", OWNER, run_id, str(directory / run_id), "yes" if with_namespace else "no"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]) as owner:
        marks = [ProcessMark.of(int(pid)) for pid in owner.stdout.readline().split()]
        assert leftovers.find() == []  # a live run's things are nobody's leftovers
        owner.send_signal(signal.SIGKILL)
    assert all(mark.alive() for mark in marks)
    return run_id, marks


def test_a_killed_run_is_found_and_cleaned(state: Path, tmp_path: Path) -> None:
    run_id, marks = killed_run(tmp_path, with_namespace=False)
    found = leftovers.find()
    assert [leftover.run_id for leftover in found] == [run_id]
    assert set(found[0].processes) >= set(marks)
    assert found[0].scratch == {tmp_path / run_id / "data"}

    assert leftovers.clean(found) == []
    assert not any(mark.alive() for mark in marks)
    assert not (tmp_path / run_id / "data").exists()
    assert (tmp_path / run_id / "logs").exists()  # results stay
    assert list(state.iterdir()) == []
    assert leftovers.find() == []


@pytest.mark.netns
def test_a_killed_run_leaves_no_namespace_after_cleaning(state: Path, tmp_path: Path) -> None:
    run_id, marks = killed_run(tmp_path, with_namespace=True)
    with (
        RunRecord("next", tmp_path / "next") as record,
        OwnedProcess("sleep", ["sleep", "60"], record) as live,
    ):
        found = leftovers.find()
        assert [leftover.namespaces for leftover in found] == [{f"ivsim-{run_id}-v", f"ivsim-{run_id}-r"}]
        assert leftovers.clean(found) == []
        assert live.running()  # the run that cleans, and any other, goes on
    assert not [name for name in leftovers.namespaces() if run_id in name]
    assert not any(mark.alive() for mark in marks)


def test_a_process_that_has_only_begun_shows_its_mark() -> None:
    """Popen returns while exec(2) may not have laid the environment yet: 1 to 3 of 100 first looks met that."""
    for _ in range(300):
        with subprocess.Popen(
            ["sleep", "300"], env={"IVSIM_OWNER": "1:1", "PATH": os.environ["PATH"]}
        ) as young:
            shown = leftovers._environment(young.pid, time.monotonic() + leftovers.EXEC_TIMEOUT_S)
            young.kill()
        assert b"IVSIM_OWNER=1:1" in shown


def test_what_has_no_environment_is_not_waited_for() -> None:
    begun_s = time.monotonic()
    with subprocess.Popen(["env", "-i", "sleep", "300"]) as bare:
        while Path(f"/proc/{bare.pid}/comm").read_text() != "sleep\n":
            time.sleep(0.01)
        dead = subprocess.Popen(["true"])
        os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)  # a zombie
        for pid in (bare.pid, dead.pid, 2):  # 2: kthreadd
            assert leftovers._environment(pid, begun_s + 60) == b""
        dead.wait()
        bare.kill()
    assert time.monotonic() - begun_s < 30


def test_notes_of_a_run_that_ended_well_are_gone(state: Path, tmp_path: Path) -> None:
    with RunRecord("well", tmp_path / "well"):
        assert [path.name for path in state.iterdir()] == ["well.jsonl"]
        assert os.environ["IVSIM_RUN"] == "well"
    assert list(state.iterdir()) == []
    assert os.environ.get("IVSIM_RUN") != "well"


def test_a_process_id_used_again_is_not_ours() -> None:
    ticks = started_at_ticks(os.getpid())
    assert ProcessMark(os.getpid(), ticks).alive()
    assert not ProcessMark(os.getpid(), ticks + 1).alive()
    assert not ProcessMark(os.getpid(), ticks, boot="another boot").alive()


def test_a_run_that_begins_has_no_notes_without_its_owner(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[list[leftovers.Leftover]] = []

    def searched_before(call: Callable[..., Any]) -> Callable[..., Any]:
        def searched(*arguments: Any) -> Any:
            found.append(leftovers.find())
            return call(*arguments)

        return searched

    # When the note is begun, and when it gets its name.
    monkeypatch.setattr(registry, "time", SimpleNamespace(time_ns=searched_before(time.time_ns)))
    monkeypatch.setattr(registry.os, "link", searched_before(os.link))
    with RunRecord("begins", tmp_path):
        assert [path.name for path in state.iterdir()] == ["begins.jsonl"]
    assert found == [[], []]


def test_a_run_id_in_use_is_not_taken_over(state: Path, tmp_path: Path) -> None:
    with RunRecord("same", tmp_path), pytest.raises(FileExistsError):
        RunRecord("same", tmp_path)


def notes_of_a_killed_run_on(state: Path, bootstrap: str, prefix: str) -> None:
    state.mkdir()
    dead = ProcessMark(2**22 + 1, 1)
    notes = (
        {"kind": "run", "owner": str(dead), "boot": dead.boot},
        {"kind": "topics", "bootstrap": bootstrap, "prefix": prefix},
    )
    (state / "killed.jsonl").write_text("".join(json.dumps(note) + "\n" for note in notes))


@pytest.mark.kafka
def test_topics_of_a_killed_run_on_a_kafka_that_is_not_ours_are_removed(state: Path, kafka: str) -> None:
    topics, others = (KafkaTopics(f"ivsim.{uuid.uuid4().hex[:8]}.") for _ in range(2))
    for made in (topics, others):
        create_topics(kafka, made)
    notes_of_a_killed_run_on(state, kafka, topics.prefix)
    found = leftovers.find()
    assert found[0].lines() == [f"topics {topics.prefix}* on Kafka {kafka}", "notes of run killed"]
    assert leftovers.clean(found) == []
    assert topics_of(kafka, topics.prefix) == []
    assert topics_of(kafka, others.prefix) == sorted(others.all())
    assert list(state.iterdir()) == []
    assert delete_topics(kafka, others.prefix) == {}


def test_topics_on_a_kafka_that_does_not_answer_stay_and_are_named(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_admin, "ANSWER_S", 0.5)
    monkeypatch.setattr(leftovers, "TOPICS_TIMEOUT_S", 0.5)
    notes_of_a_killed_run_on(state, "127.0.0.1:1", "ivsim.x.")
    assert leftovers.clean(leftovers.find()) == ["topics ivsim.x.* on Kafka 127.0.0.1:1"]
    assert len(list(state.iterdir())) == 1


class Refusing:
    """An admin client of a broker that keeps its topics."""

    topics: ClassVar = dict.fromkeys(("r.a", "r.b", "r.c", "other"))

    def list_topics(self, **_: Any) -> Refusing:
        return self

    def delete_topics(self, names: list[str], **_: Any) -> dict[str, Future[None]]:
        futures: dict[str, Future[None]] = {name: Future() for name in names}
        futures["r.a"].set_exception(KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)))
        futures["r.b"].set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
        futures["r.c"].set_result(None)
        return futures


def test_topics_that_a_kafka_keeps_are_named_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ivsim.testbed.kafka_admin._admin", lambda *_: Refusing())
    shared_parts.leave_kafka_as_found(KafkaAddress("far:9092", KafkaTopics("r.")))
    assert capsys.readouterr().err == (
        "ivsim: Kafka far:9092 keeps topic r.a: Broker: Topic authorization failed\n"
    )


def test_notes_that_go_during_the_search_are_passed_over(state: Path) -> None:
    state.mkdir()
    (state / "ends.jsonl").symlink_to(state / "gone")  # listed, and no longer there when it is read
    assert leftovers.find() == []


def test_a_note_cut_off_by_the_kill_is_passed_over(state: Path, tmp_path: Path) -> None:
    state.mkdir()
    dead = ProcessMark(2**22 + 1, 1)
    (state / "cut.jsonl").write_text(
        f'{{"kind":"run","owner":"{dead}","boot":"{dead.boot}"}}\n{{"kind":"proc'
    )
    assert [leftover.lines() for leftover in leftovers.find()] == [["notes of run cut"]]
    assert leftovers.clean(leftovers.find()) == []
    assert list(state.iterdir()) == []


# Takes its leave by itself; a signal has it go without.
LEAVING = """
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
print("ready", flush=True)
time.sleep(float(sys.argv[2]))
pathlib.Path(sys.argv[1]).write_text("said")
"""


@pytest.mark.parametrize(("takes_s", "patience_s", "said"), [(0.3, 30.0, True), (600.0, 0.0, False)])
def test_who_takes_leave_is_waited_for_and_who_does_not_is_ended(
    tmp_path: Path, takes_s: float, patience_s: float, said: bool
) -> None:
    last_words = tmp_path / "words"
    command = [sys.executable, "-c", LEAVING, str(last_words), str(takes_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as leaving:
        assert leaving.stdout is not None
        assert leaving.stdout.readline() == "ready\n"
        mark = ProcessMark.of(leaving.pid)
        assert mark is not None
        leftovers.end_processes([leftovers.Leftover("r1", processes={mark: "part"})], patience_s)
        assert not mark.alive()
    assert last_words.exists() == said
