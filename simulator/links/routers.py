"""What a routed link needs of a router: a kernel that forwards between two devices and takes netlink blocks."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

# A dump begins before the instant by what the one before took, and half as much again; the first by this.
DUMP_LEAD, FIRST_DUMP_S = 1.5, 0.2


class Block(NamedTuple):
    """Netlink messages that are handed over together, and the sequence number of the last."""

    packed: bytes
    last: int


class Answer(NamedTuple):
    """When a kernel began with blocks and had all of them, by this host's time.monotonic; and what it said.

    Attributes:
        replies: of each block.
        dump: what was asked for right before, empty if nothing was; `dumped_s`: when it was there.
    """

    began_s: float
    ended_s: float
    replies: list[bytes]
    dump: bytes
    dumped_s: float


class Apply(Protocol):
    """Hands what a router was given to its kernel."""

    def __call__(self, at_s: float, dump: Block | None) -> Answer:
        """Do so at an instant of time.monotonic, at once when that has passed; read `dump` so early that it is there by then."""


class Router(Protocol):
    """A kernel that forwards between two devices and takes netlink blocks."""

    def open(self, stack: contextlib.ExitStack, run: str, vehicles: int) -> tuple[str, str]:
        """Make the router joined to both namespaces; return its devices towards vehicles and cloud."""

    def dump(self, block: bytes, last: int) -> bytes:
        """Send a block; return the replies up to its last number's."""

    def prepare(self, blocks: Sequence[Block]) -> Apply:
        """Take blocks; return what hands them to the kernel. Only the last of what was prepared can be."""

    def attach(self, stack: contextlib.ExitStack) -> None:
        """Reach the router of another process, in a copy of what has opened it; `stack` lets go of it."""

    def index(self, device: str) -> int:
        """Return a device's interface index."""

    def read(self, path: str) -> bytes: ...

    def write(self, path: str, value: str) -> None: ...

    def properties(self) -> dict[str, Any]: ...
