"""The table of published works repeated here; a new one is a folder and one line."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from schemas.errors import Refusal

if TYPE_CHECKING:
    from ivsim.papers.base import Paper


class Row(NamedTuple):
    """Where a paper's class is (module:class), loaded when it is asked for; and what the paper is."""

    where: str
    citation: str


# what `ivsim reproduce` calls it, as its main study is called -> row
PAPERS = {
    "ifip2020": Row(
        "ivsim.papers.ifip2020.report:Ifip2020",
        "Persson Proos and Carlsson, IFIP Networking 2020: MQTT, AMQP and CoAP on a lossy cellular link",
    ),
    "kafka-formats": Row(
        "ivsim.papers.kafka_formats.report:KafkaFormats",
        "Myastovskiy, Evaluating the Performance of Serialization Protocols in Apache Kafka, 2024",
    ),
    "ingestion-platforms": Row(
        "ivsim.papers.ingestion_platforms.report:IngestionPlatforms",
        "Tallberg, A Comparison of Data Ingestion Platforms in Real-Time Stream Processing Pipelines, 2020",
    ),
}


def paper_named(name: str) -> Paper:
    """Return a paper of the table; Refusal lists the names for an unknown one."""
    if name not in PAPERS:
        raise Refusal(f"paper {name!r}: allowed are {', '.join(PAPERS)}")
    return _loaded(PAPERS[name].where)


def paper_of(study: str) -> Paper | None:
    """Return the paper whose main study this is, None for a study of our own."""
    return paper_named(study) if study in PAPERS else None


@cache
def _loaded(where: str) -> Paper:
    module, _, name = where.partition(":")
    paper: Paper = getattr(import_module(module), name)()
    return paper
