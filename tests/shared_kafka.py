"""One Kafka for a test session: the first test that asks has it started, the processes of the session share it, and the
process that began the session ends it behind the last test."""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
import threading
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from ivsim.testbed.kafka import KafkaServer
from ivsim.testbed.registry import RunRecord

# Beyond what a start may take, on a machine that pauses.
ANSWER_S = 2 * KafkaServer.START_TIMEOUT_S


class Kafka(NamedTuple):
    """Where a Kafka answers, the directory that holds its records, and its process."""

    bootstrap: str
    log: str
    pid: int


@contextmanager
def session_notes(base: Path) -> Iterator[RunRecord]:
    """The run record of a process of the session, with notes in a directory of its own."""
    previous = os.environ.get("IVSIM_STATE_DIR")
    os.environ["IVSIM_STATE_DIR"] = str(base / "state")
    with RunRecord(f"t{uuid.uuid4().hex[:8]}", base) as record:
        yield record
    if previous is None:
        del os.environ["IVSIM_STATE_DIR"]
    else:
        os.environ["IVSIM_STATE_DIR"] = previous


@contextmanager
def started(record: RunRecord) -> Iterator[Kafka]:
    """A Kafka of this process."""
    with KafkaServer(record) as server:
        yield Kafka(server.bootstrap, str(server.log), server.process.pid)


def shared(path: str) -> Kafka:
    """Return the Kafka that the owner of the socket at `path` has, which may have to start it first."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(ANSWER_S)
        connection.connect(path)
        answer = json.loads(connection.makefile().read())
    if error := answer.get("error"):
        raise RuntimeError(f"the session's Kafka: {error}")
    return Kafka(**answer)


class SharedKafka:
    """Tells each that connects to `path` where the Kafka is; the first has it started."""

    def __init__(self) -> None:
        self._base = Path(tempfile.mkdtemp(prefix="ivsim-session-"))
        self.path = str(self._base / "socket")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen()
        # Kafka ends with the thread that began it: the one that closes it.
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        """End the Kafka, if there is one, and the thread."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        shutil.rmtree(self._base)

    def _serve(self) -> None:
        answer: dict[str, Any] = {}
        with ExitStack() as stack:
            while True:
                try:
                    connection, _ = self._listener.accept()
                except OSError:  # closed
                    return
                with connection:
                    answer = answer or self._start(stack)
                    with suppress(OSError):  # it has gone
                        connection.sendall(json.dumps(answer).encode())

    def _start(self, stack: ExitStack) -> dict[str, Any]:
        try:
            record = stack.enter_context(session_notes(self._base))
            return stack.enter_context(started(record))._asdict()
        except Exception as error:  # noqa: BLE001 (told to each that asks)
            return {"error": f"{type(error).__name__}: {error}"}
