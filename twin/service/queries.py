"""Questions about the whole fleet: search, order, pages, the fleet's summary; changes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from twin.service import decoded, rql
from twin.service.config import ServiceConfig
from twin.service.errors import bad_filter, bad_parameter
from twin.service.fleet import Fleet, Twin
from twin.service.live_metrics import WAYS, Conditions, Figures, VehicleFigures
from twin.service.record import REASONS
from twin.service.roads import read_roads
from twin.service.selection import Page, Path, cursor_of, fields_of, page_of, path_of, select
from twin.service.things import Thing, vehicle_of

_COLUMNS = {name: k for k, name in enumerate(decoded.COLUMNS)}
_KEYED = ("ageOfInformationMs", "stale")
_path = lru_cache(4_096)(path_of)


class Ask:
    """The service's knowledge, with a clock that tests can move."""

    def __init__(
        self, config: ServiceConfig, fleet: Fleet, figures: Figures, now_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self.config, self.fleet, self.figures, self.now_ns = config, fleet, figures, now_ns
        self.roads = read_roads(config.roads_file)

    def thing(self, twin: Twin) -> Thing:
        """Return a twin as a thing of this instant."""
        return Thing(twin, self.figures.vehicle(twin.vehicle_id), self.now_ns(), self.config.stale_after_s)

    def things(self, ids: list[str], fields: list[Path] | None) -> list[dict[str, Any]]:
        """Return the named things that exist, in the order of the names."""
        twins = (self.fleet.get(vehicle_of(name) or "") for name in ids)
        return [select(self.thing(twin), fields) for twin in twins if twin is not None]

    def search(
        self, filter_text: str | None, option: str | None, fields_text: str | None, namespaces: str | None
    ) -> dict[str, Any]:
        """Return a page of things: `items`, and `cursor` or `nextPageOffset` when there are more."""
        fields, page = fields_of(fields_text), page_of(option, filter_text or "")
        found = self.found(filter_text, namespaces)
        for path, descending in reversed(page.sort):
            found.sort(key=partial(_thing_order, path), reverse=descending)
        return self._paged(
            [select(t, fields) for t in _slice(found, page)], len(found), page, filter_text, option
        )

    def found(self, filter_text: str | None, namespaces: str | None) -> list[Thing]:
        """Return the things that a filter fits, in the order of their ids."""
        fits = self.filter(filter_text, namespaces)
        things = [self.thing(twin) for twin in self.fleet.twins()]
        return things if fits is None else [thing for thing in things if fits(thing)]

    def filter(self, text: str | None, namespaces: str | None) -> Callable[[Thing], bool] | None:
        """Return a filter of things, None when all fit."""
        if namespaces is not None and "ivsim" not in namespaces.split(","):
            return lambda _: False
        if not text:
            return None
        fits = _parsed(text)
        return lambda thing: fits(lambda path: thing.get(_path(path)))

    def _paged(
        self, items: list[Any], total: int, page: Page, filter_text: str | None, option: str | None
    ) -> dict[str, Any]:
        end = page.offset + len(items)
        answer: dict[str, Any] = {"items": items}
        if page.numbered:
            answer["nextPageOffset"] = end if end < total else -1
        elif end < total:
            answer["cursor"] = cursor_of(end, filter_text or "", option)
        return answer

    def rows(
        self, filter_text: str | None, sort: str, limit: int, offset: int, *, stale: bool | None
    ) -> dict[str, Any]:
        """Return a page of rows and how many the filter found."""
        name = sort.removeprefix("+").removeprefix(" ").removeprefix("-")
        if name not in _COLUMNS and name not in _KEYED:
            raise bad_parameter(
                "sort", f"{name[:40]!r} is no column; allowed: {', '.join([*_COLUMNS, *_KEYED])}"
            )
        twins = self.fleet.twins()
        now = self.now_ns()
        if stale is not None:
            twins = [twin for twin in twins if self.stale(twin, now) == stale]
        if filter_text:
            fits = _parsed(filter_text)
            twins = [twin for twin in twins if fits(partial(self._values, twin, now))]
        if name != "vehicleId" or sort.startswith("-"):
            twins.sort(key=lambda twin: _order(self._values(twin, now, name)), reverse=sort.startswith("-"))
        page = [self.row(twin, now) for twin in twins[offset : offset + limit]]
        return {"total": len(twins), "offset": offset, "items": page}

    def row(self, twin: Twin, now_ns: int) -> dict[str, Any]:
        """Return one twin in short, with its age."""
        made = dict(zip(decoded.COLUMNS, decoded.row(twin), strict=True))
        made["ageOfInformationMs"] = self.age_ns(twin, now_ns) / 1e6
        made["stale"] = self.stale(twin, now_ns)
        return made

    def age_ns(self, twin: Twin, now_ns: int) -> int:
        """Return the age of information, in ns; never below 0."""
        return max(0, now_ns - twin.state.fresh_at_ns)

    def stale(self, twin: Twin, now_ns: int) -> bool:
        """Return whether the twin is older than what counts as fresh."""
        return self.age_ns(twin, now_ns) > self.config.stale_after_s * 1e9

    def rejected(self) -> dict[str, Any]:
        """Return what was kept out: of the fleet here, with the last key, and by the twin and the gateways."""
        bad = [
            {
                "reason": reason,
                "meaning": REASONS[reason],
                "count": count,
                "lastKey": self.fleet.last_bad.get(reason, ""),
            }
            for reason, count in list(self.fleet.bad.items())
        ]
        return {"badRecords": bad, "deadLetters": dict(self.fleet.dead_letters)}

    def _values(self, twin: Twin, now_ns: int, name: str) -> list[Any]:
        if name == "vehicleId":
            return [twin.vehicle_id]
        if name == "ageOfInformationMs":
            return [self.age_ns(twin, now_ns) / 1e6]
        if name == "stale":
            return [self.stale(twin, now_ns)]
        if name not in _COLUMNS:
            raise bad_filter(f"{name[:40]!r} is no column; allowed: {', '.join([*_COLUMNS, *_KEYED])}")
        value = decoded.row(twin)[_COLUMNS[name]]
        return [] if value is None else [value]

    def summary(self, windows: int = 60, seconds: int = 300) -> dict[str, Any]:
        """Return the fleet in figures: counts, ages, and what the run said of itself, of late."""
        now = self.now_ns()
        found = self.fleet.figures(now, int(self.config.stale_after_s * 1e9))
        return {
            "nowMs": now // 1_000_000,
            "title": self.config.title,
            "staleAfterS": self.config.stale_after_s,
            "vehicles": found.vehicles,
            "staleVehicles": found.stale_vehicles,
            "ageOfInformationMs": {
                name: None if age is None else age / 1e6 for name, age in found.ages_ns.items()
            },
            "messages": found.messages,
            "duplicates": found.duplicates,
            "gaps": found.gaps,
            "givenUp": found.given_up,
            "badRecords": dict(self.fleet.bad),
            "deadLetters": dict(self.fleet.dead_letters),
            **self.figures.fleet(windows, seconds),
        }


def figures_row(vehicle_id: str, figures: VehicleFigures) -> list[Any]:
    """Return what the page shows of a vehicle beside its twin: emitted, unsent, link bytes, latency, what its link gives.

    `linkSecond` is null where that is not known; a rate of null beside a second is unlimited.
    """
    run = figures.run or {}
    link = [figures.link[way].bytes if figures.link[way].second >= 0 else None for way in WAYS]
    totals = [figures.link[way].total for way in WAYS]
    quantiles = [run.get(f"end_to_end_latency_{name}_ms") for name in ("p50", "p99")]
    conditions = (
        [None] * len(Conditions.__annotations__) if figures.conditions is None else figures.conditions
    )
    return [
        vehicle_id,
        figures.emitted,
        figures.unsent,
        *link,
        *totals,
        *quantiles,
        figures.refused,
        *conditions,
    ]


FIGURE_COLUMNS = (
    "vehicleId", "emitted", "unsent", "uplinkBytesPerSecond", "downlinkBytesPerSecond",
    "uplinkBytes", "downlinkBytes", "endToEndP50Ms", "endToEndP99Ms", "refused",
    "linkSecond", "uplinkRateBps", "downlinkRateBps", "linkRttMs", "uplinkLossRatio", "downlinkLossRatio",
)  # fmt: skip


@lru_cache(256)
def _compiled(text: str) -> rql.Predicate:
    return rql.parse(text)


def _parsed(text: str) -> rql.Predicate:
    try:
        return _compiled(text)
    except rql.FilterError as error:
        raise bad_filter(str(error)) from error


def _thing_order(path: Path, thing: Thing) -> tuple[int, Any]:
    return _order(thing.get(path))


def _order(values: list[Any]) -> tuple[int, Any]:
    """Numbers, then text, then what has no value: mixed columns must sort, too."""
    value = values[0] if values else None
    if isinstance(value, bool | int | float):
        return (0, value)
    return (1, value) if isinstance(value, str) else (2, 0)


def _slice(found: list[Thing], page: Page) -> list[Thing]:
    return found[page.offset : page.offset + page.size]
