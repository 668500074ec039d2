"""The words of a report's first paragraph: differences as ranges, under which conditions, and how many are left out."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from ivsim.study.engines.base import Engine
from ivsim.study.pairs import Pair, Row, named, others, plural, units_of
from ivsim.study.summary import scale_of, short

# So many combinations of axes are named one by one; of more it says how many they are.
MOST_NAMED: Final = 4
# What the verdicts that are not `yes` are called behind a number.
REST: Final = {"no": "no more than noise", "too small": "too small to matter"}

# Under what two cells were compared: the sweep, and the values of the axes that both have.
Condition = tuple[tuple[str, str], ...]


class Claim(NamedTuple):
    """A part of a headline, and the differences that it says."""

    text: str
    rows: list[Row]


def rest(rows: Sequence[Row]) -> str:
    """Return how many of some differences are of which verdict, of those that a headline does not say; "" without any."""
    counts = Counter(row.verdict for row in rows)
    return ", ".join(
        f"{number} {'is' if number == 1 else 'are'} {REST.get(verdict, f'without a verdict ({verdict})')}"
        for verdict, number in counts.items()
    )


def rises(row: Row) -> bool:
    """Return whether the second figure is the greater one."""
    return row.comparison is not None and row.comparison.difference > 0


def ranged(rows: Sequence[Row], unit: str, times: float = 1.0, *, intervals: bool = True) -> str:
    """Return the smallest and the largest of differences of one direction, `times` each, without sign, with their intervals."""
    known = sorted((c for row in rows if (c := row.comparison)), key=lambda c: abs(c.difference))
    factor, shown = scale_of(known[-1].difference, unit)
    factor *= times
    said = []
    for one in (known[0], known[-1]):
        signed = -factor if one.difference < 0 else factor
        low, high = sorted((signed * one.low, signed * one.high))
        interval = f" [{short(low)}, {short(high)}]" if intervals else ""
        said.append(f"{short(signed * one.difference)}{interval}")
    return f"{' to '.join(dict.fromkeys(said))} {shown}".strip()


def joined(claims: Sequence[tuple[str, Sequence[Claim]]], *, with_n: bool = True) -> str:
    """Return claims behind their names, each with its n, or with one n behind all where they have the same."""
    every = [claim for _, some in claims for claim in some]
    same = len({units_of(claim.rows) for claim in every}) == 1
    each = with_n and not same
    said = "; ".join(
        name
        + ", ".join(f"{claim.text} (n = {units_of(claim.rows)})" if each else claim.text for claim in some)
        for name, some in claims
    )
    return f"{said}, n = {units_of(every[0].rows)}" if with_n and same else said


def condition(pair: Pair, axis: str) -> Condition:
    """Return under what two cells along an axis were compared."""
    sweep, values = others(pair.below, axis)
    return (("sweep", sweep), *values)


def place_of(engine: Engine, some: Sequence[Condition], every: Sequence[Condition]) -> str:
    """Return which of all conditions some are: ` on all 3 traces`, ` on car-2024`; "" where there is but one."""
    each = [dict(one) for one in every]
    names = dict.fromkeys(name for one in each for name in one)
    varying = [name for name in names if len({one.get(name) for one in each}) > 1]
    if not varying:
        return ""
    alone = len(varying) == 1
    kinds = plural(varying[0]) if alone else f"combinations of {' and '.join(varying)}"
    if len(some) == len(every):
        return f" {'on' if alone else 'in'} {'both' if len(every) == 2 else f'all {len(every)}'} {kinds}"
    for name in varying:
        values = dict.fromkeys(value for one in some if (value := dict(one).get(name)) is not None)
        if sum(one.get(name) in values for one in each) == len(some):
            return f" on {_listed([named(engine, name, value) for value in values])}"
    if len(some) > MOST_NAMED:
        return f" in {len(some)} of {len(every)} {kinds}"
    words = [
        " with ".join(named(engine, name, value) for name, value in one if name in varying) for one in some
    ]
    return f" on {_listed(words)}"


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def placeholders(text: str) -> list[str]:
    """Return the names in braces, each once."""
    return list(dict.fromkeys(name for _, name, _, _ in string.Formatter().parse(text) if name))
