"""What a campaign tried, as Markdown: faults by mode, messages, verdicts, and the proof of each broken promise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from ivsim.chaos.campaign import Row
from ivsim.chaos.disturbances import DISTURBANCES

_OF_ENDS: Final = (
    "ends of the broker",
    "unsaved for at most",
    "acknowledged since and lost",
    "first one lost behind the save",
    "nobody subscribed for at most",
    "acknowledged then and lost",
    "last one sent before a gateway was back",
)


def markdown(rows: Sequence[Row], base: Path) -> str:
    """Return the tables: faults injected by mode, messages by mode, then each failure with the command that repeats it."""
    lines = [_summary(rows), "", *_tried(rows), "", *_messages(rows), *_ends(rows)]
    failed = [row for row in rows if row.judgement.broken]
    if failed:
        lines += ["", "Broken promises:", ""]
    for row in failed:
        lines += [f"- {row.name}, {row.protocol} {row.mode}, after {', '.join(row.injected) or 'no fault'}:"]
        lines += [f"  - {reason}" for reason in row.judgement.broken]
        where = base / (f"{row.name}-smallest.json" if row.smallest else f"{row.name}/schedule.json")
        lines += [f"  - repeat it: `ivsim chaos --schedule {where}`"]
    return "\n".join(lines) + "\n"


def _summary(rows: Sequence[Row]) -> str:
    faults = sum(len(row.injected) for row in rows)
    broken = sum(bool(row.judgement.broken) for row in rows)
    acknowledged = sum(row.acknowledged for row in rows)
    return (
        f"{faults:,} faults in {len(rows):,} runs; {acknowledged:,} messages acknowledged;"
        f" {broken:,} runs broke a promise."
    )


def _tried(rows: Sequence[Row]) -> list[str]:
    modes = _modes(rows)
    counts = Counter((fault, row.protocol, row.mode) for row in rows for fault in row.injected)
    faults = [name for name in DISTURBANCES if any(key[0] == name for key in counts)]
    lines = ["| mode | " + " | ".join(f"`{name}`" for name in faults) + " |", "|---|" + "--:|" * len(faults)]
    for protocol, mode in modes:
        own = [counts[name, protocol, mode] for name in faults]
        lines.append(f"| {protocol} {mode} | " + " | ".join(map(str, own)) + " |")
    totals = [sum(counts[name, *key] for key in modes) for name in faults]
    return [*lines, "| **all** | " + " | ".join(map(str, totals)) + " |"]


def _messages(rows: Sequence[Row]) -> list[str]:
    lines = [
        "| mode | promise | runs | faults | acknowledged | of these lost | last seen at | copies in Kafka | verdict |",
        "|---|---|--:|--:|--:|--:|---|--:|---|",
    ]
    for protocol, mode in _modes(rows):
        own = [row for row in rows if (row.protocol, row.mode) == (protocol, mode)]
        hops: Counter[str] = Counter()
        for row in own:
            hops.update(row.acknowledged_lost)
        broken = sum(bool(row.judgement.broken) for row in own)
        cells = (
            f"{protocol} {mode}",
            ", ".join(sorted({row.judgement.promise for row in own if row.judgement.promise})),
            f"{len(own):,}",
            f"{sum(len(row.injected) for row in own):,}",
            f"{sum(row.acknowledged for row in own):,}",
            f"{hops.total():,}",
            ", ".join(f"{count:,} {hop}" for hop, count in sorted(hops.items())),
            f"{sum(row.judgement.duplicates for row in own):,}",
            f"{broken} BROKEN" if broken else "kept",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _ends(rows: Sequence[Row]) -> list[str]:
    """Return a row for each mode whose broker saves now and then: what its losses are held against."""
    lines = [
        "",
        f"| mode | {' | '.join(_OF_ENDS)} |",
        "|---|" + "--:|" * len(_OF_ENDS),
    ]
    for protocol, mode in _modes(rows):
        own = [end for row in rows if (row.protocol, row.mode) == (protocol, mode) for end in row.broker_ends]
        if not own:
            continue
        cells = (
            f"{protocol} {mode}",
            f"{len(own):,}",
            _s(max, own, "unsaved_s", 1),
            f"{sum(end['unsaved_lost'] for end in own):,}",
            _s(min, own, "first_unsaved_s", 3),
            _s(max, own, "unshared_s", 1),
            f"{sum(end['unshared_lost'] for end in own):,}",
            _s(min, own, "last_unshared_s", 3),
        )
        lines.append("| " + " | ".join(cells) + " |")
    return lines if len(lines) > 3 else []


def _s(
    of: Callable[[list[float]], float], ends: Iterable[Mapping[str, float | None]], name: str, digits: int
) -> str:
    """Return the largest or smallest of a time over all ends that have it; nothing where none has."""
    known = [value for end in ends if (value := end[name]) is not None]
    return f"{of(known):.{digits}f} s" if known else ""


def _modes(rows: Iterable[Row]) -> list[tuple[str, str]]:
    return sorted({(row.protocol, row.mode) for row in rows})
