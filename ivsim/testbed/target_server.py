"""A peer that is there, as the parts of a run find one of their own: the relay to it at the cloud's end of the link."""

from __future__ import annotations

import sys
from typing import Final

from gateways.protocols import PROTOCOLS
from ivsim.target import Target
from ivsim.testbed.owned_server import OwnedServer
from ivsim.testbed.registry import RunRecord

NAME = "target"
# By transport.
RELAYS: Final = {"tcp": "ivsim.testbed.relay", "udp": "ivsim.testbed.udp_relay"}


class TargetServer(OwnedServer):
    """The relay: it listens when `__enter__` returns. What is behind it is not ours, and is neither started nor stopped.

    Attributes:
        host, port: where clients connect, inside the namespace.
    """

    START_TIMEOUT_S = 15.0

    def __init__(self, record: RunRecord, target: Target, *, host: str, namespace: str) -> None:
        super().__init__(record, NAME)
        self._target, self._namespace = target, namespace
        self.host, self.port = host, target.port

    def last_save_s(self) -> float | None:
        """Return None: when it saves nobody here knows."""
        return None

    def relaunch(self) -> None:
        self._ready.unlink(missing_ok=True)
        self._launch(
            [
                sys.executable, "-m", RELAYS[PROTOCOLS[self._target.protocol].transport], self._namespace, self.host,
                str(self.port), self._target.host, str(self._target.port), str(self._ready),
            ]
        )  # fmt: skip

    def ready(self) -> bool:
        return self._ready.exists()

    def _prepare(self) -> None:
        self._make_directory()
        self._ready = self._dir / "ready"
