"""iperf3's report as JSON: one document (`-J`), or one a line (`--json-stream`)."""

from __future__ import annotations

import json
import re
from typing import Any

from schemas.errors import Refusal
from simulator.traces.importers.base import Source
from simulator.traces.importers.iperf3_rows import Report, Row, Series, direction_of, second_test
from simulator.traces.importers.iperf3_text import read_text_report
from simulator.traces.source import lines_of

_MARKS = re.compile(
    r'"(?:connected|intervals|test_start|cpu_utilization_percent|sum_sent|sum_received|server_output_json)"'
    r'|"iperf 3|"event"\s*:\s*"(?:start|interval)"'
)
_MOST_BPS = 1e13
_MOST_S = 1e9


def looks_like_json(lines: list[str]) -> bool:
    """Return whether the file begins as a JSON object with keys of iperf3's."""
    return lines[0].lstrip().startswith("{") and any(_MARKS.search(line) for line in lines)


def read_json_report(source: Source) -> Report:
    """Return what the document holds, with the server's part where it is in it."""
    return _report(source, _document(source), server=None, nth=0)


def _document(source: Source) -> dict[str, Any]:
    text = source.text
    found, end = _decoded(source, len(text) - len(text.lstrip()))
    behind = end + len(text[end:]) - len(text[end:].lstrip())
    if "event" in found:
        return _joined(source, found, behind)
    if behind < len(text):
        line = text.count("\n", 0, behind) + 1
        raise (
            second_test(source, line)
            if text[behind] == "{"
            else source.refusal(line, "text behind the end of the JSON")
        )
    return found


def _decoded(source: Source, start: int) -> tuple[dict[str, Any], int]:
    try:
        found, end = json.JSONDecoder(parse_constant=_no_constant).raw_decode(source.text, start)
    except json.JSONDecodeError as error:
        cut = not source.text.rstrip().endswith("}") or error.pos >= len(source.text.rstrip())
        reason = "the JSON ends in the middle, the file was cut" if cut else f"not JSON: {error.msg}"
        raise source.refusal(error.lineno, reason) from error
    except (ValueError, RecursionError) as error:
        raise Refusal(f"{source.path}: not iperf3's JSON: {str(error).splitlines()[0]}") from error
    if not isinstance(found, dict):
        raise Refusal(f"{source.path}: must be a JSON object, as iperf3 -J prints it")
    return found, end


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _joined(source: Source, first: dict[str, Any], at: int) -> dict[str, Any]:
    """Return the events of `--json-stream` as the document that `-J` prints."""
    document: dict[str, Any] = {"intervals": []}
    one: dict[str, Any] = first
    began = 0
    while True:
        event, content = one.get("event"), one.get("data")
        if event == "interval":
            document["intervals"].append(content)
        elif event == "start" and "start" in document:
            raise second_test(source, source.text.count("\n", 0, began) + 1)
        elif isinstance(event, str):
            document[event] = content
        if at >= len(source.text):
            return document
        began = at
        one, end = _decoded(source, at)
        at = end + len(source.text[end:]) - len(source.text[end:].lstrip())


def _report(source: Source, document: dict[str, Any], *, server: bool | None, nth: int) -> Report:
    report = Report()
    if isinstance(document.get("error"), str):
        report.error = " ".join(document["error"].removeprefix("error - ").split())
    start = _object(source, document, "start")
    test = _object(source, start, "test_start")
    is_server = server if server is not None else "accepted_connection" in start
    intervals = document.get("intervals", [])
    if not isinstance(intervals, list):
        raise Refusal(f"{source.path}: key intervals: must be a list")
    lines = _lines(source.text, len(intervals), nth)
    _add(report, source, test, intervals, lines, server=is_server)
    if report.series and "protocol" not in test:
        raise Refusal(f"{source.path}: no key start.test_start.protocol: TCP or UDP is not said")
    if not is_server and report.error is None:
        _total(report, document.get("end"))
    theirs = document.get("server_output_json")
    if isinstance(theirs, dict):
        report.series += _report(source, theirs, server=True, nth=nth + 1).series
    printed = document.get("server_output_text")
    if isinstance(printed, str):
        line = source.text.count("\n", 0, source.text.find('"server_output_text"')) + 1
        report.series += read_text_report(source, lines_of(printed), server=True, at=line).series
    return report


def _object(source: Source, document: dict[str, Any], key: str) -> dict[str, Any]:
    found = document.get(key, {})
    if not isinstance(found, dict):
        raise Refusal(f"{source.path}: key {key}: must be a JSON object")
    return found


def _lines(text: str, count: int, nth: int) -> list[int]:
    """Return the line of each interval, by the key that each of them has once."""
    places = [found.start() for found in re.finditer(r'"intervals"', text)]
    begin = places[nth] if nth < len(places) else 0
    found = [one.start() for one in re.finditer(r'"streams"', text[begin:])][:count]
    if len(found) < count:
        return [1] * count
    lines, line, at = [], text.count("\n", 0, begin) + 1, begin
    for place in found:
        line += text.count("\n", at, begin + place)
        at = begin + place
        lines.append(line)
    return lines


