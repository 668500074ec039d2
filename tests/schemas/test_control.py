"""What a process and its owner tell each other: what the end of standard input means, who does not read, bad lines."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from schemas.control import OWNER_DIED
from schemas.outlet import Outlet

# Longer than the product's, so that a busy machine sends the same signal twice in time.
SAME_SIGNAL_S = 3.0
ROOT = Path(__file__).parents[2]
ASYNCHRONOUS = """
import asyncio
from schemas.control import emit
from schemas.loop_commands import Commands

async def main():
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    loop.add_signal_handler(15, stopped.set)
    commands = await Commands.open()
    following = asyncio.ensure_future(commands.next())
    emit("ready")
    asked = asyncio.ensure_future(stopped.wait())
    await asyncio.wait((following, asked), return_when=asyncio.FIRST_COMPLETED)
    emit("done", reason="owner gone" if following.done() else "signal")

asyncio.run(main())
"""
BLOCKING = """
import signal, sys
from schemas.control import commands, emit

def stop(*_):
    emit("done", reason="signal")
    sys.exit(0)

signal.signal(15, stop)
emit("ready")
for _ in commands():
    pass
emit("done", reason="owner gone")
"""


@pytest.fixture(params=[ASYNCHRONOUS, BLOCKING], ids=["asyncio", "blocking"])
def program(request: pytest.FixtureRequest) -> list[str]:
    return [sys.executable, "-c", request.param]


def started(program: list[str], stdin: int) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    child = subprocess.Popen(
        program, stdin=stdin, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT
    )
    assert "ready" in child.stdout.readline()
    return child


def test_the_end_of_a_pipe_is_the_end(program: list[str]) -> None:
    with started(program, subprocess.PIPE) as child:
        child.stdin.close()
        assert "owner gone" in child.stdout.readline()
        assert child.wait(30) == 0


def test_dev_null_ends_nothing_and_a_signal_does(program: list[str]) -> None:
    with started(program, subprocess.DEVNULL) as child:
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(1)
        child.send_signal(signal.SIGTERM)
        assert "signal" in child.stdout.readline()
        assert child.wait(30) == 0


def test_a_file_at_its_end_ends_nothing(program: list[str], tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with (tmp_path / "empty").open() as file, started(program, file.fileno()) as child:
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(1)
        child.send_signal(signal.SIGTERM)
        assert child.wait(30) == 0


UNREAD = """
import asyncio, sys
from schemas.control import emit
from schemas.loop_commands import Commands
from schemas.outlet import log_to_stderr
import logging

async def main():
    log_to_stderr("%(message)s")
    commands = await Commands.open("stop")
    following = asyncio.ensure_future(commands.next())
    emit("ready")
    for worked in range(200):
        emit("progress", worked=worked, filling="x" * 3_000)
        logging.warning("y" * 3_000)
        await asyncio.sleep(0.001)
    open(sys.argv[1], "w").write(str(worked))
    await following
    emit("done")

asyncio.run(main())
"""


def test_an_owner_that_does_not_read_misses_progress_and_stops_no_work(tmp_path: Path) -> None:
    worked = tmp_path / "worked"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    child = subprocess.Popen(
        [sys.executable, "-c", UNREAD, str(worked)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        cwd=ROOT,
    )
    with child:
        deadline = time.monotonic() + 60
        while not worked.is_file() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert worked.read_text() == "199", "pipes of 64 KiB have room for 20 of them"
        # Whoever reads again finds whole lines, and the last word.
        child.stdin.write(b'{"command": "stop"}\n')
        child.stdin.flush()
        events = [json.loads(line) for line in child.stdout]
        assert (events[0]["event"], events[-1]["event"]) == ("ready", "done")
        assert {event["event"] for event in events[1:-1]} == {"progress"}
        assert child.wait(30) == 0


OBEYS = """
import asyncio
from schemas.control import emit
from schemas.loop_commands import Commands

async def main():
    commands = await Commands.open("go", "stop")
    emit("ready")
    while (found := await commands.next()) is not None and found["command"] == "go":
        emit("obeyed")
    emit("done", found=found)

asyncio.run(main())
"""
OBEYS_BLOCKING = """
from schemas.control import commands, emit

emit("ready")
for found in commands("go", "stop"):
    if found["command"] == "stop":
        break
    emit("obeyed")
