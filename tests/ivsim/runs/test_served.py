"""A testbed for other processes, without a testbed: what is refused before anything is started."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ivsim.option_rules import run_options
from ivsim.options import RunOptions
from ivsim.runs import served
from ivsim.runs.interrupt import Interrupted
from ivsim.runs.outcome import EXIT_SIGNALLED, Outcome
from ivsim.runs.served import MAX_REQUEST_BYTES, ask, listening, socket_path
from schemas.errors import Refusal


@pytest.fixture(autouse=True)
def _state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("IVSIM_STATE_DIR", str(tmp_path / "state"))


def test_no_testbed_is_a_refusal_that_names_the_command() -> None:
    with pytest.raises(Refusal, match=r"no testbed is up .*: `ivsim up`"):
        ask(run_options(), None, quiet=True)


def test_one_testbed_at_a_time_and_its_socket_goes_with_it() -> None:
    with listening():
        mode = socket_path().stat().st_mode
        assert stat.S_ISSOCK(mode)
        assert stat.S_IMODE(mode) == 0o600
        with pytest.raises(Refusal, match="a testbed is up already"), listening():
            pass
    assert not socket_path().exists()


def test_the_socket_of_a_killed_testbed_is_taken_over() -> None:
    with listening():
        os.link(socket_path(), socket_path().with_suffix(".kept"))
    socket_path().with_suffix(".kept").rename(socket_path())  # bound once, and nobody listens any more
    with pytest.raises(Refusal, match="no testbed is up"):
        ask(run_options(), None, quiet=True)
    with listening():
        pass


class Paper:
    """In a testbed's place: a run that says so many lines, and can end the testbed."""

    def __init__(self, lines: int = 0) -> None:
        self.lines, self.said, self.over = lines, 0, False

    def run(self, _options: RunOptions, _output: Path | None, **named: Any) -> Outcome:
        for at in range(self.lines):
            named["display"].phase(f"line {at}".ljust(100, "."))
            self.said += 1
        return Outcome(EXIT_SIGNALLED + 15, None) if self.over else Outcome(0, None)


Served = Callable[[Paper], Any]


@pytest.fixture
def serving() -> Iterator[Served]:
    """Serve a testbed of paper; at the end one run more ends it, as a signal would."""
    with contextlib.ExitStack() as stack:

        def begin(testbed: Paper) -> None:
            server = stack.enter_context(listening())
            ended: list[BaseException] = []

            def run() -> None:
                try:
                    served.serve(testbed, server)  # type: ignore[arg-type]
                except BaseException as error:  # noqa: BLE001 - whatever ends it
                    ended.append(error)

            thread = threading.Thread(target=run, daemon=True)
            thread.start()

            def end() -> None:
                assert ended == []
                testbed.over, testbed.lines = True, 0
                assert told(REQUEST)["done"]["exit_code"] == EXIT_SIGNALLED + 15
                thread.join(10)
                assert [type(error) for error in ended] == [Interrupted]

            stack.callback(end)

        yield begin


REQUEST = (
    json.dumps({"options": run_options().model_dump(mode="json"), "output": None, "directory": "/"}).encode()
    + b"\n"
)


def client() -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.settimeout(30)
    made.connect(str(socket_path()))
    return made


def told(line: bytes) -> Any:
    """Return the only answer to a line."""
    with client() as one:
        with contextlib.suppress(
            BrokenPipeError, ConnectionResetError
        ):  # it has refused the beginning already
            one.sendall(line)
        with one.makefile("rb") as answers:
            answer = json.loads(answers.readline())
            with contextlib.suppress(ConnectionResetError):  # so ends what it has not read
                assert answers.read() == b""
    return answer


@pytest.mark.parametrize(
    "line",
    [b"\xff\n", b"[" * 100_000 + b"\n", b"[]\n", b"5\n", b"{}\n", b"\n", b"\xff" * 100_000 + b"\n",
     b'{"options": 5, "output": null, "directory": "/"}\n', REQUEST * 2,
     REQUEST.replace(b"}\n", b', "abort_on": 5}\n'), REQUEST.replace(b"}\n", b', "abort_on": [5]}\n'),
     b'{"options": {}, "output": "\\ud800", "directory": "\\u0000"}\n'],
)  # fmt: skip
def test_what_is_no_request_is_refused_in_a_line_and_ends_nothing(line: bytes, serving: Served) -> None:
    serving(Paper())
    refused = told(line)["refused"]
    assert "\n" not in refused
    assert len(refused) < 500
    assert told(REQUEST)["done"]["exit_code"] == 0


@pytest.mark.parametrize("more", [-1, 0, 1, 99 * MAX_REQUEST_BYTES])
def test_a_request_has_a_largest_size(more: int, serving: Served) -> None:
    serving(Paper())
    answer = told(REQUEST.rstrip().ljust(MAX_REQUEST_BYTES + more - 1) + b"\n")
    if more <= 0:
        assert answer["done"]["exit_code"] == 0
    else:
        assert "longer than 1,048,576 bytes" in answer["refused"]


def test_who_drips_is_refused_as_well(serving: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "REQUEST_S", 0.3)
    serving(Paper())
    over = threading.Event()
    with client() as slow:

        def drip() -> None:
            with contextlib.suppress(OSError):
                while not over.wait(0.01):
                    slow.send(b" ")

        dripping = threading.Thread(target=drip)
        dripping.start()
        assert told(REQUEST)["done"]["exit_code"] == 0
        over.set()
        dripping.join()


@pytest.mark.parametrize("beginning", [b"", b"{"])
def test_who_says_nothing_or_no_whole_line_is_refused_and_the_next_one_served(
    beginning: bytes, serving: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "REQUEST_S", 0.3)
    serving(Paper())
    with client() as silent:
        silent.sendall(beginning)
        assert told(REQUEST)["done"]["exit_code"] == 0
        assert json.loads(silent.recv(1_000))["refused"] == "no whole line within 0.3 s"


def test_a_client_that_does_not_read_misses_progress_and_hears_the_last_word(serving: Served) -> None:
    testbed = Paper(2_000)
    serving(testbed)
    with client() as deaf:
        deaf.sendall(REQUEST)
        assert told(REQUEST.replace(b"{", b"", 1))["refused"]  # it is served once the run is over
        assert testbed.said == 2_000
        with deaf.makefile("rb") as answers:
            *lines, last = [json.loads(line) for line in answers]
    assert [line["say"].split(".")[0] for line in lines] == [f"line {at}" for at in range(len(lines))]
    assert 0 < len(lines) < 2_000
    assert last["done"]["exit_code"] == 0
