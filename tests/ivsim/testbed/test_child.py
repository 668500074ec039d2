from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from ivsim.testbed.child import Child
from ivsim.testbed.process import NotReady, ProcessDied
from ivsim.testbed.registry import RunRecord

ECHO = """
import sys
from schemas.control import commands, emit
print("a library's own line", flush=True)
emit("ready", pid=1)
for command in commands():
    if command["command"] == "stop":
        emit("done", reason="asked")
        sys.exit(0)
    if command["command"] == "fail":
        emit("error", message="disk full")
    if command["command"] == "crash":
        sys.exit("traceback: no such vehicle")
    emit("echo", **{"value": command.get("value")})
emit("done", reason="owner gone")
"""
OWNER = """
import sys, threading
from pathlib import Path
from ivsim.testbed.child import Child
from ivsim.testbed.registry import RunRecord
from schemas.control import LAST_WORDS

directory = Path(sys.argv[1])
for _ in range(20):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
with RunRecord("owner", directory / "work", directory / "logs") as record:
    child = Child("slow", ["tests.ends_slowly"], record, environment={LAST_WORDS: str(directory / "said.json")})
    child.wait_for("ready", 30)
    print(child.pid, flush=True)
    threading.Event().wait()
"""


def made(run_record: RunRecord, tmp_path: Path, **more: Any) -> Child:
    (tmp_path / "echo_child.py").write_text(ECHO)
    environment = {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path(__file__).parents[3])])}
    return Child("echo", ["echo_child"], run_record, environment=environment, **more)


@pytest.fixture
def child(run_record: RunRecord, tmp_path: Path):
    with made(run_record, tmp_path) as started:
        started.wait_for("ready", 10)
        yield started


def test_events_come_once_and_in_order(child: Child) -> None:
    for value in range(3):
        child.send("say", value=value)
    assert [child.wait_for("echo", 10)["value"] for _ in range(3)] == [0, 1, 2]
    assert child.latest["echo"]["value"] == 2


def test_an_absent_event_is_named(child: Child) -> None:
    with pytest.raises(NotReady, match="echo did not report 'drained' within 0"):
        child.wait_for("drained", 0.05)


def test_an_owner_that_is_killed_thread_by_thread_is_one_end(tmp_path: Path) -> None:
    """The kernel hands a child on from thread to thread of an owner that dies, and tells each time."""
    root = str(Path(__file__).parents[3])
    environment = {**os.environ, "PYTHONPATH": root, "IVSIM_STATE_DIR": str(tmp_path / "state")}
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE, env=environment, text=True
    ) as owner:
        assert owner.stdout is not None
        child = os.pidfd_open(int(owner.stdout.readline()))
        owner.kill()
    with os.fdopen(child) as process:
        assert select.select([process], [], [], 30)[0]
    assert json.loads((tmp_path / "said.json").read_text()) == {"ended": "in order"}


def test_stop_is_orderly(child: Child) -> None:
    assert child.stop() == 0
    assert child.latest["done"]["reason"] == "asked"
    child.check()


def test_last_words_still_in_the_pipe_are_waited_for(run_record: RunRecord, tmp_path: Path) -> None:
    """The end of a process is known before the last line that it wrote is read."""
    read_on = threading.Event()
    with made(run_record, tmp_path, on_event=lambda _: read_on.wait()) as child:
        child.wait_for("ready", 10)
        child.send("say", value=1)
        child.send("stop")
        child.popen.wait(10)
        assert "done" not in child.latest
        threading.Timer(0.3, read_on.set).start()
        child.check()
        assert child.latest["done"]["reason"] == "asked"


def test_a_lost_owner_ends_the_child(child: Child) -> None:
    child.popen.stdin.close()
    assert child.wait_for("done", 10)["reason"] == "owner gone"


def test_a_crash_names_the_process_and_its_last_words(child: Child) -> None:
    child.send("crash")
    with pytest.raises(ProcessDied, match=r"(?s)echo ended with exit code 1.*no such vehicle"):
        child.wait_for("done", 10)
    with pytest.raises(ProcessDied):
        child.check()


def test_a_reported_error_is_the_reason(child: Child) -> None:
    child.send("fail")
    with pytest.raises(ProcessDied, match="disk full"):
        child.wait_for("done", 10)


def test_a_kill_is_named_by_its_signal(child: Child) -> None:
    os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(ProcessDied, match="echo was ended by SIGKILL"):
        child.wait_for("done", 10)


def test_stray_output_goes_to_the_log(child: Child) -> None:
    child.stop()
    assert "a library's own line" in child.log_path.read_text()
