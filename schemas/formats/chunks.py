"""A payload as a list of chunks of which a tick renews a few: shared by the JSON and Avro encoders."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any, AnyStr, Final, Generic

# Literals between units are the same for all vehicles of a kind: one object each, whatever the fleet's size.
_SHARED: Final[dict[Any, Any]] = {}


class Chunks(Generic[AnyStr]):
    """Chunks of one payload: literals, and one chunk for each unit (see `CurrentStatus.units`)."""

    __slots__ = ("_chunks", "_empty", "_literal", "_make", "_places")

    def __init__(self, empty: AnyStr, make: dict[type[Any], Callable[[Any], AnyStr]]) -> None:
        """Begin a payload; `make` gives the chunk of a record or message from its type."""
        self._empty: AnyStr = empty
        self._literal: AnyStr = empty
        self._make: dict[type[Any], Callable[[Any], AnyStr]] = make
        self._chunks: list[AnyStr] = []
        self._places = array("H")

    def literal(self, text: AnyStr) -> None:
        """Append what never changes."""
        self._literal += text

    def unit(self, record: Any) -> None:
        """Append the chunk of the next unit."""
        self._flush()
        self._places.append(len(self._chunks))
        self._chunks.append(self._make[type(record)](record))

    def renew(self, units: list[Any], changed: list[int]) -> None:
        """Make the chunks of the units with these indices anew."""
        chunks, places, make = self._chunks, self._places, self._make
        for unit in changed:
            record = units[unit]
            chunks[places[unit]] = make[type(record)](record)

    def payload(self) -> AnyStr:
        """Return the whole."""
        if self._literal:
            self._flush()
        whole: AnyStr = self._empty.join(self._chunks)
        return whole

    def _flush(self) -> None:
        if self._literal:
            self._chunks.append(_SHARED.setdefault(self._literal, self._literal))
            self._literal = self._empty
