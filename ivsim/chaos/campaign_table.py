"""What a campaign tried, as Markdown: faults by mode, messages, verdicts, and the proof of each broken promise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from ivsim.chaos.campaign import Row
from ivsim.chaos.disturbances import DISTURBANCES


def markdown(rows: Sequence[Row], base: Path) -> str:
    """Return the tables: faults injected by mode, messages by mode, then each failure with the command that repeats it."""
    lines = [_summary(rows), "", *_tried(rows), "", *_messages(rows), *_kills(rows)]
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


def _kills(rows: Sequence[Row]) -> list[str]:
    """Return a row for each mode whose broker saves now and then, by which its losses are held against its last saves."""
    lines = [
        "",
        "| mode | kills of the broker | unsaved for at most | acknowledged since and lost | first one lost behind the save |",
        "|---|--:|--:|--:|--:|",
    ]
    for protocol, mode in _modes(rows):
        own = [kill for row in rows if (row.protocol, row.mode) == (protocol, mode) for kill in row.kills]
        if not own:
            continue
        unsaved = [kill["unsaved_s"] for kill in own if kill["unsaved_s"] is not None]
        first = [kill["first_lost_s"] for kill in own if kill["first_lost_s"] is not None]
        cells = (
            f"{protocol} {mode}",
            f"{len(own):,}",
            f"{max(unsaved):.1f} s" if unsaved else "",
            f"{sum(kill['lost'] for kill in own):,}",
            f"{min(first):.3f} s" if first else "",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return lines if len(lines) > 3 else []


def _modes(rows: Iterable[Row]) -> list[tuple[str, str]]:
    return sorted({(row.protocol, row.mode) for row in rows})
