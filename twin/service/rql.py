"""Filters in the query language of Eclipse Ditto's search (RQL), a subset; knows no twin."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import re2

Values = Callable[[str], Sequence[Any]]
Predicate = Callable[[Values], bool]

MAX_LENGTH: Final = 4_096
MAX_DEPTH: Final = 32
MAX_PATTERN_LENGTH: Final = 256
_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<open>\()|(?P<close>\))|(?P<comma>,)
        |(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
        |(?P<word>[^\s(),"']+))""",
    re.VERBOSE,
)
# As JSON has them (RFC 8259, 6): no zero in front, and no digits but ASCII's.
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WORDS: Final = {"true": True, "false": False, "null": None}


class FilterError(ValueError):
    """A filter that is not understood; the message says where and what is allowed."""


def parse(text: str) -> Predicate:
    """Return the filter as a function of `values`, which gives every value that a property's path names.

    Known: eq ne gt ge lt le (property, value); like ilike (property, "text with * and ?");
    in (property, value, ...); exists empty (property); and or (filter, ...); not (filter).
    A property that names several values (a `*` in its path) fits when one of them does. Numbers compare with
    numbers and text with text; else nothing fits.
    """
    if len(text) > MAX_LENGTH:
        raise FilterError(f"longer than {MAX_LENGTH} characters")
    parser = _Parser(text)
    found = parser.expression(0)
    parser.end()
    return found


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._tokens = self._split()
        self._next = 0

    def expression(self, depth: int) -> Predicate:
        if depth >= MAX_DEPTH:
            raise FilterError(f"nested deeper than {MAX_DEPTH}")
        name = self._take("word", "an operator")
        self._take("open", f"'(' after {name}")
        if name in LOGICAL:
            parts = [self.expression(depth + 1)]
            while self._comma():
                parts.append(self.expression(depth + 1))
            if name == "not" and len(parts) != 1:
                raise FilterError("not takes one filter")
            made = LOGICAL[name](parts)
        elif name in RELATIONAL:
            made = self._relation(name)
        else:
            raise FilterError(f"unknown operator {name!r}: allowed are {', '.join([*RELATIONAL, *LOGICAL])}")
        self._take("close", f"')' that ends {name}")
        return made

    def end(self) -> None:
        if self._next < len(self._tokens):
            raise FilterError(f"{self._tokens[self._next][1]!r} after the end of the filter")

    def _relation(self, name: str) -> Predicate:
        path = self._take("word", f"the property of {name}")
        arguments: list[Any] = []
        while self._comma():
            arguments.append(self._value())
        least, most = ARGUMENTS.get(name, (1, 1))
        if not least <= len(arguments) <= most:
            raise FilterError(
                f"{name} takes a property and {least if least == most else f'{least} or more'} values"
            )
        test = RELATIONAL[name](arguments)
        return lambda values: test(values(path))

    def _value(self) -> Any:
        if self._kind() == "text":
            return _unquoted(self._take("text", "a value"))
        word = self._take("word", "a value")
        if word in _WORDS:
            return _WORDS[word]
        if not _NUMBER.fullmatch(word):
            raise FilterError(f"value {word!r}: write a number, true, false, null or text in double quotes")
        return json.loads(word)

    def _kind(self) -> str:
        return self._tokens[self._next][0] if self._next < len(self._tokens) else "end"

    def _comma(self) -> bool:
        if self._kind() != "comma":
            return False
        self._next += 1
        return True

    def _take(self, kind: str, what: str) -> str:
        if self._kind() != kind:
            found = repr(self._tokens[self._next][1]) if self._next < len(self._tokens) else "the end"
            raise FilterError(f"{what} expected, found {found}")
        self._next += 1
        return self._tokens[self._next - 1][1]

    def _split(self) -> list[tuple[str, str]]:
        tokens = []
        text = self._text.strip()
        while self._at < len(text):
            match = _TOKEN.match(text, self._at)
            if match is None:
                raise FilterError(f"not understood from character {self._at + 1}: {text[self._at :][:20]!r}")
            self._at = match.end()
            assert match.lastgroup is not None
            tokens.append((match.lastgroup, match[match.lastgroup]))
        return tokens


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1])