def _add(
    report: Report,
    source: Source,
    test: dict[str, Any],
    intervals: list[Any],
    lines: list[int],
    *,
    server: bool,
) -> None:
    protocol = test.get("protocol", "TCP")
    if not isinstance(protocol, str) or not protocol.isalnum():
        raise Refusal(f"{source.path}: key test_start.protocol: must be a name such as TCP or UDP")
    reverse = bool(test.get("reverse"))
    found: dict[tuple[str, bool], list[Row]] = {}
    for line, interval in zip(lines, intervals, strict=True):
        if not isinstance(interval, dict):
            raise source.refusal(line, "an interval that is no JSON object")
        for name, part in _sums(source, line, interval):
            forward = name != "sum_bidir_reverse"
            sender = _sends(part, protocol, forward=forward, reverse=reverse, server=server)
            rows = found.setdefault((direction_of(sender=sender, server=server), sender), [])
            rows.append(_row(source, line, name, part, sender=sender))
    streams = test.get("num_streams", 1)
    for (direction, sender), rows in found.items():
        count = streams if isinstance(streams, int) else 1
        report.series.append(Series(direction, sender, protocol, rows, count))


def _sums(source: Source, line: int, interval: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the sums of an interval, one a direction; where iperf3 gave none, we sum its streams up."""
    names = [name for name in ("sum", "sum_bidir_reverse") if name in interval]
    parts: list[tuple[str, dict[str, Any]]] = [(name, interval[name]) for name in names]
    if not parts:
        streams = interval.get("streams")
        if not isinstance(streams, list) or not all(isinstance(one, dict) for one in streams):
            raise source.refusal(line, "an interval with neither a sum nor a list of streams")
        kinds = dict.fromkeys(one.get("sender") is True for one in streams)
        parts = [
            (
                "streams",
                _summed(source, line, [one for one in streams if (one.get("sender") is True) == kind]),
            )
            for kind in kinds
        ]
    for name, part in parts:
        if not isinstance(part, dict):
            raise source.refusal(line, f"key {name}: must be a JSON object")
    return parts


def _summed(source: Source, line: int, streams: list[dict[str, Any]]) -> dict[str, Any]:
    total = dict(streams[0])
    for key in ("bits_per_second", "lost_packets", "packets"):
        if key in total:
            total[key] = sum(
                _figure(source, f"{line}:streams.{key}", one.get(key), _MOST_BPS) for one in streams
            )
    return total


def _sends(part: dict[str, Any], protocol: str, *, forward: bool, reverse: bool, server: bool) -> bool:
    """Return whether this end sent it: as iperf3 says, and before it said so by what only a receiver counts."""
    if isinstance(part.get("sender"), bool):
        return bool(part["sender"])
    if protocol == "UDP":
        return "lost_packets" not in part
    return (forward != reverse) != server


def _row(source: Source, line: int, name: str, part: dict[str, Any], *, sender: bool) -> Row:
    def figure(key: str, most: float) -> float:
        return _figure(source, f"{line}:{name}.{key}", part.get(key), most)

    lost = total = None
    if not sender and "lost_packets" in part:
        lost, total = int(figure("lost_packets", _MOST_BPS)), int(figure("packets", _MOST_BPS))
    bps = figure("bits_per_second", _MOST_BPS)
    omitted = part.get("omitted") is True
    return Row(line, figure("start", _MOST_S), figure("end", _MOST_S), bps / 1000, lost, total, omitted)


def _figure(source: Source, where: str, value: Any, most: float) -> float:
    """Return a figure that JSON may hold as any of its kinds; `where` is line and key."""
    # Datagrams that came late make a loss below 0.
    least = -most if where.endswith("lost_packets") else 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        line, _, key = where.partition(":")
        raise source.refusal(
            int(line), f"{key} is {repr(value)[:40]}, must be a number from {least:g} to {most:g}"
        )
    return float(value)


def _total(report: Report, end: Any) -> None:
    """Note what a client's end says of the datagrams that arrived; a server's has zeros for what it does not know."""
    if not isinstance(end, dict):
        return
    received = end.get("sum_received")
    sent = [one for one in report.series if one.sender and one.protocol == "UDP"]
    stated = isinstance(received, dict)
    total = received if stated else end.get("sum")
    if len(report.series) != 1 or not sent or not isinstance(total, dict):
        return
    direction = sent[0].direction
    lost, packets = total.get("lost_packets"), total.get("packets")
    if isinstance(lost, int) and isinstance(packets, int):
        report.totals[direction] = f"in all {lost} of {packets} datagrams lost"
    if stated and total.get("bytes") == 0:
        report.nothing.add(direction)