emit("done", found=found)
"""
NO_COMMANDS = {
    "no JSON": b"stop\n",
    "an array": b'["stop"]\n',
    "no name": b'{"stop": 1}\n',
    "a name that is a number": b'{"command": 1}\n',
    "an unknown name": b'{"command": "stopp"}\n',
    "not UTF-8": b'{"command": "\xff"}\n',
    "deep": b"[" * 60_000 + b"\n",
    "65,537 bytes": b"x" * 65_536 + b"\n",
    "6 MB": b"x" * 6_553_600 + b"\n",
    "empty": b"\n",
}


@pytest.mark.parametrize("program", [OBEYS, OBEYS_BLOCKING], ids=["asyncio", "blocking"], indirect=True)
def test_a_line_that_is_no_command_is_told_and_the_next_one_obeyed(program: list[str]) -> None:
    with started(program, subprocess.PIPE) as child:
        for line in NO_COMMANDS.values():
            child.stdin.buffer.write(line + b'{"command": "go"}\n')
        child.stdin.buffer.write(b'{"command": "stop"}\n')
        child.stdin.close()
        *told, done = [json.loads(said) for said in child.stdout]
        assert done == {"event": "done", "found": {"command": "stop"}}
        before = "".join(event["event"][0] for event in told).split("o")
        assert len(before) == len(NO_COMMANDS) + 1
        assert [bool(refused) for refused in before] == [line != b"\n" for line in NO_COMMANDS.values()] + [
            False
        ]
        assert {event["event"] for event in told} == {"refused", "obeyed"}
        assert child.wait(30) == 0


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_at_once(first: signal.Signals) -> None:
    with started([sys.executable, "-m", "tests.ends_slowly"], subprocess.DEVNULL) as child:
        child.send_signal(first)
        assert "stopping" in child.stdout.readline()
        child.send_signal(signal.SIGINT)
        assert child.wait(30) == -signal.SIGINT


def test_a_ctrl_c_that_is_ignored_from_the_beginning_stays_ignored() -> None:
    ignoring = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "-m", "tests.ends_slowly"]
    with started(ignoring, subprocess.DEVNULL) as child:
        child.send_signal(signal.SIGTERM)
        assert "stopping" in child.stdout.readline()
        child.send_signal(signal.SIGINT)  # a second signal that is heeded ends it at once
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(0.5)
        child.send_signal(signal.SIGTERM)
        assert child.wait(30) == -signal.SIGTERM


TWIN = """
import sys, time
from schemas.control import emit
import twin.__main__ as twin

class Slow:
    def __init__(self, config): pass
    def open(self): return {}
    def check(self): pass
    def close(self):
        emit("stopping")
        WORK

twin.TwinProcess, twin.read_twin_config = Slow, lambda path: None
sys.exit(twin.main(["twin.json"]))
"""
CAPTURE = """
import sys, time, types
from schemas.control import emit
from simulator.capture import process

class Slow:
    def __init__(self, config, stack):
        self.stopping = False
    def run(self, owner):
        while not self.stopping:
            time.sleep(0.01)
        emit("stopping")
        WORK
        return {}

