"""Lists and tables on a terminal: lines wrap between words, and a table that is too wide is turned on its side.

A file or a pipe is as wide as a row needs, so that one row stays one line.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import Final, TextIO

UNBOUNDED: Final = 1_000_000
# Below it a last column is not worth wrapping: it starts on a line of its own.
LEAST: Final = 24
_GAP: Final = 2


def width_of(out: TextIO | None = None) -> int:
    """Return how many characters a line may have: the terminal's columns, or any number in a file."""
    return shutil.get_terminal_size().columns if (out or sys.stdout).isatty() else UNBOUNDED


def listing(rows: Iterable[Sequence[str]], width: int, indent: int = 0) -> list[str]:
    """Return rows of cells as lines; all columns but the last keep to a line, the last one wraps between words."""
    cells = [list(row) for row in rows]
    if not cells:
        return []
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]) - 1)]
    lines = []
    for *first, last in cells:
        head = " " * indent + "".join(f"{cell:<{w + _GAP}}" for cell, w in zip(first, widths, strict=True))
        if width - len(head) >= LEAST:
            lines += _wrapped(head, last, width, len(head))
        else:
            lines += [
                *_wrapped("", head.strip(), width, indent + 4),
                *_wrapped(" " * (indent + 4), last, width),
            ]
    return lines


def paragraph(text: str, width: int, hang: int = 4) -> list[str]:
    """Return a text as lines; those after the first are indented by `hang`."""
    return _wrapped("", text, width, hang)


def _wrapped(head: str, text: str, width: int, hang: int | None = None) -> list[str]:
    behind = " " * (len(head) if hang is None else hang)
    lines = textwrap.wrap(
        text,
        width,
        initial_indent=head,
        subsequent_indent=behind,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return lines or [head.rstrip()]


def table(head: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Return a table as lines, its first column to the left and the others to the right.

    One that is wider than `width` has its rows as columns, as many side by side as there is room for; a column's head
    then wraps between words.
    """
    lines = _aligned([head, *rows])
    if max(map(len, lines)) <= width:
        return lines
    for beside in range(len(rows), 0, -1):
        parts = [_turned(head, rows[first : first + beside], width) for first in range(0, len(rows), beside)]
        if beside == 1 or max(len(line) for part in parts for line in part) <= width:
            break
    return parts[0] + [line for part in parts[1:] for line in ("", *part)]


def _turned(head: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    label = max(map(len, head))
    # Each column as wide as its widest cell, and what is left over for the heads.
    bodies = [max([len(cell) for cell in row[1:]] + [_longest_word(row[0])]) for row in rows]
    spare = max(0, width - label - sum(bodies) - _GAP * len(rows))
    bodies = [
        min(max(body, len(row[0].strip())), body + spare // len(rows))
        for body, row in zip(bodies, rows, strict=True)
    ]
    heads = [textwrap.wrap(row[0].strip(), body) for row, body in zip(rows, bodies, strict=True)]
    height = max(map(len, heads))
    turned = [
        [head[0] if line == 0 else "", *(column[line] if line < len(column) else "" for column in heads)]
        for line in range(height)
    ]
    turned += [[head[column], *(row[column] for row in rows)] for column in range(1, len(head))]
    return _aligned(turned)


def _longest_word(text: str) -> int:
    return max(map(len, text.split()), default=0)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    gap = " " * _GAP
    return [
        gap.join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
