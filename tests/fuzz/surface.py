"""What a surface under malformed input is to the runner, and paper in place of what stands behind it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from random import Random
from types import TracebackType
from typing import Any, Self

from bench.twin_load import Fleet
from gateways.bridge import Bridge
from gateways.counters import Counters
from gateways.delivery import Header
from gateways.protocols.ends import Receipt
from schemas.formats import FORMATS
from schemas.formats.media_types import formats_by_media_type
from twin.service.exposition import resident_bytes

VEHICLES = 6
START_NS = 1_800_000_000_000_000_000


class Surface(ABC):
    """Takes one malformed input after the other; a good one in between must be taken as ever.

    Attributes:
        good_every: how many malformed inputs lie between two good ones.
        outcomes: what became of the inputs, by name.
        last: the input at hand, for the report of a failure.
        growth_bytes: what its memory may grow by in the second half of a run. Caches with a bound fill in the first
            half; what still grows afterwards, grows for ever.
    """

    good_every = 200
    growth_bytes = 12_000_000

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.outcomes: Counter[str] = Counter()
        self.last: Any = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        return

    def resident_bytes(self) -> int:
        """Return the memory of the process that takes the inputs."""
        return resident_bytes()

    @abstractmethod
    async def hostile(self) -> None:
        """Give one malformed input; whatever is no answer to it (an exception, a 500) is raised."""

    @abstractmethod
    async def good(self) -> None:
        """Give a good input; AssertionError when it is not taken."""


class PaperDelivery:
    """A platform that has each record at once."""

    acknowledge: Callable[[Receipt], None]

    def __init__(self) -> None:
        self.held = self.held_bytes = 0
        self.records = self.letters = 0
        self.last: tuple[bytes, bytes] = b"", b""

    def deliver(self, key: bytes, payload: bytes, headers: list[Header], receipt: Receipt) -> None:
        self.records += 1
        self.last = key, payload
        self.acknowledge(receipt)

    def dead_letter(
        self,
        key: bytes,
        payload: bytes,
        headers: list[Header],
        receipt: Receipt,
        reason: str,
        *,
        size_bytes: int | None = None,
    ) -> None:
        self.letters += 1
        reason.encode()[:200]
        self.acknowledge(receipt)

    def poll(self) -> None:
        pass

    def flush(self) -> None:
        pass


def paper_bridge(format_name: str, protocol: str, mode: str) -> tuple[Bridge, PaperDelivery]:
    """Return a bridge whose platform is of paper; `connect` gives it its intake."""
    delivery = PaperDelivery()
    bridge = Bridge(
        delivery=delivery,
        counters=Counters(),
        payload_format=FORMATS[format_name],
        by_media_type=formats_by_media_type(format_name),
        protocol=protocol,
        mode=mode,
        held_max=1_000,
        held_bytes_max=1 << 26,
    )
    return bridge, delivery


class Payloads:
    """Good payloads of a fleet that drives, in one format."""

    def __init__(self, format_name: str) -> None:
        self._fleet = Fleet(VEHICLES)
        self._format = FORMATS[format_name]
        self.sequence = 0

    def next(self, k: int) -> bytes:
        """Return vehicle k's next payload (k from 0)."""
        status, self.sequence = self._fleet.status(k, START_NS)
        return self._format.encode(status)
