"""Texts that are nearly right: grammar first, damage afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

ODD = (
    "", "0", "-1", "1e309", "nan", "null", "true", "*", "?" * 300, "\x00", "\u2028", "é" * 40, "%", "..", "/", "a" * 5_000,
    "9" * 400, "'", '"', "\\", "((((", "))))", ",,,,", "~0~1", "\xed\xa0\x80",
)  # fmt: skip
PATHS = (
    "features/position/properties/groundSpeedKmh", "features/*/properties/gaps", "attributes/format", "thingId",
    "_revision", "_modified", "features", "features/problem", "features/lamps/properties/items/state", "speedKmh",
    "vehicleId", "stale", "latitudeDeg", "features/motion/properties/odometerM/value",
)  # fmt: skip
_RELATIONS = ("eq", "ne", "gt", "ge", "lt", "le", "like", "ilike", "in", "exists")


def damaged(rng: Random, text: str, odd: Sequence[str] = ODD) -> str:
    """Return a text with a piece cut, doubled, replaced or put in."""
    for _ in range(rng.randrange(1, 4)):
        at, end = sorted((rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)))
        end = min(end, at + 12)
        piece = rng.choice(("", text[at:end] * 2, rng.choice(odd), chr(rng.randrange(1, 0x3000))))
        text = text[:at] + piece + text[end:]
    return text


def some(rng: Random, make: Callable[[Random], str]) -> str:
    """Return a text of that kind, in two cases of five a damaged one, in one something else."""
    share = rng.random()
    if share < 0.4:
        return make(rng)
    return damaged(rng, make(rng)) if share < 0.8 else rng.choice(ODD)


def rql(rng: Random, depth: int = 0) -> str:
    """Return a filter."""
    if depth < 5 and rng.random() < 0.35:
        name = rng.choice(("and", "or", "not"))
        count = 1 if name == "not" else rng.randrange(1, 4)
        return f"{name}({','.join(rql(rng, depth + 1) for _ in range(count))})"
    relation, path = rng.choice(_RELATIONS), rng.choice(PATHS)
    if relation == "exists":
        return f"exists({path})"
    count = rng.randrange(1, 6) if relation == "in" else 1
    return f"{relation}({path},{','.join(_value(rng, relation) for _ in range(count))})"


def _value(rng: Random, relation: str) -> str:
    if "like" in relation:
        return '"' + "".join(rng.choice("*?YV2RT017abc*") for _ in range(rng.randrange(40))) + '"'
    return rng.choice(("80.5", "0", "-1e9", "true", "null", '"protobuf"', "'YV2RT40A8KB000001'"))


def fields(rng: Random) -> str:
    """Return a field selector."""
    parts = [rng.choice(PATHS) for _ in range(rng.randrange(1, 4))]
    return ",".join(f"{part}({fields(rng)})" if rng.random() < 0.2 else part for part in parts)


def option(rng: Random) -> str:
    """Return the option of a search."""
    parts = (f"size({rng.randrange(-1, 300)})", f"sort({rng.choice('+-')}{rng.choice(PATHS)})",
             f"limit({rng.randrange(9)},{rng.randrange(250)})", "cursor(WzI1LCAiYWJjIl0)")  # fmt: skip
    return ",".join(rng.sample(parts, rng.randrange(1, 4)))
