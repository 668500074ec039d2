"""Processes that a run starts and ends itself; none of them outlives its owner, and none is ended by name."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Self

from ivsim.testbed.registry import RunRecord
from schemas.control import OWNER_DIED
from schemas.last_words import cause_of, end_of

POLL_S, LONGEST_POLL_S = 0.02, 0.1
LAST_LINES = 12
# A trace of Java's with its causes is longer than a screen, and the cause may stand at its top.
LAST_BYTES = 262_144
TCP_LISTEN = "0A"  # the kernel's number of the state
_SIGNALS = {*signal.Signals}
_KILLED = {-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP}


class ProcessDied(Exception):  # noqa: N818 - what happened, not a kind of error
    """A process of the run ended on its own; its first line says how, and why as far as the process has said.

    Attributes:
        name: the process's name in the run.
        exit_code: its exit code, negative for a signal; None where it has not ended yet.
        last_words: what it wrote last, or what it reported; None where that is told elsewhere.
        line: the message's first line.
    """

    def __init__(
        self, name: str, exit_code: int | None, last_words: str | None, log: Path | None = None
    ) -> None:
        self.name = name
        self.exit_code = exit_code
        self.last_words = last_words
        words = end_of(last_words or "", LAST_LINES)
        # Who is killed has no time to say why: what it wrote last is about something else.
        cause = "" if exit_code in _KILLED else cause_of(last_words or "")
        self.line = f"{name} {_ending(exit_code, log)}" + (f": {cause}" if cause else "")
        if last_words is not None and not words:
            self.line += f"; it wrote nothing to its log{_at(log)}"
        told_all = not words or words == cause
        super().__init__(self.line if told_all else f"{self.line}\nlast lines of its log{_at(log)}:\n{words}")


class NotReady(Exception):  # noqa: N818
    """A process lives, but was not ready in time."""


class OwnedProcess:
    """One child process in a process group of its own, ended by its owner or, at the latest, with it.

    Start it from a thread that lives as long as the run: the kernel's parent-death signal follows the thread.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        record: RunRecord,
        *,
        namespace: str | None = None,
        environment: Mapping[str, str] | None = None,
        pipes: bool = False,
        stdin: int = subprocess.DEVNULL,
        stop_timeout_s: float = 10.0,
    ) -> None:
        self.name = name
        self._pipes, self._stdin = pipes, stdin
        self.stop_timeout_s = stop_timeout_s
        self.log_path = record.directory / "logs" / f"{name}.log"
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        self.kept_log_path = record.kept_logs / self.log_path.name
        with self.log_path.open("ab") as log:
            self._log_begins_at = log.tell()  # one of its name may have written before
            marks = {**os.environ, **(environment or {}), **record.environment}
            self.popen = self._started(argv, log, namespace, marks)
        record.process(name, self.popen.pid)

    def _started(
        self, argv: Sequence[str], log: IO[bytes], namespace: str | None, environment: Mapping[str, str]
    ) -> subprocess.Popen[str]:
        pipes = self._pipes
        return subprocess.Popen(
            command(argv, namespace, OWNER_DIED if pipes else signal.SIGTERM),
            stdin=subprocess.PIPE if pipes else self._stdin,
            stdout=subprocess.PIPE if pipes else log,
            stderr=log,
            env=environment,
            start_new_session=True,  # Ctrl-C reaches the owner alone, which closes in order
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        return self.popen.pid

    def running(self) -> bool:
        """Look without reaping: until `_end` has, the ids of process and group are nobody else's."""
        if self.popen.returncode is not None:
            return False
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        except ChildProcessError:  # another thread is reaping it
            return False

    def wait_end(self, timeout_s: float) -> bool:
        """Return whether the process has ended, after `timeout_s` at the latest; it is not reaped."""
        if not self.running():
            return True
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:  # another thread has reaped it
            return True
        with os.fdopen(handle) as process:
            end = select.poll()
            end.register(process, select.POLLIN)
            return bool(end.poll(timeout_s * 1_000))

    def check(self) -> None:
        """Raise ProcessDied when the process has ended."""
        if not self.running():
            raise self.death(self._end())

    def death(self, exit_code: int | None) -> ProcessDied:
        """Return what to say of its end, with this exit code."""
        return ProcessDied(self.name, exit_code, self.last_words(), self.kept_log_path)

    def last_words(self) -> str:
        """Return the end of what it has written to its log."""
        try:
            with self.log_path.open("rb") as log:
                log.seek(max(self._log_begins_at, log.seek(0, os.SEEK_END) - LAST_BYTES))
                return log.read().decode(errors="replace")
        except OSError:
            return ""

    def wait_ready(self, ready: Callable[[], bool], timeout_s: float) -> None:
        """Return once `ready()`; ProcessDied when the process ends first, NotReady after `timeout_s`."""
        began_s = time.monotonic()
        deadline_s = began_s + timeout_s
        while not ready():
            self.check()
            if time.monotonic() > deadline_s:
                raise NotReady(self._not_ready(timeout_s))
            # What `ready` looks at tells nobody that it has changed, and a look at the kernel's table of connections
            # takes 5 ms of a core: whoever takes long is looked at less often.
            waited_s = time.monotonic() - began_s
            time.sleep(min(max(POLL_S, waited_s / 50), LONGEST_POLL_S))

    def _not_ready(self, timeout_s: float) -> str:
        said, log = self.last_words(), _at(self.kept_log_path)
        line = f"{self.name} was not ready after {timeout_s:g} s"
        if not (words := end_of(said, LAST_LINES)):
            return f"{line}; it wrote nothing to its log{log}"
        return f"{line}; it said last: {cause_of(said)}\nlast lines of its log{log}:\n{words}"

    def stop(self, timeout_s: float | None = None) -> int:
        """End the process, SIGTERM first and SIGKILL for its whole group after that; return the exit code.

        SIGTERM goes to the process alone: it closes what it has started itself in its own order.
        """
        self._terminate()
        self.wait_end(self.stop_timeout_s if timeout_s is None else timeout_s)
        code = self._end()
        self._drained()
        for pipe in (self.popen.stdin, self.popen.stdout):
            _close(pipe)
        return code

    def kill(self) -> None:
        """End the process group at once, as a fault would."""
        self._end()

    def _drained(self) -> None:
        """Return once nobody reads the pipes any more."""

    def _terminate(self) -> None:
        if self.running():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)

    def _end(self) -> int:
        """Kill what is left of the group, then reap its leader, in this order; return the exit code."""
        if self.popen.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        return self.popen.wait()