process.Capture, process.read_config = Slow, lambda path, model: types.SimpleNamespace(device="none")
sys.exit(process.main(["capture.json"]))
"""


@pytest.fixture(params=[TWIN, CAPTURE], ids=["twin", "capture"])
def slow(request: pytest.FixtureRequest) -> str:
    return f"import schemas.control; schemas.control.SAME_SIGNAL_S = {SAME_SIGNAL_S}\n{request.param}"


def test_a_second_sigterm_ends_twin_and_capture_at_once(slow: str) -> None:
    """The same signal may come twice, from a service manager and from the owner."""
    program = [sys.executable, "-c", slow.replace("WORK", "time.sleep(60)")]
    with started(program, subprocess.PIPE) as child:
        child.send_signal(signal.SIGTERM)
        assert "stopping" in child.stdout.readline()
        for number in (signal.SIGTERM, signal.SIGINT, OWNER_DIED):
            child.send_signal(number)
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(SAME_SIGNAL_S + 0.5)
        child.send_signal(OWNER_DIED)
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(0.3)
        child.send_signal(signal.SIGTERM)
        assert child.wait(10) == -signal.SIGTERM


def test_a_second_sigterm_ends_what_runs_no_python(slow: str) -> None:
    """Such as the writing of a table, to a disk that stands still."""
    work = f"time.sleep({SAME_SIGNAL_S + 0.2}); emit('busy'); __import__('hashlib').pbkdf2_hmac('md5', b'', b'', 1 << 23)"
    with started([sys.executable, "-c", slow.replace("WORK", work)], subprocess.PIPE) as child:
        child.send_signal(signal.SIGTERM)
        assert "stopping" in child.stdout.readline()
        assert "busy" in child.stdout.readline()
        child.send_signal(signal.SIGTERM)
        assert child.wait(10) == -signal.SIGTERM


def test_twin_and_capture_stop_in_order_at_the_first_sigterm(slow: str) -> None:
    with started([sys.executable, "-c", slow.replace("WORK", "pass")], subprocess.PIPE) as child:
        child.send_signal(signal.SIGTERM)
        assert [json.loads(line)["event"] for line in child.stdout] == ["stopping", "done"]
        assert child.wait(10) == 0


def test_what_may_not_be_dropped_waits_for_its_reader_behind_what_was_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as reader, os.fdopen(writing, "w") as writer:
        monkeypatch.setattr(sys, "stdout", writer)
        outlet = Outlet("stdout")
        while outlet.write("progress " * 400 + "\n", 0.0):
            pass
        read: list[bytes] = []
        # The owner reads again only when the last word has been written already.
        late = threading.Timer(0.3, lambda: read.extend(reader))
        late.start()
        assert outlet.write("done\n")
        writer.close()
        late.join()
    assert read[-1] == b"done\n"


WITHOUT_ROOM = """
import asyncio, sys
from schemas.control import emit
from schemas.loop_commands import Commands

async def main():
    commands = await Commands.open("stop")
    asked = asyncio.ensure_future(commands.next())
    worked = 0
    while not asked.done():
        worked += 1
        emit("progress", worked=worked)
        await asyncio.sleep(0.01)
    emit("done")
    open(sys.argv[1], "w").write(str(worked))

asyncio.run(main())
"""


@pytest.mark.parametrize("full", [["stdout"], ["stdout", "stderr"]])
def test_an_owner_that_can_be_told_nothing_still_stops_it(full: list[str], tmp_path: Path) -> None:
    """A full disk, for example: ENOSPC."""
    with Path("/dev/full").open("w") as disk:
        child = subprocess.Popen(
            [sys.executable, "-c", WITHOUT_ROOM, str(tmp_path / "worked")],
            stdin=subprocess.PIPE,
            stdout=disk,
            stderr=disk if "stderr" in full else subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    _, said = child.communicate(b'no command\n{"command": "stop"}\n', timeout=30)
    assert child.returncode == 0
    assert int((tmp_path / "worked").read_text()) > 0
    if "stderr" not in full:
        assert said.decode().splitlines() == [
            "event not delivered to the owner: refused",
            "a line on standard input: 'no command' is no JSON object with a text \"command\"",
            "event not delivered to the owner: done",
        ]


@pytest.mark.parametrize("line_bytes", [70, 1_000, 10_000])
def test_a_terminal_that_nobody_reads_stops_no_work(line_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-S, or an ssh session whose connection is away."""
    reading, terminal = os.openpty()
    with os.fdopen(terminal, "w") as writer, os.fdopen(reading, "rb", buffering=0) as reader:
        monkeypatch.setattr(sys, "stdout", writer)
        outlet = Outlet("stdout")
        taken: list[bool] = []

        def write() -> None:
            taken.extend(outlet.write(f"{at}".rjust(line_bytes - 1) + "\n", 0.0) for at in range(4_000))

        writing = threading.Thread(target=write, daemon=True)
        writing.start()
        writing.join(10)
        stood_still = writing.is_alive()
        assert os.get_blocking(writer.fileno()), "others have this terminal as it was"
        read = b""
        while select.select([reader], [], [], 0.3)[0]:
            read += reader.read(65_536)
        writing.join(10)
    assert not stood_still
    assert not all(taken)
    # The kernel moves what a terminal holds along now and then, and has room again though nobody reads: lines are missing then, but
    # what is there is whole, in order, and what was said to be taken is there.
    *lines, _begun = read.split(b"\r\n")
    numbers = [int(line) for line in lines]
    assert numbers == sorted(set(numbers))
    assert {at for at, was_taken in enumerate(taken) if was_taken} <= set(numbers)
    assert {len(line) for line in lines} <= {line_bytes - 1}
    # It has room for 4,095 bytes at least (N_TTY_BUF_SIZE); for a longer line, when it likes.
    assert lines or line_bytes > 4_095
