"""Our own Python child processes, forked of one that has imported everything for them; the owner's as any other."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import IO, Final, cast

from ivsim.testbed.child import Child
from ivsim.testbed.fork_server import MESSAGE_BYTES
from ivsim.testbed.process import NotReady, OwnedProcess
from ivsim.testbed.registry import RunRecord

ANSWER_S: Final = 60.0
# One thread: a fork has no other, and a library's own would be missing in it.
_ONE_THREAD: Final = {"OPENBLAS_NUM_THREADS": "1"}
_PR_SET_CHILD_SUBREAPER: Final = 36
_PR_GET_CHILD_SUBREAPER: Final = 37
_adopting: Final = threading.Lock()  # the setting is of the whole process
_libc: Final = ctypes.CDLL(None)


class Forked:
    """A child of ours that another process has forked: what `subprocess.Popen` is of one that we have started."""

    def __init__(self, pid: int, stdin: IO[str], stdout: IO[str]) -> None:
        self.pid, self.stdin, self.stdout = pid, stdin, stdout
        self.returncode: int | None = None
        self._reaping = threading.Lock()

    def wait(self) -> int:
        """Reap it once it has ended; return its exit code."""
        with self._reaping:
            if self.returncode is None:
                self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            return self.returncode


class ForkServer(OwnedProcess):
    """The process that forks; ready at once, and it works once it has imported `modules`.

    Processes that were forked have the ids of the server's strings and addresses in common: measurements that are to be
    independent need another server each.
    """

    def __init__(self, name: str, modules: Sequence[str], record: RunRecord) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(ANSWER_S)
        self._ready = self._unanswered = False
        with theirs, ExitStack() as stack:
            stack.callback(self._socket.close)
            super().__init__(
                name,
                [sys.executable, "-m", "ivsim.testbed.fork_server", *modules],
                record,
                environment=_ONE_THREAD,
                stdin=theirs.fileno(),
            )
            stack.pop_all()

    def fork(self, arguments: Sequence[str], log: IO[bytes], namespace: str | None) -> Forked:
        """Return a child that calls `main` of a module with the words behind it; ProcessDied when the server has ended."""
        if self._unanswered:  # what it said before it was killed may still lie in the socket
            raise self.death(self._end())
        if not self._ready:
            self._answer()
            self._ready = True
        module, *words = arguments
        asked = json.dumps({"module": module, "arguments": words, "namespace": namespace}).encode()
        (theirs_in, ours_in), (ours_out, theirs_out) = os.pipe(), os.pipe()
        stdin, stdout = os.fdopen(ours_in, "w"), os.fdopen(ours_out)
        try:
            with _subreaper():
                with contextlib.suppress(BrokenPipeError):  # there is no answer then
                    socket.send_fds(self._socket, [asked], [theirs_in, theirs_out, log.fileno()])
                forked = Forked(self._pid(), stdin, stdout)
                self._answer()  # it is ours now
                return forked
        except BaseException:  # it stops by itself where it has begun: its owner has let go of its input
            stdin.close()
            stdout.close()
            self._unanswered = True
            self.kill()  # what it may still answer would be taken for another fork's
            raise
        finally:
            os.close(theirs_in)
            os.close(theirs_out)

    def _pid(self) -> int:
        answer = self._answer()
        if not answer.isdigit():
            raise NotReady(f"{self.name} could not fork")
        return int(answer)

    def _answer(self) -> bytes:
        try:
            answer = self._socket.recv(MESSAGE_BYTES)
        except TimeoutError:
            raise NotReady(f"{self.name} did not answer within {ANSWER_S:g} s") from None
        except OSError:
            answer = b""
        if not answer:
            raise self.death(self._end())
        return answer

    def stop(self, timeout_s: float | None = None) -> int:
        self._socket.close()
        return super().stop(timeout_s)


class ForkedChild(Child):
    """A child as every other, but for its start; `arguments` begin with a module that has a `main`."""

    def __init__(
        self,
        server: ForkServer,
        name: str,
        arguments: Sequence[str],
        record: RunRecord,
        *,
        namespace: str | None = None,
    ) -> None:
        self._server = server
        super().__init__(name, arguments, record, namespace=namespace)

    def _started(
        self, argv: Sequence[str], log: IO[bytes], namespace: str | None, environment: Mapping[str, str]
    ) -> subprocess.Popen[str]:
        del environment  # the server's, which has the run's marks
        # It has what `OwnedProcess` and `Child` use of one.
        return cast("subprocess.Popen[str]", self._server.fork(argv[2:], log, namespace))


@contextmanager
def _subreaper() -> Iterator[None]:
    """Adopt what our descendants leave behind, meanwhile; a process that does so always goes on to."""
    with _adopting:
        before = ctypes.c_int(0)
        _libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0)
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            yield
        finally:
            _libc.prctl(_PR_SET_CHILD_SUBREAPER, before.value, 0, 0, 0)
