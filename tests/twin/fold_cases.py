"""The table of cases that the fold in Java (FoldCasesTest) and the Python reference are held to."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

MODULE = Path(__file__).resolve().parents[2] / "twin" / "fold"
PAYLOAD_BYTES = 100


def cases() -> list[dict[str, str]]:
    with (MODULE / "src" / "test" / "resources" / "fold_cases.csv").open(encoding="ascii") as file:
        return list(csv.DictReader(file))


def messages(text: str) -> list[tuple[int, int, int]]:
    """Return (epoch, sequence, received_at_ns) of "1/1..9:2 2/5 1/1..100!4", received at 1, 2, 3, ... ns."""
    rows = [row for word in text.split(" ") for row in _word(word)]
    return [(epoch, sequence, place) for place, (epoch, sequence) in enumerate(rows, 1)]


def _word(word: str) -> Iterator[tuple[int, int]]:
    epoch, run = word.split("/")
    run, _, left_out = run.partition("!")
    run, _, step = run.partition(":")
    first, _, last = run.partition("..")
    by = int(step or 1)
    end = int(last or first) + (1 if by > 0 else -1)
    for sequence in range(int(first), end, by):
        if not left_out or sequence % int(left_out):
            yield int(epoch), sequence
