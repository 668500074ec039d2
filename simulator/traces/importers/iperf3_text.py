"""iperf3's report as text, its client's or its server's, whatever `--title` and `--timestamps` put before a line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from schemas.errors import Refusal
from simulator.traces.importers.base import Source
from simulator.traces.importers.iperf3_rows import Report, Row, Series, direction_of, second_test
from simulator.traces.source import number

_INTERVAL = re.compile(
    r"\[\s*([0-9]+|SUM)\](?:\[([TR]X)-([CS])\])?\s+([^\s-]+)\s*-\s*([^\s-]+)\s+sec\s+\S+\s+[KMGT]?Bytes"
    r"\s+(\S+)\s+([KMGT]?)(bits|Bytes)/sec(.*)"
)
_LIKE_INTERVAL = re.compile(r"\[\s*(?:[0-9]+|SUM)\].*(?:bits|Bytes)/sec")
_HEAD = re.compile(r"\[ ID\](?:\[Role\])?\s+Interval\s.*")
# The beginning of a line of figures, however little is there of it.
_BEGUN = re.compile(r"\[[^\]]*$|\[\s*(?:[0-9]+|SUM)\](?!.* connected to )")
_LOST = re.compile(r"ms\s+(-?[0-9]{1,15})\s*/\s*([0-9]{1,15})\s+\(")
_CONNECTING = re.compile(r"Connecting to host \S+, port [0-9]+")
_ACCEPTED = re.compile(r"Accepted connection from ")
_ENDED = re.compile(r"iperf3: (?:error|interrupt) - (.*)")
_SEPARATOR = "- - - - "
_SERVER_OUTPUT = "Server output:"
_REVERSE = "Reverse mode, remote host"
# Bits are counted in thousands, bytes in 1,024 (unit_snprintf of iperf3's units.c).
_KBPS = {
    "bits": {"": 1e-3, "K": 1.0, "M": 1e3, "G": 1e6, "T": 1e9},
    "Bytes": {prefix: 8e-3 * 1024.0**power for power, prefix in enumerate(("", "K", "M", "G", "T"))},
}


@dataclass(frozen=True)
class _Line:
    """One line of figures: whose they are, the figures, and what stands behind them: figures and `label`."""

    stream: str
    way: str
    server: bool | None
    row: Row
    behind: str
    label: str


@dataclass
class _Section:
    """What one end of the test printed.

    Attributes:
        server: whether that end is the server; None where nothing says it.
        reverse: whether the server sends.
        head: names of the columns above the first interval.
        ruled: whether a rule stands behind the last interval.
        closed: whether the intervals are over, and sums of the whole test follow.
    """

    server: bool | None = None
    reverse: bool = False
    head: str = ""
    ruled: bool = False
    closed: bool = False
    rows: list[_Line] = field(default_factory=list)
    totals: list[_Line] = field(default_factory=list)


def looks_like_text(lines: list[str]) -> bool:
    """Return whether there is a line that iperf3, or iperf2, prints."""
    return any(
        _INTERVAL.search(line)
        or _CONNECTING.search(line)
        or (_HEAD.search(line) and "Transfer" in line)
        or re.search(r"Server listening on (?:TCP port |UDP port )?[0-9]+", line)
        or re.search(r"Client connecting to \S+, (?:TCP|UDP) port ", line)
        for line in lines
    )


def read_text_report(
    source: Source,
    lines: list[str],
    *,
    asked: str | None = None,
    server: bool | None = None,
    at: int | None = None,
) -> Report:
    """Return what the lines hold.

    Args:
        source: for refusals.
        lines: the report.
        asked: the direction, for lines that do not say whose they are.
        server: whose it is, where that is known.
        at: the file's line where all of these stand in one, as a JSON text.
    """
    report = Report()
    sections = [_Section(server)]
    for place, text in enumerate(lines, 1):
        line, section = at or place, sections[-1]
        if _SERVER_OUTPUT in text:
            sections.append(_Section(server=True, reverse=section.reverse))
        elif _CONNECTING.search(text) or _ACCEPTED.search(text):
            if section.rows:
                raise second_test(source, line)
            section.server = bool(_ACCEPTED.search(text))
        elif found := _ENDED.search(text):
            report.error = " ".join(found[1].split())
        else:
            _take(source, section, line, text)
    if at is None and not source.text.endswith("\n") and _is_cut(lines[-1]):
        report.cut = len(lines)
    for section in sections:
        _add(report, source, section, asked)
    return report


def _is_cut(last: str) -> bool:
    return bool(_BEGUN.search(last)) and not _INTERVAL.search(last) and not _HEAD.search(last)


def _take(source: Source, section: _Section, line: int, text: str) -> None:
    """Take one line of what an end printed between its first words and its last."""
    if found := _INTERVAL.search(text):
        one = _line(source, line, found)
        (section.totals if section.closed or one.label else section.rows).append(one)
        section.ruled = False
    elif found := _HEAD.search(text):
        # Parallel streams have a rule between intervals, too, but no names of columns behind it.
        section.closed |= section.ruled and bool(section.rows)
        section.head = section.head or found[0]
    elif _SEPARATOR in text:
        section.ruled = True
    elif _REVERSE in text:
        section.reverse = True
    elif _LIKE_INTERVAL.search(text):
        raise source.refusal(line, f"neither an interval nor a sum of iperf3's: {text.strip()[:80]!r}")


def _line(source: Source, line: int, found: re.Match[str]) -> _Line:
    start_s, end_s = (number(found[i], source.path, line, "interval") for i in (4, 5))
    kbps = number(found[6], source.path, line, "rate") * _KBPS[found[8]][found[7]]
    behind = found[9].rstrip()
    omitted = behind.endswith("(omitted)")
    label = next((word for word in ("sender", "receiver") if behind.endswith(word)), "")
    lost = _LOST.search(behind)
    row = Row(
        line, start_s, end_s, kbps, int(lost[1]) if lost else None, int(lost[2]) if lost else None, omitted
    )
    told = behind.removesuffix("(omitted)").removesuffix(label).strip()
    return _Line(found[1], found[2] or "", found[3] == "S" if found[3] else None, row, told, label)


def _add(report: Report, source: Source, section: _Section, asked: str | None) -> None:
    """Add the series of one end, and what its sums say of the other end."""
    for way in dict.fromkeys(one.way for one in section.rows):
        mine = [one for one in section.rows if one.way == way]
        chosen, sums = _without_sum(_chosen(source, mine))
        totals = [*sums, *(one for one in section.totals if one.way == way or not way)]
        protocol = _protocol(source, section, mine, totals)
        stated = next((one.server for one in mine if one.server is not None), section.server)
        server = False if stated is None and section.reverse else stated
        sender = _sends(section, chosen, way, protocol, server=server)
        if server is None:
            direction, server = _asked(source, chosen[0].row.line, asked, sender=sender)
        else:
            direction = direction_of(sender=bool(sender), server=server)
        streams = len({one.stream for one in mine} - {"SUM"})
        report.series.append(Series(direction, sender, protocol, [one.row for one in chosen], streams))
        # A server, and a client that was interrupted, have zeros for what they do not know.
        if sender and not server and protocol == "UDP" and report.error is None:
            _total(report, direction, totals)


def _asked(source: Source, line: int, asked: str | None, *, sender: bool | None) -> tuple[str, bool]:
    """Return the direction that was asked for, and whether the lines are then a server's."""
    if asked is None:
        raise source.refusal(
            line,
            "nothing above this line says whether client or server counted it (`Connecting to host`, `Accepted"
            " connection from`): give --direction uplink or downlink",
        )
    return asked, bool(sender) != (asked == "uplink")


