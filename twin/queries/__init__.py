"""Queries over the positions of vehicles beside the twin's own: a table, a module each; off unless a run asks for one."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from twin.config import TwinConfig


class Query(NamedTuple):
    """One query.

    Attributes:
        name: the word of `--query`.
        meaning: one clause for the help text.
        module: has `start(session, config)`, which returns a streaming query of this name that writes answers
            (`twin.queries.answers`); imported when it is started.
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


def start(session: SparkSession, config: TwinConfig) -> list[StreamingQuery]:
    """Start the query that the configuration asks for; none where it asks for none."""
    if config.query is None:
        return []
    return [import_module(QUERIES[config.query].module).start(session, config)]
