"""What the end of standard input means to a process, by what its standard input is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ASYNCHRONOUS = """
import asyncio
from schemas.control import Commands, emit

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
