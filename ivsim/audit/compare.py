"""What was said beside what was recomputed, figure by figure; equal means equal, to the last digit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

Row = Mapping[str, Any]
_NO_ROW: Final = "no row"
_MISSING: Final = "missing"


@dataclass(frozen=True)
class Difference:
    """A figure that was said to be one thing and comes out as another; both are words ready to print."""

    figure: str
    said: str
    recomputed: str


@dataclass
class Sheet:
    """One file of a result, or one part of it: how many figures were compared, and which differ.

    Attributes:
        name: of the file, and of the part where it has several.
        source: what it was recomputed from.
        as_said: figures that no log can tell, taken as they are.
    """

    name: str
    source: str
    compared: int = 0
    differences: list[Difference] = field(default_factory=list)
    as_said: list[str] = field(default_factory=list)

    def hold(self, figure: str, said: Any, found: Any) -> None:
        """Compare one figure."""
        self.compared += 1
        if said != found or isinstance(said, bool) != isinstance(found, bool):
            self.differences.append(Difference(figure, shown(said), shown(found)))

    def hold_values(self, said: Row, found: Row, as_said: Iterable[str] = ()) -> None:
        """Compare the figures of an object; one that is in only one of the two differs, and so does an unknown one."""
        untold = set(as_said)
        for name in dict.fromkeys([*said, *found]):
            if name in untold:
                self.as_said.append(name)
            elif name not in found:
                self.compared += 1
                self.differences.append(Difference(name, shown(said[name]), "unknown to this audit"))
            elif name not in said:
                self.compared += 1
                self.differences.append(Difference(name, _MISSING, shown(found[name])))
            else:
                self.hold(name, said[name], found[name])

    def hold_rows(
        self,
        said: Sequence[Row],
        found: Sequence[Row],
        key: Sequence[str],
        columns: Sequence[str] | None = None,
    ) -> None:
        """Compare tables by key, in no order.

        Args:
            said: the file's rows.
            found: the recomputed ones.
            key: the columns that name a row.
            columns: those that are compared; None for all, and then a column of only one side differs.
        """
        names = list(columns or [])
        if columns is None:
            names = self._columns(said, found)
        if said and any(name not in said[0] for name in (*key, *names)):
            lacking = [name for name in dict.fromkeys((*key, *names)) if name not in said[0]]
            self.compared += len(lacking)
            self.differences += [Difference(f"column {name}", _MISSING, "there") for name in lacking]
            names = [name for name in names if name in said[0]]
            if any(name in lacking for name in key):
                return
        said_by, found_by = _by_key(said, key), _by_key(found, key)
        for name in dict.fromkeys([*said_by, *found_by]):
            mine, other = said_by.get(name), found_by.get(name)
            label = "/".join(map(str, name))
            if mine is None or other is None:
                self.compared += 1
                words = (_NO_ROW, "a row") if mine is None else ("a row", _NO_ROW)
                self.differences.append(Difference(label, *words))
                continue
            for column in names:
                self.hold(f"{label} {column}", mine[column], other[column])
        if len(said_by) != len(said):
            self.differences.append(
                Difference("rows with one name", f"{len(said) - len(said_by):,} twice", "0")
            )

    def _columns(self, said: Sequence[Row], found: Sequence[Row]) -> list[str]:
        if not said or not found:
            return []
        for name in (name for name in said[0] if name not in found[0]):
            self.differences.append(Difference(f"column {name}", "there", "unknown to this audit"))
        return list(found[0])


def _by_key(rows: Sequence[Row], key: Sequence[str]) -> dict[tuple[Any, ...], Row]:
    return {tuple(row[name] for name in key): row for row in rows}


def shown(value: Any) -> str:
    """Return a figure as a person reads it, with all of its digits."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}" if abs(value) < 10**15 else str(value)
    return repr(value) if isinstance(value, float) else str(value)
