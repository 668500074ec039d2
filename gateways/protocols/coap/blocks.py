"""Block-wise payloads at the gateway (RFC 7959, 2.5): bounded in size, one per endpoint, path and tag."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from gateways.protocols.coap.parameters import PARAMETERS

EXCHANGE_LIFETIME_S: Final = PARAMETERS.exchange_lifetime_s
MAX_PAYLOAD_BYTES: Final = 1 << 16
MAX_HELD_BYTES: Final = 256 << 20
# An assembly costs some hundred bytes beside its payload.
MAX_ASSEMBLIES: Final = 200_000

# Endpoint, path, and what keeps uploads at once from one endpoint apart (RFC 9175, 3.3).
Key = tuple[tuple[str, int], tuple[str, ...], tuple[bytes, ...]]


@dataclass(slots=True)
class _Assembly:
    touched_at_s: float
    body: bytearray = field(default_factory=bytearray)


class BlockError(Exception):
    """A block that does not fit; `code` is the class and detail of the answer, 4.08 as (4, 8)."""

    def __init__(self, code: tuple[int, int]) -> None:
        super().__init__(f"{code[0]}.{code[1]:02}")
        self.code = code[0] << 5 | code[1]


class Assemblies:
    """What has come so far of every payload on its way. A block 0 starts anew whatever was there."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._open: OrderedDict[Key, _Assembly] = OrderedDict()
        self._clock = clock
        self._held_bytes = 0

    def __len__(self) -> int:
        return len(self._open)

    def add(self, key: Key, number: int, more: bool, exponent: int, payload: bytes) -> bytes | None:
        """Return the whole payload with its last block, None before. Raises BlockError."""
        size = 1 << (exponent + 4)
        if exponent == 7 or (more and len(payload) != size) or len(payload) > size:
            raise BlockError((4, 0))
        assembly = self._start(key) if number == 0 else self._open.get(key)
        if assembly is None or len(assembly.body) != number * size:
            raise BlockError((4, 8))
        if len(assembly.body) + len(payload) > MAX_PAYLOAD_BYTES:
            self._drop(key)
            raise BlockError((4, 13))
        assembly.body += payload
        assembly.touched_at_s = self._clock()
        self._held_bytes += len(payload)
        self._open.move_to_end(key)
        while self._held_bytes > MAX_HELD_BYTES and len(self._open) > 1:
            self._drop(next(iter(self._open)))
        if more:
            return None
        self._drop(key)
        return bytes(assembly.body)

    def _start(self, key: Key) -> _Assembly:
        now_s = self._clock()
        self._drop(key)
        while self._open:
            oldest, assembly = next(iter(self._open.items()))
            room = self._held_bytes < MAX_HELD_BYTES and len(self._open) < MAX_ASSEMBLIES
            if assembly.touched_at_s + EXCHANGE_LIFETIME_S > now_s and room:
                break
            self._drop(oldest)
        self._open[key] = assembly = _Assembly(now_s)
        return assembly

    def _drop(self, key: Key) -> None:
        assembly = self._open.pop(key, None)
        if assembly is not None:
            self._held_bytes -= len(assembly.body)
