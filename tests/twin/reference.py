"""The twin's counters by their definition: a set of what was seen."""

from __future__ import annotations

from collections.abc import Iterable


def fold(messages: Iterable[tuple[int, int, int]]) -> dict[str, int]:
    """Return the counters after (epoch, sequence, received_at_ns) in any order."""
    rows = list(messages)
    seen = {(epoch, sequence) for epoch, sequence, _ in rows}
    newest: dict[int, int] = {}
    for epoch, sequence in seen:
        newest[epoch] = max(newest.get(epoch, 0), sequence)
    return {
        "epoch": max(newest),
        "sequence": newest[max(newest)],
        "messages": len(rows),
        "duplicates": len(rows) - len(seen),
        "gaps": sum(newest.values()) - len(seen),
        "first_received_at_ns": min(at for *_, at in rows),
        "last_received_at_ns": max(at for *_, at in rows),
    }
