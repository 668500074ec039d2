"""What each vehicle of a run speaks, from the manifest's words."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from ivsim.audit.due import vehicle_name


class Spoken(NamedTuple):
    """A protocol, and one of its modes."""

    protocol: str
    mode: str


def spoken_by(options: Mapping[str, Any]) -> dict[str, Spoken]:
    """Return what each vehicle speaks, by its name.

    A mix is `PROTOCOL MODE=PERCENT` with commas between. Its vehicles are dealt out in the order of their numbers, each to
    what lacks most of its share of all that were dealt out so far, this one among them.
    """
    numbers = range(1, options["vehicles"] + 1)
    mix = options.get("mix")
    if not mix:
        return {vehicle_name(number): Spoken(options["protocol"], options["mode"]) for number in numbers}
    shares: dict[Spoken, Fraction] = {}
    for word in mix.split(","):
        who, _, percent = word.rpartition("=")
        shares[Spoken(*who.split())] = Fraction(int(percent), 100)
    has = dict.fromkeys(shares, 0)
    found = {}
    for number in numbers:
        lacking = {who: shares[who] * number - has[who] for who in shares}
        chosen = max(lacking, key=lambda who: lacking[who])
        has[chosen] += 1
        found[vehicle_name(number)] = chosen
    return found
