"""Many payloads at once: where each scalar of a message lies, and columns of those that change from message to message.

A *block* is some messages of some vehicles. Every vehicle has a template: all bytes that its payload could ever have, and
a mask that says which of them it has now. A block copies the templates of its rows, writes each column where it lies in
all rows together, and keeps what the mask leaves: no loop over fields or messages runs in Python. What changes rarely
(a lamp, a sensor's fault) is written into single rows, and into the template for the blocks to come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from schemas.layout import LAYOUT, ROOT, Field
from schemas.messages import CurrentStatus

Path = tuple[str | int, ...]
Bytes = NDArray[np.uint8]
Mask = NDArray[np.bool_]
Sizes = NDArray[np.int32]


class Node(NamedTuple):
    """A message within the message; the root is node 0, and a node comes after its parent."""

    parent: int
    type_name: str
    number: int  # of the field in its parent
    path: Path


class Scalar(NamedTuple):
    """A number or text of a node."""

    node: int
    field: Field


class Shape:
    """Every node and scalar that a status may have, in schema order, with each list at its greatest length."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        """Take how many items each repeated field may have, by the field's name."""
        self.nodes: list[Node] = []
        self.scalars: list[Scalar] = []
        self.steps: list[tuple[str, int, Field | None]] = []  # what, node or scalar, field of a list
        self._counts = counts
        self._walk(-1, ROOT, 0, ())
        self._steps_to = [_step_to(node) for node in self.nodes[1:]]
        self._numbers = {(self.nodes[s.node].path, s.field.name): k for k, s in enumerate(self.scalars)}

    def scalar(self, path: Path, name: str) -> int:
        """Return the index of the scalar `name` of the node at `path`; KeyError when there is none."""
        return self._numbers[path, name]

    def messages(self, status: CurrentStatus) -> list[Any]:
        """Return what is at each node, None where the status has nothing.

        Raises ValueError when a list is longer than the shape allows.
        """
        found: list[Any] = [status]
        add = found.append
        for parent, name, item in self._steps_to:
            value = getattr(found[parent], name, None)
            if item is not None and value is not None:
                if len(value) > self._counts[name]:
                    raise ValueError(f"{name}: {len(value)} items, at most {self._counts[name]}")
                value = value[item] if item < len(value) else None
            add(value)
        return found

    def _walk(self, parent: int, name: str, number: int, path: Path) -> None:
        node = len(self.nodes)
        self.nodes.append(Node(parent, name, number, path))
        self.steps.append(("open", node, None))
        for field in LAYOUT.messages[name]:
            if field.is_scalar:
                self.steps.append(("scalar", len(self.scalars), None))
                self.scalars.append(Scalar(node, field))
            elif field.repeated:
                self.steps.append(("list", node, field))
                for k in range(self._counts[field.name]):
                    self._walk(node, field.type_name, field.number, (*path, field.name, k))
                self.steps.append(("end", node, field))
            else:
                self._walk(node, field.type_name, field.number, (*path, field.name))
        self.steps.append(("close", node, None))


def _step_to(node: Node) -> tuple[int, str, int | None]:
    """Return parent, field and item with which a node is reached."""
    *before, last = node.path
    if isinstance(last, int):
        return node.parent, str(before[-1]), last
    return node.parent, last, None


class Columns(NamedTuple):
    """Which scalars change from message to message, as indices into a shape's scalars, by the type of their column."""

    floats: tuple[int, ...]
    doubles: tuple[int, ...]
    integers: tuple[int, ...]  # enums as numbers, flags as 0 and 1


class Values(NamedTuple):
    """The columns of a block: one row a message, the columns as `Columns` names them."""

    floats: NDArray[np.float64]
    doubles: NDArray[np.float64]
    integers: NDArray[np.int64]


class Event(NamedTuple):
    """A scalar that has another value from a row of the block on, for one vehicle.

    `tick` and `member` count within the block; `value` is a number: an enum's, or 0 and 1 for a flag.
    """

    tick: int
    member: int
    scalar: int
    value: int


class Templates(Protocol):
    """The templates of some vehicles in one format."""

    def set(self, vehicle: int, messages: list[Any]) -> None:
        """Make the template of a vehicle (its index among them) from what a shape's `messages` found in its status."""
        ...

    def payloads(self, members: Sequence[int], values: Values, events: Iterable[Event]) -> list[bytes]:
        """Return the payloads of a block, tick by tick, in each tick one for each of `members`."""
        ...


class BlockLayout(Protocol):
    """Where the bytes of one format lie, for all vehicles."""

    def templates(self, vehicles: int) -> Templates:
        """Return room for the templates of so many vehicles."""
        ...


Blocks = Callable[[Shape, Columns], BlockLayout]
