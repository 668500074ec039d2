"""Hostile payloads: each must decode or raise PayloadError, in bounded time; measures, repairs nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Final

from ivsim.study.corpus import status_of
from schemas.errors import PayloadError
from schemas.formats import FORMATS

FULL_SHARE: Final = 0.05  # most inputs grow from a stub: as many paths, a tenth of the time


@dataclass
class Outcome:
    """What became of the inputs of one format."""

    format: str
    inputs: int
    accepted: int
    refused: int
    slowest_us: float


def hostile(seeds: list[bytes], rng: Random) -> Iterator[bytes]:
    """Yield payloads without end, each a damaged one of `seeds` or noise."""
    while True:
        payload = bytearray(rng.choice(seeds))
        yield bytes(rng.choice(_DAMAGES)(payload, rng))


def _cut(payload: bytearray, rng: Random) -> bytearray:
    return payload[: rng.randrange(len(payload) + 1)]


def _flip(payload: bytearray, rng: Random) -> bytearray:
    for _ in range(rng.randrange(1, 4)):
        payload[rng.randrange(len(payload))] ^= 1 << rng.randrange(8)
    return payload


def _overwrite(payload: bytearray, rng: Random) -> bytearray:
    """Put a length or an offset that lies somewhere near the payload's beginning or anywhere."""
    value = rng.choice(
        (b"\xff\xff\xff\xff", b"\xff" * 9 + b"\x01", b"\x00\x00\x00\x80", b"\xdd\xff\xff\xff\xff")
    )
    at = rng.randrange(min(len(payload), rng.choice((16, 128, 100_000))))
    payload[at : at + len(value)] = value
    return payload


def _splice(payload: bytearray, rng: Random) -> bytearray:
    a, b = sorted(rng.randrange(len(payload) + 1) for _ in range(2))
    at = rng.randrange(len(payload) + 1)
    payload[at:at] = payload[a : min(b, a + 64)]
    return payload


def _repeat(payload: bytearray, rng: Random) -> bytearray:
    at = rng.randrange(len(payload))
    payload[at:at] = rng.choice(
        (b"[", b'{"a":', b"\x91", b"\x81\xa1a", b"\x0a\xff", b"\xff")
    ) * rng.randrange(600)
    return payload


def _noise(_: bytearray, rng: Random) -> bytearray:
    return bytearray(rng.randbytes(rng.randrange(80)))


_DAMAGES: Final[tuple[Callable[[bytearray, Random], bytearray], ...]] = (
    _cut,
    _flip,
    _flip,
    _overwrite,
    _overwrite,
    _splice,
    _repeat,
    _noise,
)


def fuzz(name: str, inputs: int, seed: int) -> Outcome:
    """Feed one format `inputs` hostile payloads, to `decode` (all sections read) and to `peek`.

    Raises:
        AssertionError: anything but a reading or a PayloadError came out; the payload is in the text.
    """
    rng = Random(seed)
    encode = FORMATS[name].encode
    stub, full = encode(status_of("stub", seed)), encode(status_of("trailer", seed))
    small_ones, big_ones = hostile([stub], rng), hostile([full], rng)
    outcome = Outcome(name, inputs, 0, 0, 0.0)
    for _ in range(inputs):
        payload = next(big_ones if rng.random() < FULL_SHARE else small_ones)
        began_ns = time.thread_time_ns()  # what others do on this machine is not the format's time
        accepted = _taken(name, payload)
        outcome.slowest_us = max(outcome.slowest_us, (time.thread_time_ns() - began_ns) / 1e3)
        outcome.accepted += accepted
        outcome.refused += not accepted
    return outcome


def _taken(name: str, payload: bytes) -> bool:
    tried = FORMATS[name]
    accepted = True
    for read in (lambda p: tried.decode(p).document(), tried.peek):
        try:
            read(payload)
        except PayloadError as error:
            accepted = False
            if error.format != name or not (error.offset is None or 0 <= error.offset <= len(payload)):
                raise AssertionError(f"{name}: {error} for {payload.hex()}") from error
        except Exception as error:
            raise AssertionError(f"{name}: {error!r} for {payload[:4_000].hex()}") from error
    return accepted
