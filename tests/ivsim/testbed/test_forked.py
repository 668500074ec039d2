from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import socket
import subprocess
import sys
import termios
import time
from array import array
from pathlib import Path
from unittest.mock import Mock

import pytest

from ivsim.testbed.forked import ForkedChild, ForkServer
from ivsim.testbed.process import NotReady, ProcessDied

TOLD = """
import json, os, sys, time
from schemas.control import commands, emit

IMPORTED_BY = os.getpid()

def main(arguments):
    emit(
        "ready", pid=os.getpid(), parent=os.getppid(), group=os.getpgid(0), imported_by=IMPORTED_BY,
        cpu_s=time.process_time(), words=arguments, hash=hash("a word"),
    )
    print("a word for the log", file=sys.stderr)
    for command in commands():
        if command["command"] == "crash":
            sys.exit("no such vehicle")
        if command["command"] == "stop":
            emit("done")
            return
"""
OWNER = """
import os, sys, threading
from pathlib import Path
from ivsim.testbed.forked import ForkedChild, ForkServer
from ivsim.testbed.registry import RunRecord
record = RunRecord(f"owner-{os.getpid()}", Path(sys.argv[1]))
server = ForkServer("forks", ["told"], record)
child = ForkedChild(server, "one", ["told"], record)
print(server.pid, child.wait_for("ready", 30)["pid"], flush=True)
threading.Event().wait()
"""
WAIT_S = 20.0


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "told.py").write_text(TOLD)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))


@pytest.fixture
def server(told, run_record):
    with ForkServer("forks", ["told"], run_record) as found:
        yield found


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] == "Z"
    except OSError:
        return True


def wait_until_gone(*pids: int) -> None:
    end_s = time.monotonic() + WAIT_S
    while not all(gone(pid) for pid in pids):
        assert time.monotonic() < end_s
        time.sleep(0.02)  # another's processes, which tell nobody


def test_a_forked_child_is_the_owners_own_and_has_imported_nothing_itself(server, run_record):
    with ForkedChild(server, "one", ["told", "a", "b"], run_record) as child:
        said = child.wait_for("ready", WAIT_S)
        assert said["parent"] == os.getpid()
        assert said["pid"] == said["group"] == child.pid
        assert said["imported_by"] == server.pid
        assert said["words"] == ["a", "b"]
        assert said["cpu_s"] < 0.3  # its own CPU time alone, from its birth
        assert child.stop() == 0
    assert "a word for the log" in child.log_path.read_text()
    assert child.latest["done"] is not None


def test_children_of_one_server_have_its_hashes_and_those_of_another_have_not(server, run_record):
    hashes = []
    with ForkServer("others", ["told"], run_record) as other:
        for origin, name in ((server, "one"), (server, "two"), (other, "three")):
            with ForkedChild(origin, name, ["told"], run_record) as child:
                hashes.append(child.wait_for("ready", WAIT_S)["hash"])
    assert hashes[0] == hashes[1] != hashes[2]


def test_how_a_forked_child_ends_is_told_as_of_every_other(server, run_record):
    with ForkedChild(server, "one", ["told"], run_record) as child:
        child.wait_for("ready", WAIT_S)
        child.send("crash")
        assert child.wait_end(WAIT_S)
        with pytest.raises(ProcessDied, match=r"one ended with exit code 1.*no such vehicle"):
            child.check()
    with ForkedChild(server, "two", ["told"], run_record) as child:
        child.wait_for("ready", WAIT_S)
        child.kill()
        with pytest.raises(ProcessDied, match="two was ended by SIGKILL"):
            child.check()


def test_a_forked_child_outlives_its_server_and_no_other_is_born(server, run_record):
    with ForkedChild(server, "one", ["told"], run_record) as child:
        child.wait_for("ready", WAIT_S)
        server.kill()
        assert child.running()
        with pytest.raises(ProcessDied, match="forks was ended by SIGKILL"):
            ForkedChild(server, "two", ["told"], run_record)
        assert child.stop() == 0


def test_a_module_that_cannot_be_imported_is_named(told, run_record):
    with (
        ForkServer("forks", ["told", "no_such_module"], run_record) as server,
        pytest.raises(ProcessDied, match="no_such_module"),
    ):
        ForkedChild(server, "one", ["told"], run_record)


def test_a_module_that_starts_a_thread_is_refused(tmp_path, told, run_record):
    (tmp_path / "threaded.py").write_text(
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    )
    with (
        ForkServer("forks", ["threaded"], run_record) as server,
        pytest.raises(ProcessDied, match="threaded: imported with 1 threads"),
    ):
        ForkedChild(server, "one", ["told"], run_record)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_outlives_its_owner(told, tmp_path, number):
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        pids = [int(word) for word in owner.stdout.readline().split()]
        assert len(pids) == 2
        owner.send_signal(number)
    wait_until_gone(*pids)


def subreaper() -> int:
    found = ctypes.c_int(-1)
    ctypes.CDLL(None).prctl(37, ctypes.byref(found), 0, 0, 0)  # PR_GET_CHILD_SUBREAPER
    return found.value


@pytest.mark.parametrize("always", [0, 1])
def test_who_adopts_always_goes_on_to(server, run_record, always):
    ctypes.CDLL(None).prctl(36, always, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    try:
        with ForkedChild(server, "one", ["told"], run_record) as child:
            child.wait_for("ready", WAIT_S)
            assert subreaper() == always
            assert child.stop() == 0
    finally:
        ctypes.CDLL(None).prctl(36, 0, 0, 0, 0)


def bytes_in(sock: socket.socket) -> int:
    """Return the bytes of all messages that a socket has for who reads it (unix(7), SIOCINQ)."""
    count = array("i", [0])
    fcntl.ioctl(sock, termios.FIONREAD, count)
    return count[0]


def test_an_answer_that_came_just_before_the_kill_is_no_other_forks(server, run_record, monkeypatch):
    """Both of a fork's answers lie in the socket of a server that is dead."""
    first = [b"17"]

    def late() -> bytes:
        if first:
            return first.pop()
        until_s = time.monotonic() + WAIT_S
        one = len(server._socket.recv(100, socket.MSG_PEEK))
        while bytes_in(server._socket) <= one:
            assert time.monotonic() < until_s
            time.sleep(0.01)  # the kernel counts what is there, and wakes nobody for a second message
        raise NotReady("it is late")

    with ForkedChild(server, "before", ["told"], run_record) as child:
        child.wait_for("ready", WAIT_S)
        with monkeypatch.context() as patched:
            patched.setattr(server, "_answer", late)
            with pytest.raises(NotReady):
                ForkedChild(server, "one", ["told"], run_record)
        with pytest.raises(ProcessDied, match="forks was ended by SIGKILL"):
            ForkedChild(server, "two", ["told"], run_record)
        assert child.stop() == 0


@pytest.mark.parametrize(
    "answers", [[NotReady("it is late")], [b'"adopted"'], [b"17", NotReady("it is late")]]
)
def test_a_server_whose_answer_is_missing_answers_no_other(server, run_record, monkeypatch, answers):
    """Its late answer would be the next fork's: a process id that is another's, which its owner would end."""
    with ForkedChild(server, "before", ["told"], run_record) as child:
        child.wait_for("ready", WAIT_S)
        with monkeypatch.context() as patched:
            patched.setattr(server, "_answer", Mock(side_effect=answers))
            with pytest.raises(NotReady):
                ForkedChild(server, "one", ["told"], run_record)
        with pytest.raises(ProcessDied, match="forks was ended by SIGKILL"):
            ForkedChild(server, "two", ["told"], run_record)
        assert child.stop() == 0
