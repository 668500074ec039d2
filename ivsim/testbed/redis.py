"""A Redis of the run's own, on loopback or in a namespace; makes no key."""

from __future__ import annotations

import re
import socket
from typing import Final

from ivsim.testbed.owned_server import OwnedServer
from ivsim.testbed.paths import compose_dir
from ivsim.testbed.programs import first_line, program, where
from ivsim.testbed.registry import RunRecord
from ivsim.testbed.server import ServerKind
from schemas.namespace import inside

STOP_TIMEOUT_S: Final = 20.0
DEFAULT_PORT: Final = 6379
NAME: Final = "redis-server"
ANSWER_S: Final = 5.0


class RedisServer(OwnedServer):
    """One server with its append-only file in the run's directory.

    Args:
        memory_mib: what its data may take; more is refused, nothing is evicted.
    """

    # Reading an append-only file of the largest size takes most of it.
    START_TIMEOUT_S = 60.0

    def __init__(
        self,
        record: RunRecord,
        *,
        host: str = "127.0.0.1",
        port: int | None = None,
        namespace: str | None = None,
        memory_mib: int = 1_024,
        name: str = NAME,
    ) -> None:
        super().__init__(record, name, namespace)
        self._memory_mib = memory_mib
        self.host = host
        self.port = port or self._own_port()

    def relaunch(self) -> None:
        """Begin to start again after a kill, with the same address and file; `ready` says when it answers."""
        argv = [_found(), str(self._dir / "redis.conf")]
        self._launch(argv, stop_timeout_s=STOP_TIMEOUT_S)

    def ready(self) -> bool:
        """Return whether it answers; it listens before it has read its file."""
        with inside(self._namespace):
            return answers(self.host, self.port)

    def _prepare(self) -> None:
        _found()
        self._make_directory()
        self._configure()

    def _own_port(self) -> int:
        if self._namespace is None:
            return self._held_port(self.host)
        return DEFAULT_PORT

    def _configure(self) -> None:
        shared = (compose_dir() / "redis" / "redis.conf").read_text()
        own = {
            "bind": self.host,
            "port": self.port,
            "dir": f'"{self._dir}"',
            "maxmemory": f"{self._memory_mib}mb",
        }
        lines = "".join(f"{key} {value}\n" for key, value in own.items())
        (self._dir / "redis.conf").write_text(shared + lines)


def answers(host: str, port: int) -> bool:
    """Return whether a Redis has read its file and answers."""
    try:
        with socket.create_connection((host, port), ANSWER_S) as asked:
            asked.sendall(b"PING\r\n")
            return asked.recv(16) == b"+PONG\r\n"
    except OSError:
        return False


def _found() -> str:
    return program(NAME, NAME)


def _version() -> str | None:
    path = where(NAME)
    match = re.search(r"v=([0-9.]+)", first_line(path, "--version")) if path else None
    return match[1] if match else None


KIND = ServerKind(
    NAME,
    NAME,
    "apt-get install redis-server",
    _found,
    _version,
    RedisServer,
    needed_for="--platform redis",
)
