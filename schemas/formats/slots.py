"""Payloads in slots: each scalar has its place in a template, and a mask says which bytes a payload has."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from schemas.formats.blocks import Bytes, Columns, Event, Mask, Node, Scalar, Shape, Sizes, Values
from schemas.formats.slot_columns import WRITERS, ColumnGroup, Level, Rows, write_lengths
from schemas.generated.runs import NAMES
from schemas.scalars import varint

TEXT_BYTES: Final = 32  # the longest string that a template has room for
_NUMBERS: Final = {kind: {name: k for k, name in names.items()} for kind, names in NAMES.items()}
_ONE_BYTE: Final = frozenset({"enum", "bool"})
_CODED_KEPT: Final = 4_096
_ONES: Final = tuple(b"\x01" * k for k in range(64))


class Slot(NamedTuple):
    """Where a scalar lies in a template: a tag that never changes, then room for its value."""

    at: int
    tag: bytes
    width: int


class _Place(NamedTuple):
    """Where the head of a node lies."""

    parent: int
    at: int
    head: int  # its length, without the node's
    length_at: int
    absent: bytes
    live: bool


class SlotLayout(ABC):
    """Slots in a row, one behind another as the payload has them, of which each message leaves some out.

    A format says what stands before a scalar and before a node, and whether nodes say how long they are.
    """

    omits_defaults = False
    has_lengths = False

    def __init__(self, shape: Shape, columns: Columns) -> None:
        self.shape = shape
        self.columns = columns
        self._data: Bytes = np.empty((0, 0), dtype=np.uint8)
        self._mask: Mask = np.empty((0, 0), dtype=np.bool_)
        self.moving = frozenset((*columns.floats, *columns.doubles, *columns.integers))
        self.slots: list[Slot] = []
        self.heads: list[int] = [0] * len(shape.nodes)  # where a node's tag lies
        self.lengths: list[int] = [0] * len(shape.nodes)  # where its length lies
        self.length_widths: list[int] = [0] * len(shape.nodes)
        self.lists: dict[tuple[int, str], tuple[int, int]] = {}
        live = {shape.scalars[k].node for k in self.moving}
        for node in reversed(range(len(shape.nodes))):
            if node in live:
                live.add(shape.nodes[node].parent)
        self.live = live - {-1}
        self._most = self._greatest()
        self._lay()
        self.groups = [*self._groups("floats"), *self._groups("doubles"), *self._groups("integers")]
        self.levels = self._levels()
        self.still = self._still()
        self.nodes = [
            _Place(
                node.parent,
                self.heads[k],
                len(self.head(node)),
                self.lengths[k],
                self.absent(node),
                k in self.live,
            )
            for k, node in enumerate(shape.nodes)
        ]

    # What a format says.

    @abstractmethod
    def tag(self, scalar: Scalar) -> bytes:
        """Return what stands before a scalar."""

    @abstractmethod
    def width(self, scalar: Scalar) -> int:
        """Return the most bytes of the scalar's value."""

    @abstractmethod
    def value(self, scalar: Scalar, value: Any) -> bytes:
        """Return the bytes of a value."""

    @abstractmethod
    def head(self, node: Node) -> bytes:
        """Return what stands before a node that is there; before the root, what each payload begins with."""

    @abstractmethod
    def absent(self, node: Node) -> bytes:
        """Return what stands for a node that is not there, though its parent is; no longer than its head."""

    @abstractmethod
    def signed(self, scalar: Scalar) -> bool:
        """Say whether a varint is zigzag-coded."""

    @abstractmethod
    def fixed(self, scalar: Scalar) -> bool:
        """Say whether an integer has eight bytes whatever its value."""

    def coded(self, scalar: Scalar, value: Any) -> bytes:
        """Return tag and value, nothing for a default that the format leaves out."""
        if scalar.field.kind == "enum" and isinstance(value, str):
            value = _NUMBERS[scalar.field.type_name][value]
        if self.omits_defaults and not value:
            return b""
        return self.tag(scalar) + self.value(scalar, value)

    def templates(self, vehicles: int) -> SlotTemplates:
        return SlotTemplates(self, vehicles)

    def room(self, rows: int) -> tuple[Bytes, Mask]:
        """Return room for the rows of a block, the same for all vehicles: new pages would cost more than what is written."""
        if len(self._data) < rows:
            self._data = np.empty((rows, len(self.constant)), dtype=np.uint8)
            self._mask = np.empty((rows, len(self.constant)), dtype=np.bool_)
        return self._data[:rows], self._mask[:rows]

    def _greatest(self) -> list[int]:
        """Return the greatest length of each node's content."""
        most = [0] * len(self.shape.nodes)
        for scalar in self.shape.scalars:
            most[scalar.node] += len(self.tag(scalar)) + self.width(scalar)
        for k in reversed(range(1, len(most))):
            node = self.shape.nodes[k]
            most[node.parent] += most[k] + len(self.head(node)) + 3
        return most

    def _lay(self) -> None:
        at = 0
        constant = bytearray()
        opened: list[tuple[int, int]] = []
        for what, index, field in self.shape.steps:
            if what == "open":
                node = self.shape.nodes[index]
                head = self.head(node)
                self.heads[index] = at
                constant += head
                at += len(head)
                if self.has_lengths and index:
                    if self._most[index] > 16_383:
                        raise ValueError(f"{node.type_name}: {self._most[index]} bytes are too long")
                    self.lengths[index] = at
                    self.length_widths[index] = width = 1 if self._most[index] < 128 else 2
                    constant += bytes(width)
                    at += width
            elif what == "scalar":
                scalar = self.shape.scalars[index]
                slot = Slot(at, self.tag(scalar), self.width(scalar))
                self.slots.append(slot)
                constant += slot.tag + bytes(slot.width)
                at += len(slot.tag) + slot.width
            elif what in {"list", "end"} and not self.has_lengths:
                # A list has a count before it and an end mark behind it, one byte each.
                assert field is not None
                constant += b"\x00"
                if what == "list":
                    opened.append((index, at))
                else:
                    _, begun = opened.pop()
                    self.lists[index, field.name] = (begun, at)
                at += 1
        self.constant = np.frombuffer(bytes(constant), dtype=np.uint8)

    def _groups(self, kind: str) -> list[ColumnGroup]:
        """Return the columns of a type, by what they are written as."""
        scalars: tuple[int, ...] = getattr(self.columns, kind)
        by_form: dict[tuple[str, int, int, bool], list[int]] = {}
        names = [self._form(kind, self.shape.scalars[k]) for k in scalars]
        alike = Counter((form, self.shape.scalars[k].node) for form, k in zip(names, scalars, strict=True))
        for column, (form, k) in enumerate(zip(names, scalars, strict=True)):
            slot, node = self.slots[k], self.shape.scalars[k].node
            shared = alike[form, node] > 1
            by_form.setdefault((form, len(slot.tag), slot.width, shared), []).append(column)
        found = []
        for (form, tag, width, shared), members in by_form.items():
            members.sort(key=lambda c: self.shape.scalars[scalars[c]].node)
            owner = np.array([self.shape.scalars[scalars[c]].node for c in members], dtype=np.intp)
            owners, starts = np.unique(owner, return_index=True)
            slots = [self.slots[scalars[c]] for c in members]
            values = [slot.at + len(slot.tag) + k for slot in slots for k in range(width)]
            masks = [slot.at + k for slot in slots for k in range(len(slot.tag) + width)]
            found.append(
                ColumnGroup(
                    form,
                    np.array(members, dtype=np.intp),
                    owner,
                    owners,
                    starts if shared else None,
                    np.array(values, dtype=np.intp),
                    np.array(masks, dtype=np.intp),
                    tag,
                    width,
                    np.array([self.signed(self.shape.scalars[scalars[c]]) for c in members]),
                )
            )
        return found

    def _still(self) -> list[tuple[int, list[tuple[str, int, int, Scalar, dict[Any, bytes]]]]]:
        """Return the scalars that are no columns, by node: name, place, room, itself, and codes that are known."""
        known: dict[tuple[bytes, str, str], dict[Any, bytes]] = {}
        found: dict[int, list[tuple[str, int, int, Scalar, dict[Any, bytes]]]] = {}
        for k, scalar in enumerate(self.shape.scalars):
            if k not in self.moving:
                slot, field = self.slots[k], scalar.field
                alike = known.setdefault(
                    (slot.tag, field.kind, field.type_name + "!" * self.fixed(scalar)), {}
                )
                one = (field.name, slot.at, len(slot.tag) + slot.width, scalar, alike)
                found.setdefault(scalar.node, []).append(one)
        return list(found.items())

    def _form(self, kind: str, scalar: Scalar) -> str:
        """Return how the column of a scalar is written."""
        if kind != "integers":
            return kind
        if self.fixed(scalar):
            return "fixed"
        return "byte" if scalar.field.kind in _ONE_BYTE else "varint"

    def _levels(self) -> list[Level]:
        """Return the nodes with a column beneath, deepest first, apart by the room for their lengths."""
        depth = [0] * len(self.shape.nodes)
        for k, node in enumerate(self.shape.nodes[1:], 1):
            depth[k] = depth[node.parent] + 1
        by_level: dict[tuple[int, int], list[int]] = {}
        for k in sorted(self.live - {0}, key=lambda k: (self.shape.nodes[k].parent, k)):
            by_level.setdefault((-depth[k], self.length_widths[k]), []).append(k)
        levels = []
        for (_, width), nodes in sorted(by_level.items()):
            parents, starts = np.unique([self.shape.nodes[k].parent for k in nodes], return_index=True)
            levels.append(
                Level(
                    np.array(nodes, dtype=np.intp),
                    parents.astype(np.intp),
                    starts,
                    np.array([self.lengths[k] for k in nodes], dtype=np.intp),
                    np.array([len(self.head(self.shape.nodes[k])) + 1 for k in nodes], dtype=np.int32),
                    wide=width > 1,
                )
            )
        return levels