def _comparable(a: Any, b: Any) -> bool:
    if isinstance(a, bool) or isinstance(b, bool):
        return isinstance(a, bool) and isinstance(b, bool)
    numbers = isinstance(a, int | float) and isinstance(b, int | float)
    return numbers or (isinstance(a, str) and isinstance(b, str))


def _equal(a: Any, b: Any) -> bool:
    return (a is None and b is None) or (_comparable(a, b) and a == b)


def _eq(arguments: list[Any]) -> Callable[[Sequence[Any]], bool]:
    return lambda found: any(_equal(value, wanted) for value in found for wanted in arguments)


def _ne(arguments: list[Any]) -> Callable[[Sequence[Any]], bool]:
    equal = _eq(arguments)
    return lambda found: not equal(found)


def _ordered(holds: Callable[[Any, Any], bool]) -> Callable[[list[Any]], Callable[[Sequence[Any]], bool]]:
    def make(arguments: list[Any]) -> Callable[[Sequence[Any]], bool]:
        limit = arguments[0]
        return lambda found: any(_comparable(value, limit) and holds(value, limit) for value in found)

    return make


def _like(*, case_sensitive: bool) -> Callable[[list[Any]], Callable[[Sequence[Any]], bool]]:
    """Match text with RE2, whose time grows with the text's length alone, whatever the stars: it never backtracks."""
    options = re2.Options()
    options.dot_nl, options.case_sensitive, options.log_errors = True, case_sensitive, False

    def make(arguments: list[Any]) -> Callable[[Sequence[Any]], bool]:
        text = arguments[0]
        if not isinstance(text, str):
            raise FilterError("like takes text in double quotes")
        if len(text) > MAX_PATTERN_LENGTH:
            raise FilterError(f"like takes at most {MAX_PATTERN_LENGTH} characters")
        if not _is_unicode(text):
            raise FilterError("like takes Unicode text")
        wild = {"*": ".*", "?": "."}
        words = "".join(wild.get(c) or re2.escape(c) for c in re.sub(r"\*+", "*", text))
        pattern = re2.compile(words, options=options)
        return lambda found: any(
            isinstance(value, str) and _is_unicode(value) and pattern.fullmatch(value) is not None
            for value in found
        )

    return make


def _is_unicode(text: str) -> bool:
    """Return whether UTF-8 can say it: a lone surrogate stands for nothing."""
    return text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)


def _exists(_: list[Any]) -> Callable[[Sequence[Any]], bool]:
    return bool


def _empty(_: list[Any]) -> Callable[[Sequence[Any]], bool]:
    """Absent, null, or a text, list or object with nothing in it; no number and no truth value is empty."""
    return lambda found: (
        not found
        or any(value is None or (isinstance(value, str | list | dict) and not value) for value in found)
    )


RELATIONAL: Final[dict[str, Callable[[list[Any]], Callable[[Sequence[Any]], bool]]]] = {
    "eq": _eq,
    "ne": _ne,
    "gt": _ordered(lambda a, b: a > b),
    "ge": _ordered(lambda a, b: a >= b),
    "lt": _ordered(lambda a, b: a < b),
    "le": _ordered(lambda a, b: a <= b),
    "like": _like(case_sensitive=True),
    "ilike": _like(case_sensitive=False),
    "in": _eq,
    "exists": _exists,
    "empty": _empty,
}
ARGUMENTS: Final = {"in": (1, 1_000), "exists": (0, 0), "empty": (0, 0)}
LOGICAL: Final[dict[str, Callable[[list[Predicate]], Predicate]]] = {
    "and": lambda parts: lambda values: all(part(values) for part in parts),
    "or": lambda parts: lambda values: any(part(values) for part in parts),
    "not": lambda parts: lambda values: not parts[0](values),
}
