"""The output of `ping` as RTT and loss, ordered by icmp_seq: its lines may be late, doubled or in bursts.

That of Linux (iputils), of macOS and the BSDs, and of busybox. The last two count from 0 and do not say how long they
took, so that the time between two probes has to be said.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from schemas.errors import Refusal
from simulator.traces.importers.base import Importer, Source, skipped
from simulator.traces.importers.grid import Lines
from simulator.traces.importers.options import Options
from simulator.traces.model import Floats, Trace, each_way
from simulator.traces.source import lines_of, number

# A stamp of the logger's may stand before each line.
_HEAD = re.compile(r"(?:^|\s)PING6?(?: \S+ ?)?\(")
_REPLY = re.compile(r"(?:^|\s)[0-9]+ bytes from .*?\b(?:icmp_)?seq=([0-9]{1,15}),? .*?time[=<](\S+) ms(.*)")
_TOTAL = re.compile(
    r"(?:^|\s)([0-9]{1,15}) packets transmitted, ([0-9]{1,15}) (packets )?received(?:,.* time ([0-9]{1,15}) ?ms)?"
)
_LAST_SEQUENCE = 65_535
_MODULUS = _LAST_SEQUENCE + 1  # icmp_seq has 16 bits (RFC 792)


def _recognises(lines: list[str]) -> bool:
    return any(_HEAD.search(line) or _REPLY.search(line) for line in lines)


@dataclass(frozen=True)
class _Total:
    """The line of totals: where it is, probes sent and answered, the time from the first to the last, the first one's number."""

    line: int
    sent: int
    received: int
    took_ms: int | None
    first: int


def _refuse_second(source: Source, lines: list[str]) -> None:
    """Refuse a file of several runs: each counts anew, so that one's replies would be the other's duplicates."""
    begun = ended = False
    for line, text in enumerate(lines, 1):
        begins = bool(_HEAD.search(text))
        if (begins and begun) or (ended and (begins or _REPLY.search(text) or _TOTAL.search(text))):
            raise source.refusal(
                line, "a second run begins here: a trace is one of them, keep one in the file"
            )
        begun |= begins or bool(_REPLY.search(text))
        ended |= bool(_TOTAL.search(text))


def _replies(source: Source, lines: list[str]) -> tuple[dict[int, tuple[float, int]], int]:
    """RTT (ms) and line by sequence number, and how many duplicates were left out."""
    replies: dict[int, tuple[float, int]] = {}
    duplicates, highest = 0, 0
    for line, text in enumerate(lines, 1):
        found = _REPLY.search(text)
        if not found:
            continue
        sequence, rtt_ms = int(found[1]), number(found[2], source.path, line, "time")
        if rtt_ms < 0 or sequence > _LAST_SEQUENCE:
            raise source.refusal(line, f"icmp_seq {sequence}, time {rtt_ms:g} ms: out of range")
        # The candidate nearest to the highest seen: lines are late by seconds, a round of 65,536 probes lasts hours.
        ahead = (sequence - highest + _MODULUS // 2) % _MODULUS - _MODULUS // 2
        sequence = max(sequence, highest + ahead)
        highest = max(highest, sequence)
        if sequence in replies or "DUP!" in found[3]:
            duplicates += 1
            continue
        replies[sequence] = (rtt_ms, line)
    return replies, duplicates


def _totals(source: Source, lines: list[str]) -> _Total:
    """What ping says in the end; only iputils counts from 1, and only it says how long it took."""
    for line, text in enumerate(lines, 1):
        found = _TOTAL.search(text)
        if found:
            sent = source.checked_steps(line, int(found[1]))
            took_ms = int(found[4]) if found[4] else None
            return _Total(line, sent, int(found[2]), took_ms, 0 if found[3] else 1)
    raise Refusal(
        f"{source.path}: no line `N packets transmitted`: the run was cut, how many were lost is unknown"
    )


def _interval_s(source: Source, total: _Total, options: Options) -> float:
    if options.period_s is not None:
        return options.period_s
    if total.took_ms is None:
        raise source.refusal(
            total.line,
            "this ping does not say how long it took: give --period, the seconds between two probes (1 without its -i)",
        )
    if total.sent < 2 or total.took_ms == 0:
        raise Refusal(
            f"{source.path}: {total.sent} probes in {total.took_ms} ms give no interval: give --period"
        )
    return total.took_ms / 1000 / (total.sent - 1)


def _read(source: Source, options: Options) -> Trace:
    lines = lines_of(source.text)
    _refuse_second(source, lines)
    replies, duplicates = _replies(source, lines)
    if not replies:
        raise Refusal(f"{source.path}: no reply in it, nothing to import (ping -q prints none)")
    total = _totals(source, lines)
    if len(replies) != total.received:
        raise source.refusal(
            total.line,
            f"{total.received} packets received, but {len(replies)} replies are in the file: a line that is"
            " missing is no lost packet",
        )
    sent, interval_s = total.sent, _interval_s(source, total, options)
    base = 0 if 0 in replies else total.first
    if max(replies) >= sent + base:
        raise source.refusal(replies[max(replies)][1], f"icmp_seq {max(replies)} of {sent} probes sent")
    step_s = options.step_s or 1.0
    rtt = np.full(sent, np.nan)
    for sequence, (rtt_ms, _) in replies.items():
        rtt[sequence - base] = rtt_ms
    rtt = rtt[round((options.skip_s or 0) / interval_s) :]
    if np.isnan(rtt).all():
        raise Refusal(f"{source.path}: no reply is left after --skip {options.skip_s:g}")
    # Timers wake up late by up to a millisecond or two in 200: the 0.5 probe keeps five of them in a second.
    bins = np.floor((np.arange(len(rtt)) + 0.5) * interval_s / step_s).astype(np.int64)
    medians, losses, silent = _per_step(rtt, bins)
    policy = (
        f"step = median of the replies by icmp_seq; {sent} probes every {interval_s * 1000:.1f} ms,"
        f" {sent - len(replies)} lost (round trips; each way 1 - sqrt(1 - L) of them), {duplicates} duplicates left out;"
        f" {silent} silent steps keep the RTT before{skipped(options)}"
    )
    return Trace(
        np.round(np.arange(len(medians)) * step_s, 9),
        rtt_ms=np.round(medians, 3),
        loss_ratio=np.round(each_way(losses), 6),
        header=source.header("ping", policy, note="an idle link's RTT: the queue's share is not in it"),
        last_step_s=step_s,
        source=str(source.path),
    )


def _per_step(rtt: Floats, bins: Lines) -> tuple[Floats, Floats, int]:
    steps = int(bins[-1]) + 1
    medians, losses = np.full(steps, np.nan), np.ones(steps)
    for k in range(steps):
        probes = rtt[bins == k]
        answered = probes[~np.isnan(probes)]
        if len(probes):
            losses[k] = 1 - len(answered) / len(probes)
        if len(answered):
            medians[k] = np.median(answered)
    silent = np.flatnonzero(np.isnan(medians))
    known = np.flatnonzero(~np.isnan(medians))
    if len(silent):
        before = np.searchsorted(known, silent) - 1
        medians[silent] = medians[known[np.maximum(before, 0)]]
    return medians, losses, len(silent)


PING = Importer(
    "ping",
    "output of ping (Linux, macOS, BSD, busybox): RTT and loss on an idle link",
    frozenset({"step_s", "period_s", "skip_s"}),
    _recognises,
    _read,
)
