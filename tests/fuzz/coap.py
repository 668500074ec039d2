"""CoAP datagrams at the gateway: options with lies in them, blocks out of order, payloads that are none."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from random import Random
from types import TracebackType
from typing import Any, Self

from gateways.protocols import PROTOCOLS
from gateways.protocols.base import Endpoint, IntakeSettings
from gateways.protocols.coap.address import coap_path
from gateways.protocols.coap.datagram import Remote, decoded
from ivsim.study.engines.codec.fuzz import hostile
from schemas.topics import vehicle_id
from tests.fuzz.surface import VEHICLES, Payloads, Surface, paper_bridge
from tests.fuzz.words import ODD

_CHANGED = 68  # 2.04
_REMOTES = [Remote(("127.0.0.1", 40_000 + k)) for k in range(50)]
_GOOD = Remote(("127.0.0.1", 39_999))
_URI_PATH, _BLOCK1 = 11, 27
_OPTIONS = (
    1,
    3,
    4,
    5,
    6,
    7,
    8,
    _URI_PATH,
    12,
    14,
    15,
    17,
    20,
    23,
    _BLOCK1,
    28,
    35,
    39,
    60,
    258,
    292,
    2_049,
    65_000,
)


class Coap(Surface):
    """The intake, its message layer and the bridge; the socket is bound, and datagrams are handed to it."""

    name, good_every = "coap", 500
    # Message IDs are kept for 247 s, up to two million of them: a run of a million inputs is over long before that is
    # full. One of 14 million ends flat, at 286 MB.
    growth_bytes = 40_000_000

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._payloads = Payloads("protobuf")
        self._bad: Iterator[bytes] = hostile([self._payloads.next(k) for k in range(VEHICLES)], self.rng)
        self._answers: list[tuple[bytes, Any]] = []
        self._message_id = 0

    async def __aenter__(self) -> Self:
        protocol = PROTOCOLS["coap"]
        bridge, self._delivery = paper_bridge("protobuf", "coap", "con")
        self._intake: Any = protocol.intake(
            Endpoint("127.0.0.1", 0), protocol.modes["con"], bridge, IntakeSettings(format="protobuf")
        )
        bridge.connect(self._intake)
        await self._intake.open()
        self._udp = self._intake._udp
        self._udp.layer.transmit = self._transmitted
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._intake.close()

    def _transmitted(self, datagram: bytes, remote: Any) -> None:
        if tuple(remote) == _GOOD:
            self._answers.append((datagram, remote))
        else:
            self.outcomes[f"{datagram[1] >> 5}.{datagram[1] & 31:02d}"] += 1

    async def hostile(self) -> None:
        rng = self.rng
        self.last = datagram = self._datagram()
        self.outcomes["datagrams"] += 1
        self._udp.receive(datagram, rng.choice(_REMOTES))
        if self.outcomes["datagrams"] % 64 == 0:
            await asyncio.sleep(0)

    async def good(self) -> None:
        k = self.rng.randrange(VEHICLES)
        payload = self._payloads.next(k)
        self._message_id = (self._message_id + 1) % 65_536
        path = [(_URI_PATH, segment.encode()) for segment in coap_path(vehicle_id(k + 1))]
        self.last = datagram = written(0x42, 2, self._message_id, b"go", path, payload)
        self._answers.clear()
        before = self._delivery.records
        self._udp.receive(datagram, _GOOD)
        await asyncio.sleep(0)
        assert self._delivery.records == before + 1
        assert self._delivery.last == (vehicle_id(k + 1).encode(), payload)
        (answer, _) = self._answers.pop()
        message = decoded(answer, _GOOD)
        assert message is not None
        assert (int(message.code), message.mid, message.token) == (_CHANGED, self._message_id, b"go")

    def _datagram(self) -> bytes:
        rng = self.rng
        if rng.random() < 0.1:
            return rng.randbytes(rng.randrange(80))
        segments = list(coap_path(vehicle_id(rng.randrange(1, VEHICLES + 1))))
        if rng.random() < 0.3:
            segments[rng.randrange(3)] = rng.choice(ODD)[:200]
        options = [(_URI_PATH, segment.encode("utf-8", "replace")) for segment in segments]
        options += [(rng.choice(_OPTIONS), _value(rng)) for _ in range(rng.randrange(4))]
        kind = rng.randrange(256) if rng.random() < 0.1 else 0x40 | rng.randrange(4) << 4
        token = rng.randbytes(rng.choice((0, 0, 2, 8)))
        code = 2 if rng.random() < 0.7 else rng.choice((0, 1, 3, 4, 5, 69, 132, rng.randrange(256)))
        payload = next(self._bad)[:1_500]
        head = kind & 0xF0 | len(token) if rng.random() < 0.95 else kind
        datagram = bytearray(written(head, code, rng.randrange(65_536), token, sorted(options), payload))
        if rng.random() < 0.3:
            for _ in range(rng.randrange(1, 4)):
                datagram[rng.randrange(min(60, len(datagram)))] = rng.randrange(256)
        return bytes(datagram[: rng.randrange(len(datagram))] if rng.random() < 0.1 else datagram)


def _value(rng: Random) -> bytes:
    if rng.random() < 0.5:  # numbers: of blocks, sizes, formats
        return rng.randrange(1 << rng.choice((4, 8, 16, 24, 32))).to_bytes(4, "big").lstrip(b"\0")
    return rng.randbytes(rng.choice((0, 1, 3, 8, 9, 40, 300)))


def written(
    head: int, code: int, message_id: int, token: bytes, options: list[tuple[int, bytes]], payload: bytes
) -> bytes:
    """Return a datagram (RFC 7252, 3); `options` in the order of their numbers."""
    made = bytearray((head, code)) + message_id.to_bytes(2, "big") + token
    last = 0
    for number, value in options:
        delta, delta_more = _nibble(number - last)
        length, length_more = _nibble(len(value))
        made += bytes((delta << 4 | length,)) + delta_more + length_more + value
        last = number
    return bytes(made + (b"\xff" + payload if payload else b""))


def _nibble(value: int) -> tuple[int, bytes]:
    if value < 13:
        return value, b""
    if value < 269:
        return 13, bytes((value - 13,))
    return 14, (value - 269).to_bytes(2, "big")
