"""A payload as a list of chunks of which a tick renews a few: shared by the JSON and Avro encoders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, AnyStr, Final, Generic

# Literals between units are the same for all vehicles of a kind: one object each, whatever the fleet's size.
_SHARED: Final[dict[Any, Any]] = {}


class Chunks(Generic[AnyStr]):
    """Chunks of one payload: literals, and one chunk for each unit (see `messages.units`)."""

    __slots__ = ("_empty", "_literal", "chunks", "makers")

    def __init__(self, empty: AnyStr) -> None:
        self._empty = empty
        self._literal = empty
        self.chunks: list[AnyStr] = []
        self.makers: list[tuple[int, Callable[[Any], AnyStr], Any]] = []

    def literal(self, text: AnyStr) -> None:
        """Append what never changes."""
        self._literal += text

    def unit(self, make: Callable[[Any], AnyStr], record: Any) -> None:
        """Append the chunk of the next unit."""
        self._flush()
        self.makers.append((len(self.chunks), make, record))
        self.chunks.append(make(record))

    def renew(self, changed: list[int]) -> None:
        """Make the chunks of these units anew."""
        chunks, makers = self.chunks, self.makers
        for unit in changed:
            index, make, record = makers[unit]
            chunks[index] = make(record)

    def payload(self) -> AnyStr:
        """Return the whole."""
        if self._literal:
            self._flush()
        return self._empty.join(self.chunks)

    def _flush(self) -> None:
        if self._literal:
            self.chunks.append(_SHARED.setdefault(self._literal, self._literal))
            self._literal = self._empty
