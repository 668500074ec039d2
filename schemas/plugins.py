"""Parts of other people's packages: tables that entry points extend, each part loaded when it is asked for.

An installed package says `[project.entry-points."ivsim.formats"]` and `name = "module:object"`. Nothing of it is imported
before its name is asked for or a table is listed; a row of the program's own may be such a `module:object`, too. A table
never has the wrong part under a name: what does not load, or takes a name that is there, is refused by name where it is
asked for, and left out where others are listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from functools import cache
from importlib.metadata import EntryPoint, distributions
from typing import Any, Final, Generic, NamedTuple, TypeVar

from schemas.errors import Refusal

PREFIX: Final = "ivsim."
Row = TypeVar("Row")


class Plugin(NamedTuple):
    """One entry point of an installed package.

    Attributes:
        group: the kind of part, such as "ivsim.formats".
        where: module:object.
        package, version: of the distribution that has it.
    """

    group: str
    name: str
    where: str
    package: str
    version: str

    def refusal(self, reason: str) -> Refusal:
        """Return why it is no part of this program, in one line."""
        return Refusal(
            f"plug-in {self.name} of {self.package} {self.version} ({self.group}, {self.where}): {reason}"
        )


@cache
def installed() -> tuple[Plugin, ...]:
    """Return every plug-in of this environment, by group and name; reads packages' metadata once, imports none."""
    found: dict[str, list[Plugin]] = {}
    for distribution in distributions():
        own = [one for one in distribution.entry_points if one.group.startswith(PREFIX)]
        # Of two on the path the first is what is imported.
        if own and distribution.name not in found:
            found[distribution.name] = [
                Plugin(one.group, one.name, one.value, distribution.name, distribution.version) for one in own
            ]
    return tuple(sorted(plugin for plugins in found.values() for plugin in plugins))


def made(found: Any) -> Any:
    """Return the part that an entry point names: the object, or what a class gives without arguments."""
    return found() if isinstance(found, type) else found


def checked(part: Any, name: str, kind: type | None = None, needs: tuple[str, ...] = ()) -> Any:
    """Return a part that is one of its kind and has the entry point's name; ValueError says what it lacks."""
    if kind is not None and not isinstance(part, kind):
        raise ValueError(f"no {kind.__name__} but {type(part).__name__}")
    if lacking := [need for need in needs if not hasattr(part, need)]:
        raise ValueError(f"has no {', '.join(lacking)}")
    if part.name != name:
        raise ValueError(f"calls itself {part.name!r}")
    return part


class Table(MutableMapping[str, Row], Generic[Row]):
    """The parts of one kind by name: the program's own, and those of plug-ins behind them.

    `name in table` says that there is a part or a plug-in of that name, and `table[name]` gives it, or is a Refusal where
    the plug-in is not what it promises. Iteration lists what can be used.

    Args:
        group: of the entry points.
        own: the program's own rows, or where they are, as "module:object".
        row: makes a row of a plug-in and the object that it names; any exception of it is the plug-in's fault.
    """

    def __init__(self, group: str, own: Mapping[str, Row | str], row: Callable[[Plugin, Any], Row]) -> None:
        self.group: Final = group
        self._own: dict[str, Row | str] = dict(own)
        self._row = row
        self._loaded: dict[str, Row | Refusal] = {}

    def __getitem__(self, name: str) -> Row:
        if name in self._own:
            own = self._own[name]
            if isinstance(own, str):
                own = self._own[name] = made(object_at(own))
            return own
        if name not in self._loaded:
            claims = self._claims(name)
            if not claims:
                raise KeyError(name)
            self._loaded[name] = self._load(claims)
        found = self._loaded[name]
        if isinstance(found, Refusal):
            raise found
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._own or name in self._loaded or bool(self._claims(name))

    def __iter__(self) -> Iterator[str]:
        yield from list(self._own)
        for name in dict.fromkeys(plugin.name for plugin in self.plugins()):
            if name not in self._own and self.reason(name) is None:
                yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __setitem__(self, name: str, row: Row | str) -> None:
        self._own[name] = row

    def __delitem__(self, name: str) -> None:
        del self._own[name]

    def clear(self) -> None:
        """Take the program's own rows out; plug-ins stay as long as they are installed."""
        self._own.clear()

    def plugins(self) -> list[Plugin]:
        """Return the plug-ins of this table's group, whether they can be used or not."""
        return [plugin for plugin in installed() if plugin.group == self.group]

    def reason(self, name: str) -> str | None:
        """Return why the plug-in of that name cannot be used, None when it can."""
        if name in self._own:
            return (
                str(self._claims(name)[0].refusal("ivsim has a part of that name"))
                if self._claims(name)
                else None
            )
        try:
            self[name]
        except Refusal as refusal:
            return str(refusal)
        return None

    def _claims(self, name: object) -> list[Plugin]:
        return [plugin for plugin in self.plugins() if plugin.name == name]

    def _load(self, claims: list[Plugin]) -> Row | Refusal:
        first, *others = claims
        if others:
            return first.refusal(f"{others[0].package} {others[0].version} has one of that name, too")
        try:
            return self._row(first, object_at(first.where))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - somebody else's code, whatever is wrong with it
            return first.refusal(
                f"{type(error).__name__}: {error}" if not isinstance(error, ValueError) else str(error)
            )


def object_at(where: str) -> Any:
    """Return what "module:object" names; imports the module."""
    return EntryPoint("", where, "").load()
