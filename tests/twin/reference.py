"""The twin's counters by their definition: sets of what was seen, and two rules on what is given up."""

from __future__ import annotations

from collections.abc import Iterable

WINDOW = 4_096
MAX_EPOCHS = 8

Message = tuple[int, int, int]


def fold(messages: Iterable[Message]) -> dict[str, int]:
    """Return the counters after (epoch, sequence, received_at_ns) in this order."""
    rows = list(messages)
    epochs: dict[int, list[int]] = {}
    for epoch, sequence, _ in rows:
        epochs.setdefault(epoch, []).append(sequence)
    counted = [epochs[epoch] for epoch in sorted(epochs)[-MAX_EPOCHS:] if not comes_too_late(epochs[epoch])]
    records, distinct = sum(map(len, counted)), sum(len(set(sequences)) for sequences in counted)
    return {
        "epoch": max(epochs),
        "sequence": max(epochs[max(epochs)]),
        "messages": len(rows),
        "duplicates": records - distinct,
        "gaps": sum(map(max, counted)) - distinct,
        "given_up": len(rows) - records,
        "first_received_at_ns": min(at for *_, at in rows),
        "last_received_at_ns": max(at for *_, at in rows),
    }


def comes_too_late(sequences: list[int]) -> bool:
    """Return whether some sequence comes a window or more behind the greatest before it."""
    greatest = 0
    for sequence in sequences:
        if sequence <= greatest - WINDOW:
            return True
        greatest = max(greatest, sequence)
    return False


def payload_bytes(messages: Iterable[tuple[int, int, int]]) -> int:
    """Return the counter of that name after (epoch, sequence, bytes): a repeated message is as long as its epoch's others."""
    epochs: dict[int, list[tuple[int, int]]] = {}
    for epoch, sequence, size in messages:
        epochs.setdefault(epoch, []).append((sequence, size))
    total = 0
    for epoch in sorted(epochs)[-MAX_EPOCHS:]:
        sequences = [sequence for sequence, _ in epochs[epoch]]
        if not comes_too_late(sequences):
            total += sum(size for _, size in epochs[epoch]) * len(set(sequences)) // len(sequences)
    return total
