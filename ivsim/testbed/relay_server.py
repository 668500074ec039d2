"""A relay at the cloud's end of a link, as a process of the run: it leads to a server that is not in the link's network."""

from __future__ import annotations

import sys
from typing import Final

from ivsim.testbed.owned_server import OwnedServer
from ivsim.testbed.registry import RunRecord

# By transport.
RELAYS: Final = {"tcp": "ivsim.testbed.relay", "udp": "ivsim.testbed.udp_relay"}


class RelayServer(OwnedServer):
    """One relay: it listens when `__enter__` returns.

    Args:
        namespace: of the network, in which it listens at `host` and `port`.
        target: HOST and port of the server, as this process finds it.
        transport: a key of RELAYS.

    Attributes:
        host, port: where clients connect, inside the namespace.
    """

    START_TIMEOUT_S = 15.0

    def __init__(
        self,
        record: RunRecord,
        name: str,
        *,
        namespace: str,
        host: str,
        port: int,
        target: tuple[str, int],
        transport: str = "tcp",
    ) -> None:
        super().__init__(record, name)
        self._network, self._behind, self._transport = namespace, target, transport
        self.host, self.port = host, port

    def relaunch(self) -> None:
        self._ready.unlink(missing_ok=True)
        target_host, target_port = self._behind
        self._launch(
            [
                sys.executable, "-m", RELAYS[self._transport], self._network, self.host, str(self.port), target_host,
                str(target_port), str(self._ready),
            ]
        )  # fmt: skip

    def ready(self) -> bool:
        return self._ready.exists()

    def _prepare(self) -> None:
        self._make_directory()
        self._ready = self._dir / "ready"
