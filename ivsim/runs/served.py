"""A testbed for other processes: `ivsim up` serves runs on a socket, `ivsim run --testbed` asks for one.

One connection is one run. The client sends one line of JSON: what is run, and what ends it early. The server answers with
lines of JSON, each with one key: `say` (a line of progress), `refused` (why nothing was started), or `done` (exit code,
error, directory).
A client that hangs up or sends anything more stops its run, as Ctrl-C does. One that does not read misses progress: the
last word has room of its own, so it is there whenever the client reads again. One that asks nothing is not waited for.

The socket lies in a directory that only its owner enters: whoever can connect could start the programs as well.
"""

from __future__ import annotations

import contextlib
import io
import json
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, cast

from rich.console import Console

from ivsim.option_rules import possible_options
from ivsim.options import RunOptions, option_name
from ivsim.runs.display import Display
from ivsim.runs.interrupt import Interrupted
from ivsim.runs.outcome import Outcome
from ivsim.testbed.paths import state_dir
from ivsim.thresholds import parse_conditions
from ivsim.told import say
from schemas.control import heeded
from schemas.errors import Refusal
from schemas.outlet import PATIENCE_S

if TYPE_CHECKING:  # a client loads nothing that a run is made of: the testbed has it
    from ivsim.runs.started import StartedRun
    from ivsim.runs.testbed import Testbed

NAME: Final = "testbed.sock"
# A client sends its request as soon as it is there.
REQUEST_S: Final = 5.0
MAX_REQUEST_BYTES: Final = 1_048_576
_WIDTH: Final = 200
_SHOWN_CHARACTERS: Final = 200
# Of what a client has not read, progress may take so much of the socket's buffer, and the last word more: poll calls a
# socket writable up to a quarter of its buffer (unix_writable in Linux' net/unix/af_unix.c).
_PROGRESS_BUFFER_BYTES: Final = 32_768
_WHOLE_BUFFER_BYTES: Final = 8 * _PROGRESS_BUFFER_BYTES


def socket_path() -> Path:
    """Return where a testbed of this user is served."""
    return state_dir() / NAME


@contextmanager
def listening() -> Iterator[socket.socket]:
    """Yield the socket of this user's testbed; Refusal when another one is served there."""
    path = socket_path()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if _answers(path):
        raise Refusal(f"a testbed is up already: {path}")
    path.unlink(missing_ok=True)  # of one that was killed
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(str(path))
        path.chmod(0o600)
        server.listen()
        try:
            yield server
        finally:
            path.unlink(missing_ok=True)


def serve(testbed: Testbed, server: socket.socket) -> None:
    """Serve one run after the other until a signal raises Interrupted."""
    while True:
        client, _ = server.accept()
        with client:
            _serve_one(testbed, client)


def ask(options: RunOptions, output: Path | None, *, quiet: bool, abort_on: Sequence[str] = ()) -> Outcome:
    """Have the testbed that is up run, and return how it ended; Refusal when none is up, or it refuses.

    Ctrl-C and SIGTERM stop the run, and what is known of it is still told.

    Args:
        options: of the run.
        output: directory of the result; None is the default.
        quiet: show no progress.
        abort_on: conditions that end it early.
    """
    request = {
        "options": options.model_dump(mode="json"),
        "output": None if output is None else str(output.absolute()),
        "directory": str(Path.cwd()),
        "abort_on": list(abort_on),
    }
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        try:
            server.connect(str(socket_path()))
        except OSError:
            raise Refusal(f"--testbed: no testbed is up (no answer on {socket_path()}): `ivsim up`") from None
        server.sendall(json.dumps(request).encode() + b"\n")
        with server.makefile("r") as lines, _stopping(server):
            return _follow(lines, quiet=quiet)


@contextmanager
def _stopping(server: socket.socket) -> Iterator[None]:
    """Turn the first Ctrl-C or SIGTERM into the word that stops the run; its result is still waited for."""

    def stop(*_: object) -> None:
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_WR)

    ending = (signal.SIGTERM, *heeded(signal.SIGINT))
    before = {number: signal.signal(number, stop) for number in ending}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _follow(lines: io.TextIOBase, *, quiet: bool) -> Outcome:
    for line in lines:
        answer = json.loads(line)
        if "say" in answer:
            if not quiet:
                say("note", answer["say"])
        elif "refused" in answer:
            raise Refusal(answer["refused"])
        else:
            return _outcome(answer["done"])
    return Outcome(exit_code=1, error="the testbed has ended during the run")


