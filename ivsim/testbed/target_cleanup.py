"""Takes off a broker that is there what a run has left on it, and never what others have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from gateways.protocols import PROTOCOLS
from gateways.protocols.base import Endpoint
from ivsim.target import Target


class Client(NamedTuple):
    """A client of the run, as the broker knew it.

    Attributes:
        name: its client identifier, or its queue.
        endpoint: where and as whom it logs in.
    """

    name: str
    endpoint: Endpoint


def leave_as_found(target: Target, clients: Iterable[Client]) -> list[str]:
    """End what these clients have left; return a line for each of which it cannot be said."""
    protocol = PROTOCOLS[target.protocol]
    problems = []
    for client in clients:
        try:
            protocol.forget(client.endpoint, client.name)
        except (OSError, ValueError) as error:
            words = str(error) or type(error).__name__
            problems.append(f"{target} may keep {client.name}: {words.splitlines()[0]}")
    return problems
