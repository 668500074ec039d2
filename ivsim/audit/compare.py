"""What was said beside what was recomputed, figure by figure; equal means equal, to the last digit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ivsim.audit.result import Result

Row = Mapping[str, Any]
KEPT: Final = 100_000  # differences of a sheet; those behind are counted
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
        differing: how many differ.
        differences: the first `KEPT` of these.
        as_said: figures that no log can tell, taken as they are.
    """

    name: str
    source: str
    compared: int = 0
    differing: int = 0
    differences: list[Difference] = field(default_factory=list)
    as_said: list[str] = field(default_factory=list)

    def hold(self, figure: str, said: Any, found: Any) -> None:
        """Compare one figure."""
        self.compared += 1
        if _differ(said, found):
            self.differs(figure, shown(said), shown(found))

    def differs(self, figure: str, said: str, recomputed: str) -> None:
        """Note a difference."""
        self.differing += 1
        if len(self.differences) < KEPT:
            self.differences.append(Difference(figure, said, recomputed))

    def hold_values(self, said: Row, found: Row, as_said: Iterable[str] = ()) -> None:
        """Compare the figures of an object; one that is in only one of the two differs, and so does an unknown one."""
        untold = set(as_said)
        for name in dict.fromkeys([*said, *found]):
            if name in untold:
                self.as_said.append(name)
            elif name not in found:
                self.compared += 1
                self.differs(name, shown(said[name]), "unknown to this audit")
            elif name not in said:
                self.compared += 1
                self.differs(name, _MISSING, shown(found[name]))
            else:
                self.hold(name, said[name], found[name])

    def hold_rows(
        self, said: Sequence[Row], found: Sequence[Row], key: Sequence[str], columns: Sequence[str] = ()
    ) -> None:
        """Compare a whole table (`Table`)."""
        table = Table(self, key, columns)
        table.hold(said, found)
        table.end()


class Table:
    """A table of a sheet, compared by key in no order, some rows at a time.

    Args:
        sheet: what takes note.
        key: the columns that name a row. Rows of one name come in one call of `hold`.
        columns: those that are compared; none for all, and then a column of only one side differs.
    """

    def __init__(self, sheet: Sheet, key: Sequence[str], columns: Sequence[str] = ()) -> None:
        self._sheet, self._key, self._given = sheet, tuple(key), list(columns)
        self._noted: set[str] = set()
        self._nameless = False
        self._twice = 0

    def hold(self, said: Sequence[Row], found: Sequence[Row]) -> None:
        """Compare some rows of the file with all that they should be."""
        columns = self._columns(said, found)
        if self._nameless:
            return
        sheet = self._sheet
        said_by, found_by = _by_key(said, self._key), _by_key(found, self._key)
        for name in dict.fromkeys([*said_by, *found_by]):
            mine, other = said_by.get(name), found_by.get(name)
            if mine is None or other is None:
                sheet.compared += 1
                sheet.differs(_label(name), *((_NO_ROW, "a row") if mine is None else ("a row", _NO_ROW)))
                continue
            sheet.compared += len(columns)
            for column in columns:
                if _differ(mine[column], other[column]):
                    sheet.differs(f"{_label(name)} {column}", shown(mine[column]), shown(other[column]))
        self._twice += len(said) - len(said_by)

    def end(self) -> None:
        """Say how many rows had the name of another."""
        if self._twice:
            self._sheet.differs("rows with one name", f"{self._twice:,} twice", "0")

    def _columns(self, said: Sequence[Row], found: Sequence[Row]) -> list[str]:
        """Return what is compared of these rows; note, once, each column that only one side has."""
        if not said:
            return []
        names = self._given or (list(found[0]) if found else [])
        lacking = [name for name in dict.fromkeys((*self._key, *names)) if name not in said[0]]
        unknown = [name for name in said[0] if found and not self._given and name not in found[0]]
        for name in unknown:
            self._note(name, "there", "unknown to this audit")
        for name in lacking:
            self._note(name, _MISSING, "there")
        self._nameless |= not {*lacking}.isdisjoint(self._key)
        return [name for name in names if name not in lacking]

    def _note(self, column: str, said: str, recomputed: str) -> None:
        if column not in self._noted:
            self._noted.add(column)
            self._sheet.compared += said == _MISSING
            self._sheet.differs(f"column {column}", said, recomputed)


@dataclass
class Audit:
    """What an audit of one run came to.

    Attributes:
        result: the run.
        sheets: a file each, or a part of one.
        notes: what was not audited, and why.
    """

    result: Result
    sheets: list[Sheet] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def agrees(self) -> bool:
        """Whether no figure differs."""
        return not any(sheet.differing for sheet in self.sheets)

    @property
    def compared(self) -> int:
        return sum(sheet.compared for sheet in self.sheets)

    def sheet(self, name: str, source: str) -> Sheet:
        """Return a new sheet of this audit."""
        self.sheets.append(Sheet(name, source))
        return self.sheets[-1]


def _differ(said: Any, found: Any) -> bool:
    return said != found or isinstance(said, bool) != isinstance(found, bool)


def _label(key: tuple[Any, ...]) -> str:
    return "/".join(map(str, key))


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
