"""The typed reading that every format encodes and decodes; knows no byte format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from schemas.generated.records import (
    Axle,
    Body,
    Combustion,
    Connectivity,
    Counter,
    Crew,
    Document,
    Drivetrain,
    Flag,
    Header,
    Lamp,
    Motion,
    Position,
    Reading,
    Traction,
    Trailer,
    Wheel,
)
from schemas.layout import LAYOUT, RECORDS, ROOT

SECTIONS: Final = tuple(f.name for f in LAYOUT.messages[ROOT])


class CurrentStatus:
    """What a vehicle measured at one instant; sections are records of schemas.generated.records.

    A decoded status may hold its payload and make each section when it is first read: decoding has by
    then checked what the format's `decode` promises. A *living* status (`watch()`) is changed in place:
    whoever changes a record names its unit in `changed`, and encoders then renew only those bytes.
    """

    __slots__ = (*SECTIONS, "_source", "changed", "encoders", "units")

    header: Header | None
    position: Position | None
    motion: Motion | None
    combustion: Combustion | None
    traction: Traction | None
    drivetrain: Drivetrain | None
    axles: list[Axle]
    trailers: list[Trailer]
    body: Body | None
    crew: list[Crew]
    lamps: list[Lamp]
    connectivity: Connectivity | None
    units: list[Any]  # living only: every record and every message with scalars, in schema order
    changed: list[int]  # living only: indices into `units`
    encoders: dict[str, Any] | None  # format name -> its state for this living status; None: not living

    def __init__(self, source: Callable[[str], Any]) -> None:
        """Make a status whose sections come from `source(name)` when they are first read."""
        self._source = source
        self.encoders = None

    @classmethod
    def of(cls, document: Document) -> CurrentStatus:
        """Return a status that holds the document's sections themselves."""
        status = cls(document.__getattribute__)
        for name in SECTIONS:
            setattr(status, name, getattr(document, name))
        return status

    def __getattr__(self, name: str) -> Any:
        # Python comes here only while the slot is empty.
        if name not in SECTIONS:
            raise AttributeError(name)
        section = self._source(name)
        setattr(self, name, section)
        return section

    def document(self) -> Document:
        """Return all sections as one record; makes those that were not read yet."""
        return Document(*[getattr(self, name) for name in SECTIONS])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CurrentStatus):
            return NotImplemented
        return self.document() == other.document()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"CurrentStatus({self.document()!r})"

    def watch(self) -> list[Any]:
        """Make the status living, or living anew after a record came or went; return its units."""
        self.changed = []
        self.encoders = {}
        self.units = list(units(self))
        return self.units

    def changes_for(self, name: str) -> tuple[Any, list[int] | None]:
        """Return the state of encoder `name` and the units changed since it last asked.

        (None, None) means that there is no state: encode everything.
        """
        if self.encoders is None:
            return None, None
        if self.changed:
            for _, pending in self.encoders.values():
                pending.extend(self.changed)
            self.changed.clear()
        entry: tuple[Any, list[int] | None] = self.encoders.get(name, (None, None))
        return entry

    def keep(self, name: str, state: Any) -> None:
        """Keep an encoder's state with a living status."""
        if self.encoders is not None:
            self.encoders[name] = (state, [])


def units(status: CurrentStatus) -> Iterator[Any]:
    """Yield every record and every message with scalars, in schema order."""
    for field in LAYOUT.messages[ROOT]:
        value = getattr(status, field.name)
        for item in value if field.repeated else [value]:
            if item is not None:
                yield from _units(field.type_name, item)


def _units(name: str, message: Any) -> Iterator[Any]:
    if name in RECORDS:
        yield message
        return
    scalars_done = False
    for field in LAYOUT.messages[name]:
        if field.is_scalar:
            if not scalars_done:
                yield message
            scalars_done = True
            continue
        value = getattr(message, field.name)
        for item in value if field.repeated else [value]:
            if item is not None:
                yield from _units(field.type_name, item)


__all__ = [
    "SECTIONS",
    "Axle",
    "Body",
    "Combustion",
    "Connectivity",
    "Counter",
    "Crew",
    "CurrentStatus",
    "Document",
    "Drivetrain",
    "Flag",
    "Header",
    "Lamp",
    "Motion",
    "Position",
    "Reading",
    "Traction",
    "Trailer",
    "Wheel",
    "units",
]
