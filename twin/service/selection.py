"""Paths into a thing: a filter's property, the fields that an answer is to have, order and pages."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any, Final

from twin.service.errors import ApiError, bad_fields
from twin.service.things import Thing

MAX_FIELDS: Final = 200
DEFAULT_SIZE: Final = 25
MAX_SIZE: Final = 200
_OPTION: Final = re.compile(r"(size|cursor|sort|limit)\(([^()]*)\)(?:,|$)")

Path = tuple[str, ...]


def path_of(text: str) -> Path:
    """Return a JSON pointer (RFC 6901), with or without its first slash, as its parts."""
    parts = text.removeprefix("/").split("/")
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in parts)


def fields_of(text: str | None) -> list[Path] | None:
    """Return the paths of a selector such as `thingId,features(position,motion)`; None selects all."""
    if text is None or not text.strip():
        return None
    if text.count("(") != text.count(")"):
        raise bad_fields("as many closing as opening parentheses are needed")
    found, at = _group(text.replace(" ", ""), 0, ())
    if at != len(text.replace(" ", "")):
        raise bad_fields("a closing parenthesis too many")
    if len(found) > MAX_FIELDS:
        raise bad_fields(f"more than {MAX_FIELDS} fields")
    return found


def _group(text: str, at: int, prefix: Path) -> tuple[list[Path], int]:
    """Read names up to the parenthesis that closes the group, or the end."""
    found: list[Path] = []
    while True:
        end = at
        while end < len(text) and text[end] not in ",()":
            end += 1
        if end == at:
            raise bad_fields(f"a name is missing at character {at + 1}")
        name = (*prefix, *path_of(text[at:end]))
        at = end
        if at < len(text) and text[at] == "(":
            if len(name) > 32:
                raise bad_fields("nested too deep")
            inner, at = _group(text, at + 1, name)
            at += 1
            found += inner
        else:
            found.append(name)
        if at >= len(text) or text[at] == ")":
            return found, at
        if text[at] != ",":
            raise bad_fields(f"a comma is missing at character {at + 1}")
        at += 1


def select(thing: Thing, fields: list[Path] | None) -> dict[str, Any]:
    """Return the thing with the selected fields alone; a field that it has not is left out."""
    if fields is None:
        return thing.whole()
    made: dict[str, Any] = {}
    for path in fields:
        _copy(thing, path, made)
    return made


def _copy(thing: Thing, path: Path, into: dict[str, Any]) -> None:
    if len(path) > 1 and path[:2] == ("features", "*"):
        for name in thing.features():
            _copy(thing, ("features", name, *path[2:]), into)
        return
    values = thing.get(path)
    if not values:
        return
    place: Any = into
    for part in path[:-1]:
        place = place.setdefault(part, {})
        if not isinstance(place, dict):
            return
    place[path[-1]] = values[0] if len(values) == 1 else values


@dataclass(frozen=True)
class Page:
    """Which part of the found things an answer has, and in which order."""

    size: int = DEFAULT_SIZE
    offset: int = 0
    sort: tuple[tuple[Path, bool], ...] = ()  # path, descending
    numbered: bool = False  # limit(offset,count): answered with nextPageOffset


def page_of(option: str | None, filter_text: str) -> Page:
    """Return the page that `option` asks for: size(n), cursor(c), sort(+p,-q), or limit(offset,count)."""
    words = _options(option or "")
    size, offset, numbered = DEFAULT_SIZE, 0, False
    if "limit" in words:
        first, _, count = words["limit"].partition(",")
        offset, size, numbered = _number("limit", first, 10**9), _number("limit", count, MAX_SIZE), True
    if "size" in words:
        size = _number("size", words["size"], MAX_SIZE)
    if size < 1:
        raise bad_option("size: at least 1")
    sort = tuple(_order(word) for word in words["sort"].split(",")) if words.get("sort") else ()
    if "cursor" in words:
        offset = _offset(words["cursor"], digest(filter_text, words.get("sort", "")))
    return Page(size, offset, sort, numbered)


def bad_option(reason: str) -> ApiError:
    """An option of a search that is not understood."""
    return ApiError(
        400, "search.option.invalid", f"The given option is invalid: {reason}",
        "Allowed: size(1-200), cursor(...), sort(+path,-path), limit(offset,count).",
    )  # fmt: skip


def digest(filter_text: str, sort: str) -> str:
    """Return what ties a cursor to its search."""
    return hashlib.blake2b(f"{filter_text}\n{sort}".encode(), digest_size=6).hexdigest()


def cursor_of(offset: int, filter_text: str, option: str | None) -> str:
    """Return the cursor of the next page."""
    words = json.dumps([offset, digest(filter_text, _options(option or "").get("sort", ""))])
    return base64.urlsafe_b64encode(words.encode()).decode().rstrip("=")


def _options(text: str) -> dict[str, str]:
    words: dict[str, str] = {}
    at, text = 0, text.replace(" ", "")
    while at < len(text):
        match = _OPTION.match(text, at)
        if match is None or match[1] in words:
            raise bad_option(f"not understood from {text[at:][:40]!r}")
        words[match[1]] = match[2]
        at = match.end()
    return words


def _number(name: str, text: str, most: int) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 10 or int(text) > most:
        raise bad_option(f"{name}({text[:20]}): a whole number up to {most}")
    return int(text)


def _order(word: str) -> tuple[Path, bool]:
    # A plus in a URL that was not escaped arrives as a space, which was taken away.
    path = word.removeprefix("+").removeprefix("-")
    if not path:
        raise bad_option("sort: a path is missing")
    return path_of(path), word.startswith("-")


def _offset(cursor: str, wanted: str) -> int:
    try:
        offset, seal = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, TypeError) as error:
        raise bad_option("cursor: not one of ours") from error
    if seal != wanted or not isinstance(offset, int) or offset < 0:
        raise bad_option("cursor: it belongs to another filter or sort order")
    return offset
