"""What a link player is given, and what it leaves: in files that the other of the two reads by `pickle`."""

from __future__ import annotations

from typing import Any, NamedTuple

from simulator.link_schedule import LinkSchedule, SideBySide
from simulator.links.base import Link
from simulator.links.step_log import Asked


class Task(NamedTuple):
    """A link that is open, and what it is to do.

    Attributes:
        probed: whose links are probed.
    """

    link: Link
    schedule: LinkSchedule | SideBySide
    probed: range


class Played(NamedTuple):
    """What was played, beside its rows: each pair of conditions once, and what vehicles have been told, for `Link.resume`."""

    distinct: list[Asked]
    told: list[Any]