def _protocol(source: Source, section: _Section, rows: list[_Line], totals: list[_Line]) -> str:
    """Return the protocol: by the headings, or by the figures that each of them has behind its rates."""
    if "Datagrams" in section.head or _any_lost(rows) or _any_lost(totals):
        return "UDP"
    if section.head:
        return "TCP"
    # Of TCP: what was sent again, and the window, or nothing; of UDP: datagrams. A sum of TCP has no window.
    of_stream = next((one for one in rows if one.stream != "SUM"), rows[0])
    if not of_stream.behind.isdigit():
        return "TCP"
    if of_stream.stream == "SUM":
        raise source.refusal(
            of_stream.row.line,
            "a sum without its streams and headings does not say whether TCP or UDP was sent: keep them in the file",
        )
    return "UDP"


def _any_lost(rows: Iterable[_Line]) -> bool:
    return any(one.row.lost is not None for one in rows)


def _chosen(source: Source, rows: list[_Line]) -> list[_Line]:
    """Return the lines of the one stream, or the sums of several."""
    if len({one.stream for one in rows}) == 1:
        return rows
    sums = [one for one in rows if one.stream == "SUM"]
    if not sums:
        raise source.refusal(rows[0].row.line, "several streams from here on, and no line [SUM] among them")
    return sums


def _sends(
    section: _Section, rows: list[_Line], way: str, protocol: str, *, server: bool | None
) -> bool | None:
    if way:
        return way == "TX"
    if protocol == "UDP":
        return not _any_lost(rows)
    if server is None:
        return True if "Retr" in section.head or any(one.behind for one in rows) else None
    if not server:
        return not section.reverse
    labels = {one.label for one in section.totals if one.label}
    return section.reverse or "Retr" in section.head or labels == {"sender"}


def _without_sum(rows: list[_Line]) -> tuple[list[_Line], list[_Line]]:
    """Return the rows and the last one apart that sums up those before it, where iperf3's headings are missing."""
    kept = [one for one in rows if not one.row.omitted]
    # The first interval behind an omitted beginning may end before it starts.
    before = [one.row for one in kept[:-1] if one.row.end_s > one.row.start_s]
    if before and kept[-1].row.start_s <= before[0].start_s and kept[-1].row.end_s >= before[-1].end_s:
        return [one for one in rows if one is not kept[-1]], [kept[-1]]
    return rows, []


def _total(report: Report, direction: str, totals: list[_Line]) -> None:
    sums = [one for one in totals if one.stream == "SUM"] or totals
    told = [one for one in sums if one.label == "receiver"] or [one for one in sums if not one.label]
    if not told:
        return
    one, row = told[-1], told[-1].row
    rate = [f"{row.kbps:g} kbit/s received"] if one.label else []
    lost = [] if row.lost is None else [f"{row.lost} of {row.total} datagrams lost"]
    if rate or lost:
        report.totals[direction] = f"in all {', '.join([*rate, *lost])}"
    if one.label and row.kbps == 0:
        report.nothing.add(direction)


def refuse_other_iperf(source: Source, lines: list[str]) -> None:
    """Refuse the report of iperf2, which looks alike, by its name."""
    for line, text in enumerate(lines, 1):
        found = _INTERVAL.search(text)
        if re.search(r"(?:Client connecting to \S+,|Server listening on) (?:TCP|UDP) port ", text) or (
            found and not re.fullmatch(r"[^.]+\.[0-9]{2}|[^.]*", found[4])
        ):
            raise source.refusal(
                line,
                "the output of iperf2, which is another program than iperf3: run iperf3, or use --from csv",
            )


def no_intervals(source: Source) -> Refusal:
    return Refusal(f"{source.path}: no interval of iperf3's in it: run iperf3 with -i 1")
