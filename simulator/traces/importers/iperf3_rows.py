"""What an iperf3 report holds, in text or JSON: intervals of one direction, as one end of it counted them."""

from __future__ import annotations

from dataclasses import dataclass, field

from schemas.errors import Refusal
from simulator.traces.importers.base import Source


@dataclass(frozen=True)
class Row:
    """One interval with iperf3's own times.

    Attributes:
        line: of the file.
        start_s: since the test began, or since its omitted beginning ended.
        end_s: likewise.
        kbps: what was sent, or received, in it.
        lost: datagrams that did not come, of those that `total` counts; None where nobody says it.
        total: datagrams, see `lost`.
        omitted: of the beginning that iperf3 was told to leave out (`-O`).
    """

    line: int
    start_s: float
    end_s: float
    kbps: float
    lost: int | None = None
    total: int | None = None
    omitted: bool = False


@dataclass
class Series:
    """The intervals of one direction as one end of it counted them.

    Attributes:
        direction: `uplink` is from iperf3's client to its server.
        sender: whether this end sent, so that nothing here says what arrived; None where the file does not say it.
        protocol: such as `TCP`.
        rows: in the order of the file.
        streams: parallel streams whose sum this is.
    """

    direction: str
    sender: bool | None
    protocol: str
    rows: list[Row]
    streams: int = 1


@dataclass
class Report:
    """One test.

    Attributes:
        series: of both ends and directions, as far as the file has them.
        totals: words on what the other end received in all, by direction; for series of a sender.
        nothing: the directions of which the other end says that nothing arrived.
        error: what iperf3 says of its own end, if it was a bad one.
        cut: the line in whose middle the file ends.
    """

    series: list[Series] = field(default_factory=list)
    totals: dict[str, str] = field(default_factory=dict)
    nothing: set[str] = field(default_factory=set)
    error: str | None = None
    cut: int | None = None


def direction_of(*, sender: bool, server: bool) -> str:
    """Return the direction of what this end sends or receives."""
    return "uplink" if sender != server else "downlink"


def second_test(source: Source, line: int) -> Refusal:
    return source.refusal(line, "a second test begins here: a trace is one of them, keep one in the file")


def meaning_of_losses(losing: int, counting: int) -> str:
    """Say what a receiver's rate of datagrams is: of a full link where at least half of the intervals lose some.

    Args:
        losing: intervals in which datagrams were lost.
        counting: intervals in which there were any.
    """
    return "capacity" if losing and 2 * losing >= counting else "offered"
