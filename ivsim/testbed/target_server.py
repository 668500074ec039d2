"""A peer that is there, as the parts of a run find one of their own: the relay to it at the cloud's end of the link."""

from __future__ import annotations

from gateways.protocols import PROTOCOLS
from ivsim.target import Target
from ivsim.testbed.registry import RunRecord
from ivsim.testbed.relay_server import RelayServer

NAME = "target"


class TargetServer(RelayServer):
    """The relay to the peer. What is behind it is not ours, and is neither started nor stopped."""

    def __init__(self, record: RunRecord, target: Target, *, host: str, namespace: str) -> None:
        super().__init__(
            record,
            NAME,
            namespace=namespace,
            host=host,
            port=target.port,
            target=(target.host, target.port),
            transport=PROTOCOLS[target.protocol].transport,
        )

    def last_save_s(self) -> float | None:
        """Return None: when it saves nobody here knows."""
        return None

    def save(self) -> None:
        """Do nothing: what it saves is its owner's matter."""