def _outcome(done: dict[str, Any]) -> Outcome:
    directory = None if done["directory"] is None else Path(done["directory"])
    outcome = Outcome(done["exit_code"], directory, error=done["error"], twin_distinct=done["twin_distinct"])
    if directory is not None and (directory / "metrics.json").is_file():
        outcome.metrics = json.loads((directory / "metrics.json").read_text())
        outcome.report = directory / "report.html"
    return outcome


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        return probe.connect_ex(str(path)) == 0


def _serve_one(testbed: Testbed, client: socket.socket) -> None:
    answers, asking = _Answers(client), _Asking(client)
    try:
        line = _line_of(client)
        if not line:
            return  # somebody has looked whether the testbed is up
        request = json.loads(line)
        output = None if request["output"] is None else Path(request["output"])
        console = Console(file=cast("IO[str]", answers), width=_WIDTH, highlight=False)
        with contextlib.chdir(
            request["directory"]
        ):  # traces, recorded drives and results are named from where the client stands
            options = possible_options(request["options"], option_name)
            watch = _watch(request.get("abort_on", []))

            def disturb(run: StartedRun) -> None:
                asking(run)
                watch(run)

            outcome = testbed.run(
                options,
                output,
                display=Display(quiet=False, console=console),
                disturb=disturb,
            )
    except Refusal as refusal:
        answers.end(refused=str(refusal))
    except (ValueError, TypeError, KeyError, OSError, RecursionError) as error:
        answers.end(refused=f"the testbed cannot read what it is asked: {repr(error)[:_SHOWN_CHARACTERS]}")
    else:
        told = {
            "exit_code": outcome.exit_code,
            "error": outcome.error,
            "directory": None if outcome.directory is None else str(outcome.directory),
            "twin_distinct": outcome.twin_distinct,
        }
        answers.end(done=told)
        if outcome.signal is not None and not asking.asked:
            raise Interrupted(outcome.signal)  # the signal was meant for the testbed


def _watch(conditions: list[str]) -> Callable[[StartedRun], None]:
    from ivsim.runs.abort import Watch  # noqa: PLC0415 - a client needs none

    return Watch(parse_conditions(conditions))


class _Asking:
    """Ends the run when the client asks for it, by a word or by hanging up, and notes that it was the client."""

    def __init__(self, client: socket.socket) -> None:
        self._client, self.asked = client, False

    def __call__(self, _run: StartedRun) -> None:
        if select.select([self._client], [], [], 0)[0]:
            self.asked = True
            raise Interrupted(signal.SIGINT)


class _Answers(io.TextIOBase):
    """Tells the client what is written, a line of progress each, and the last word; who is gone hears nothing more."""

    def __init__(self, client: socket.socket) -> None:
        self._client = client
        # The end of a line whose beginning was taken.
        self._rest = b""
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _PROGRESS_BUFFER_BYTES)

    def write(self, text: str) -> int:
        """Tell each line, if it is taken at once."""
        self._client.setblocking(False)
        for line in text.splitlines():
            with contextlib.suppress(OSError):
                self._rest = self._rest[self._client.send(self._rest) :] if self._rest else b""
                if not self._rest:
                    told = _json_line(say=line)
                    self._rest = told[self._client.send(told) :]
        return len(text)

    def end(self, **answer: Any) -> None:
        """Tell the last word, and wait a little for who does not take it."""
        self._client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _WHOLE_BUFFER_BYTES)
        self._client.settimeout(PATIENCE_S)
        with contextlib.suppress(OSError):
            self._client.sendall(self._rest + _json_line(**answer))


def _line_of(client: socket.socket) -> bytes:
    """Return the client's one line; Refusal where it does not come in time, or is none."""
    found, end_s = bytearray(), time.monotonic() + REQUEST_S
    while b"\n" not in found:
        left_s = end_s - time.monotonic()
        if left_s <= 0 or not select.select([client], [], [], left_s)[0]:
            raise Refusal(f"no whole line within {REQUEST_S:g} s")
        data = client.recv(MAX_REQUEST_BYTES)
        if not data:
            break
        found += data
        if len(found) > MAX_REQUEST_BYTES:
            raise Refusal(f"the request is longer than {MAX_REQUEST_BYTES:,} bytes")
    if found.find(b"\n") not in (-1, len(found) - 1):
        raise Refusal("the request is more than one line")
    return bytes(found)


def _json_line(**answer: Any) -> bytes:
    return json.dumps(answer).encode() + b"\n"
