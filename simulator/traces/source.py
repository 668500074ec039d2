"""The text of a file somebody gives us, or a refusal that names it; decides nothing about formats."""

from __future__ import annotations

import math
from pathlib import Path

from schemas.errors import Refusal

_MOST_DIGITS = 15
_LFS_MARK = "version https://git-lfs"


def read_text(path: Path) -> str:
    """The file's text.

    Raises:
        Refusal: missing, unreadable, empty, binary, not UTF-8, or a Git LFS pointer instead of data.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise Refusal(f"{path}: cannot be read: {error.strerror}") from error
    if not raw.strip():
        raise Refusal(f"{path}: the file is empty")
    if b"\0" in raw:
        raise Refusal(f"{path}: binary data, a trace is text (or Parquet, with the name *.parquet)")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise Refusal(f"{path}:{line}: not UTF-8 text (byte {error.start})") from error
    if text.startswith(_LFS_MARK):
        raise Refusal(f"{path}:1: a Git LFS pointer, not the data: run `git lfs pull` where it came from")
    return text


def lines_of(text: str) -> list[str]:
    """The lines without their ends; a last newline makes no line of its own."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines[:-1] if lines[-1] == "" else lines


def number(text: str, path: Path, line: int, what: str) -> float:
    """A finite number.

    Raises:
        Refusal: anything else, NaN and infinity included; the line names file, line and field.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or "_" in text:
        raise Refusal(f"{path}:{line}: {what} is {text.strip()!r}, must be a finite number")
    return value


def whole(text: str, path: Path, line: int, what: str) -> int:
    """A whole number from 0 up to 15 digits.

    Raises:
        Refusal: anything else; the line names file, line and field.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise Refusal(f"{path}:{line}: {what} is {text.strip()!r}, must be a whole number, 0 to 10^15")
    return int(text)
