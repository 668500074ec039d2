"""Queries over the positions of vehicles beside the twin's own: a table, a module each; off unless a run asks for one."""

from __future__ import annotations

from typing import Final, NamedTuple


class Query(NamedTuple):
    """One query.

    Attributes:
        name: the word of `--query`.
        meaning: one clause for the help text.
        module: has `answering(session, stations)`, which returns what makes answers (`twin.queries.answers`) of a batch of the
            records of vehicle.status that may enter a twin; imported when the query is started.
        needs_stations: it is about stations, which a run must name.
    """

    name: str
    meaning: str
    module: str
    needs_stations: bool = False


QUERIES: Final = {
    query.name: query
    for query in (
        Query(
            "nearest-station",
            "the station nearest to each position, and how far it is",
            "twin.queries.nearest_station",
            needs_stations=True,
        ),
    )
}