def command(argv: Sequence[str], namespace: str | None, owner_died: signal.Signals) -> list[str]:
    """Return `argv` as started: in `namespace`, and with a parent-death signal.

    `setpriv` is the inner one: a change of credentials, such as entering a namespace, may clear the signal.
    """
    inner = ["setpriv", "--pdeathsig", owner_died.name.removeprefix("SIG"), *argv]
    return inner if namespace is None else ["nsenter", f"--net=/run/netns/{namespace}", *inner]


def hold_port(host: str = "127.0.0.1") -> socket.socket:
    """Return a socket bound to a free TCP port, which is nobody else's until it is closed.

    It never listens: a server that sets SO_REUSEADDR can bind beside it, and finds the port free after a restart too.
    """
    holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        holder.bind((host, 0))
    except OSError:
        holder.close()
        raise
    return holder


def has_listener(pid: int, host: str, port: int) -> bool:
    """Return whether TCP port `port` of IPv4 address `host` is listened on in the network namespace of `pid`.

    Read from the kernel's table: connecting would show up in the server's log, and need that namespace.
    """
    wanted = f"{int.from_bytes(socket.inet_aton(host), sys.byteorder):08X}:{port:04X}"
    try:
        lines = Path(f"/proc/{pid}/net/tcp").read_text().splitlines()
    except OSError:
        return False
    return any(fields[1] == wanted and fields[3] == TCP_LISTEN for fields in map(str.split, lines[1:]))


def _ending(exit_code: int | None, log: Path | None) -> str:
    if exit_code is None:
        return "has closed its output" if log else "has failed"
    if exit_code < 0:
        return f"was ended by {_signal(-exit_code)}"
    # A shell says so of what it started that a signal has ended, and Java of itself.
    by_signal = f" ({_signal(exit_code - 128)})" if exit_code - 128 in _SIGNALS else ""
    return f"ended with exit code {exit_code}{by_signal}"


def _signal(number: int) -> str:
    return signal.Signals(number).name if number in _SIGNALS else f"signal {number}"


def _at(log: Path | None) -> str:
    return "" if log is None else f", {log}"


def _close(pipe: IO[str] | None) -> None:
    if pipe is not None:
        with contextlib.suppress(BrokenPipeError):
            pipe.close()