class SlotTemplates:
    """Templates of vehicles in slots; `bytes` and `mask` have a row a vehicle, `content` the length of each node.

    The lengths of nodes with a column beneath are worked out in each block; `content` has what the rest adds to them.
    """

    def __init__(self, layout: SlotLayout, vehicles: int) -> None:
        self._layout = layout
        nodes = len(layout.shape.nodes)
        self.bytes: Bytes = np.tile(layout.constant, (vehicles, 1))
        self.mask: Mask = np.zeros(self.bytes.shape, dtype=np.bool_)
        self.content: Sizes = np.zeros((vehicles, nodes), dtype=np.int32)
        self.present: Mask = np.zeros((vehicles, nodes), dtype=np.bool_)

    def set(self, vehicle: int, messages: list[Any]) -> None:
        layout = self._layout
        content = [0] * len(messages)
        text = bytearray(layout.constant.tobytes())
        shown = bytearray(len(text))
        for node, scalars in layout.still:
            message = messages[node]
            if message is None:
                continue
            grown = 0
            for name, at, room, scalar, known in scalars:
                value = getattr(message, name)
                coded = known.get(value)
                if coded is None:
                    coded = layout.coded(scalar, value)
                    if len(coded) > room:
                        raise ValueError(f"{name}: {len(coded)} bytes, room for {room}")
                    if len(known) < _CODED_KEPT:
                        known[value] = coded
                size = len(coded)
                if size:
                    text[at : at + size] = coded
                    shown[at : at + size] = _ONES[size]
                    grown += size
            content[node] = grown
        self._lists(messages, text, shown, content)
        self._nodes(messages, text, shown, content)
        self.present[vehicle] = [message is not None for message in messages]
        self.bytes[vehicle] = np.frombuffer(text, dtype=np.uint8)
        self.mask[vehicle] = np.frombuffer(shown, dtype=np.bool_)
        self.content[vehicle] = content

    def _lists(self, messages: list[Any], text: bytearray, shown: bytearray, content: list[int]) -> None:
        for (node, name), (begin, end) in self._layout.lists.items():
            if messages[node] is None:
                continue
            items = len(getattr(messages[node], name))
            shown[end] = 1
            content[node] += 1
            if items:
                text[begin] = varint(items << 1)[0]
                shown[begin] = 1
                content[node] += 1

    def _nodes(self, messages: list[Any], text: bytearray, shown: bytearray, content: list[int]) -> None:
        """Write the heads of all nodes, and the lengths of those that no column changes."""
        layout = self._layout
        beginning = layout.nodes[0].head
        shown[:beginning] = _ONES[beginning]
        content[0] += beginning
        for k in range(len(messages) - 1, 0, -1):
            parent, at, head, place, absent, live = layout.nodes[k]
            if messages[k] is None:
                if messages[parent] is not None:
                    text[at : at + len(absent)] = absent
                    shown[at : at + len(absent)] = _ONES[len(absent)]
                    content[parent] += len(absent)
                continue
            shown[at : at + head] = _ONES[head]
            if not layout.has_lengths:
                content[parent] += head + (0 if live else content[k])
                continue
            shown[place] = 1
            if not live:
                length = varint(content[k])
                text[place : place + len(length)] = length
                shown[place : place + len(length)] = _ONES[len(length)]
                content[parent] += head + len(length) + content[k]

    def payloads(self, members: Sequence[int], values: Values, events: Iterable[Event]) -> list[bytes]:
        layout, size = self._layout, len(members)
        ticks = len(values.floats) // size
        rows = np.tile(np.asarray(members, dtype=np.intp), ticks)
        data, mask = layout.room(len(rows))
        self.bytes.take(rows, axis=0, out=data, mode="clip")
        self.mask.take(rows, axis=0, out=mask, mode="clip")
        content = self.content[rows]
        for event in events:
            first = event.tick * size + event.member
            self._put(data[first::size], mask[first::size], content[first::size], event)
            own = slice(members[event.member], members[event.member] + 1)
            self._put(self.bytes[own], self.mask[own], self.content[own], event)
        present = self.present[rows]
        block = Rows(values, data, mask, layout.omits_defaults)
        for columns in layout.groups:
            owned = present[:, columns.owner]
            sizes = WRITERS[columns.form](columns, block, owned)
            if columns.starts is not None:
                sizes = np.add.reduceat(sizes, columns.starts, axis=1)
            content[:, columns.owners] += sizes
        for level in layout.levels:
            total = content[:, level.nodes]
            if layout.has_lengths:
                total = write_lengths(level, total, block, present)
            content[:, level.parents] += np.add.reduceat(total, level.starts, axis=1)
        ends = np.cumsum(content[:, 0])
        whole = data[mask].tobytes()
        if len(whole) != ends[-1]:
            raise AssertionError(f"a block of {len(whole)} bytes, its lengths add up to {ends[-1]}")
        begin, found = 0, []
        for end in ends.tolist():
            found.append(whole[begin:end])
            begin = end
        return found

    def _put(self, data: Bytes, mask: Mask, content: Sizes, event: Event) -> None:
        """Write a scalar into all these rows of one vehicle, and the lengths around it."""
        layout = self._layout
        scalar, slot = layout.shape.scalars[event.scalar], layout.slots[event.scalar]
        coded = layout.coded(scalar, event.value)
        room = slice(slot.at, slot.at + len(slot.tag) + slot.width)
        grown = len(coded) - int(mask[0, room].sum())
        mask[:, room] = False
        mask[:, slot.at : slot.at + len(coded)] = True
        data[:, slot.at : slot.at + len(coded)] = np.frombuffer(coded, dtype=np.uint8)
        node = scalar.node
        content[:, node] += grown
        while node not in layout.live:
            parent = layout.shape.nodes[node].parent
            if layout.has_lengths:
                place = layout.lengths[node]
                before = int(mask[0, place : place + layout.length_widths[node]].sum())
                length = varint(int(content[0, node]))
                data[:, place : place + len(length)] = np.frombuffer(length, dtype=np.uint8)
                mask[:, place : place + layout.length_widths[node]] = False
                mask[:, place : place + len(length)] = True
                grown += len(length) - before
            content[:, parent] += grown
            node = parent
