"""The twin as a child process: its lines of JSON, its ends, and what kill -9 costs (nothing)."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from schemas.topics import vehicle_id
from tests import oracle
from tests.twin.made_up import MadeUpRun, await_taken, payload_of
from tests.twin.reference import fold
from twin.checkpoint import STATE_VERSION
from twin.config import TwinConfig

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


class TwinChild:
    """`python -m twin` and the lines it prints."""

    def __init__(self, config: TwinConfig) -> None:
        path = Path(config.run_dir) / "twin.json"
        path.write_text(json.dumps(config.model_dump()))
        self._log = (Path(config.run_dir) / "twin.log").open("a")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "twin", str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
            text=True, cwd=Path(__file__).parents[2],
        )  # fmt: skip
        self.events: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.put(json.loads(line))
        self.events.put(None)

    def event(self, name: str, timeout_s: float = 150.0) -> dict[str, Any]:
        """Return the next event, which has this name."""
        event = self.events.get(timeout=timeout_s)
        assert event is not None, Path(self._log.name).read_text()[-2_000:]
        assert event["event"] == name, event
        return event

    def command(self, name: str, **fields: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"command": name} | fields) + "\n")
        self.process.stdin.flush()

    def jvm(self) -> int:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return next(int(pid) for pid in children if b"java" in Path(f"/proc/{pid}/cmdline").read_bytes())

    def kill(self) -> None:
        """Kill Spark and its driver without a word."""
        for pid in (self.jvm(), self.process.pid):
            os.kill(pid, signal.SIGKILL)

    def close(self) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        if not self.process.stdin.closed:
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                assert self.process.poll() is not None
        code = self.process.wait(60)
        self._reader.join(10)
        self.process.stdout.close()
        self._log.close()
        return code


@contextmanager
def twin_child(config: TwinConfig) -> Iterator[TwinChild]:
    child = TwinChild(config)
    try:
        yield child
    finally:
        child.close()


Sent = dict[str, list[tuple[int, int, int]]]


def send(run: MadeUpRun, sent: Sent, first: int, last: int) -> None:
    """Send messages of four vehicles; each seventh twice, each ninth never."""
    for sequence in range(first, last + 1):
        for vehicle in range(1, 5):
            row = run.due(vehicle, sequence)
            if (sequence + vehicle) % 9 == 0:
                continue
            for _ in range(2 if sequence % 7 == 0 else 1):
                received = run.take(row)
                run.append(row, received)
                sent[row["vehicle_id"]].append((1, sequence, received))
    run.flush()


def await_state(config: TwinConfig, count: int, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if len(oracle.read_topic(config.bootstrap, config.topics.state)) >= count:
            return
        time.sleep(0.1)
    raise AssertionError("no twin state in time")


@pytest.mark.parametrize("trigger", ["realtime", pytest.param("microbatch", marks=pytest.mark.full)])
def test_kill_9_in_a_batch_loses_and_repeats_nothing(run: MadeUpRun, trigger: str) -> None:
    more = {"trigger": trigger, "realtime_duration_s": 5.0, "live": "none", "rehearse": False}
    config = run.config.model_copy(update=more)
    sent: Sent = defaultdict(list)
    left_by_a_kill = Path(config.checkpoint / "rehearsal" / "offsets")
    with twin_child(config) as first:
        assert first.event("ready")["rehearsed_batches"] == 0
        send(run, sent, 1, 60)
        await_state(config, 4)
        first.command("status")
        first.event("progress")
        send(run, sent, 61, 100)
        first.kill()
    if trigger == "realtime":  # the others rehearse nothing
        left_by_a_kill.mkdir(parents=True)
        (left_by_a_kill / "0").write_text("nonsense")
    send(run, sent, 101, 120)
    with twin_child(config.model_copy(update={"rehearse": True})) as second:
        batches = second.event("ready")["rehearsed_batches"]
        assert batches >= 3 if trigger == "realtime" else batches == 0
        assert not left_by_a_kill.parent.exists()
        await_taken(config, sum(map(len, sent.values())))
        second.command("finish", rejected=0)
        assert second.event("finished")["problems"] == []
        second.command("stop")
        second.event("done", 60)
        assert second.close() == 0
    newest: dict[bytes, dict[str, bytes]] = {}
    for record in sorted(oracle.read_topic(config.bootstrap, config.topics.state), key=lambda r: r["offset"]):
        newest[record["key"]] = record["headers"]
        assert record["value"] == payload_of(record["key"].decode())
    assert {key.decode() for key in newest} == {vehicle_id(v) for v in range(1, 5)}
    for identity, messages in sent.items():
        expected = fold(messages)
        assert {name: int(newest[identity.encode()][name]) for name in expected} == expected


def test_bad_commands_and_the_owners_death(run: MadeUpRun) -> None:
    config = run.config.model_copy(update={"topology": "echo"})
    with twin_child(config) as child:
        child.event("ready")
        child.command("dance")
        assert "allowed are status, finish, open, leave, stop" in child.event("refused")["message"]
        child.command("finish", rejected=0)
        assert child.event("finished")["problems"] == []
        jvm = child.jvm()
        assert child.close() == 0  # end of file on standard input
        assert not Path(f"/proc/{jvm}").exists()


@pytest.mark.full
def test_one_session_serves_one_run_after_the_other(run: MadeUpRun, tmp_path: Path) -> None:
    def one_delivered(made: MadeUpRun, child: TwinChild) -> None:
        row = made.due(1, 1)
        made.append(row, made.take(row))
        made.flush()
        await_taken(made.config, 1)
        child.command("finish", rejected=0)
        assert child.event("finished")["problems"] == []

    def opened(child: TwinChild, config: TwinConfig) -> MadeUpRun:
        Path(config.run_dir).mkdir()
        path = Path(config.run_dir) / "twin.json"
        path.write_text(json.dumps(config.model_dump()))
        child.command("open", config=str(path))
        return MadeUpRun(config)

    echo = {"topology": "echo", "bootstrap": ""}
    with twin_child(run.config.model_copy(update={**echo, "run_dir": str(tmp_path)})) as child:
        jvm = child.jvm() if child.event("ready") else 0
        for number, prefix in enumerate(("first.", "second.")):
            config = run.config.model_copy(
                update={"run_dir": str(tmp_path / prefix), "topics_prefix": run.config.topics_prefix + prefix}
            )
            made = opened(child, config)
            assert child.event("ready")["topics_prefix"] == config.topics_prefix
            one_delivered(made, child)
            if number == 0:
                opened(child, config.model_copy(update={"run_dir": str(tmp_path / "full"), "jit": "full"}))
                assert "jit 'full': this twin process has 'quick'" in child.event("error")["message"]
        assert child.jvm() == jvm
        child.command("stop")
        child.event("done", 60)


def test_a_foreign_checkpoint_is_refused_before_spark_starts(run: MadeUpRun) -> None:
    config = run.config
    Path(config.checkpoint).mkdir()
    Path(config.checkpoint / "ivsim.json").write_text(json.dumps({"state_version": 0}))
    with twin_child(config) as child:
        message = child.event("error")["message"]
        wanted = f"made with state_version = 0, this twin has {STATE_VERSION}; name an empty directory"
        assert wanted in message
        assert child.process.wait(30) == 2
    Path(config.checkpoint / "ivsim.json").unlink()
    Path(config.checkpoint / "offsets").mkdir()
    with twin_child(config) as child:
        assert "not a twin's checkpoint" in child.event("error")["message"]
        assert child.process.wait(30) == 2
