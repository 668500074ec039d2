"""The way in for vehicles of other machines: an address of this host behind which a broker at the cloud's end of a link stands.

`python -m ivsim.testbed.entrance HOST PORT NAMESPACE TARGET_HOST TARGET_PORT READY` listens where it was started, then
connects from inside the namespace: `relay` the other way round, with the same two copies of each byte.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path

from ivsim.testbed.owned_server import OwnedServer
from ivsim.testbed.registry import RunRecord
from ivsim.testbed.relay import BACKLOG, until_stopped
from schemas.namespace import inside


class Entrance(OwnedServer):
    """One way in: it listens when `__enter__` returns.

    Args:
        host: an address of this host.
        namespace: in which the broker is.
        target: the broker's address and port there.

    Attributes:
        host, port: where vehicles of other machines connect.
    """

    START_TIMEOUT_S = 15.0

    def __init__(
        self, record: RunRecord, name: str, *, host: str, namespace: str, target: tuple[str, int]
    ) -> None:
        super().__init__(record, name)
        self._network, self._behind = namespace, target
        self.host, self.port = host, 0

    def relaunch(self) -> None:
        self._ready.unlink(missing_ok=True)
        target_host, target_port = self._behind
        self._launch(
            [
                sys.executable, "-m", "ivsim.testbed.entrance", self.host, str(self.port), self._network, target_host,
                str(target_port), str(self._ready),
            ]
        )  # fmt: skip

    def ready(self) -> bool:
        return self._ready.exists()

    def _prepare(self) -> None:
        self._make_directory()
        self._ready = self._dir / "ready"
        self.port = self._held_port(self.host)


def main(arguments: list[str]) -> None:
    """Listen, then relay into the namespace until SIGTERM."""
    host, port, namespace, target_host, target_port, ready = arguments
    listening = socket.create_server((host, int(port)), backlog=BACKLOG)
    Path(ready).touch()
    with inside(namespace):
        asyncio.run(until_stopped(listening, target_host, int(target_port)))


if __name__ == "__main__":
    main(sys.argv[1:])
