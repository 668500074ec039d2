"""The table of published works repeated here; a new one is a folder and one line, or a plug-in of `ivsim.papers`."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from schemas.errors import Refusal
from schemas.plugins import Plugin, Table, made, object_at

if TYPE_CHECKING:
    from ivsim.papers.base import Paper


class Row(NamedTuple):
    """Where a paper's class is (module:class), loaded when it is asked for; and what the paper is."""

    where: str
    citation: str


# what `ivsim reproduce` calls it, as its main study is called -> row
_OWN = {
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
    "reactive-batching": Row(
        "ivsim.papers.reactive_batching.report:ReactiveBatching",
        "Wu, Shang, Peng and Wolter, IEEE ISSRE 2020: a reactive batching strategy of Kafka",
    ),
    "kafka-clients": Row(
        "ivsim.papers.kafka_clients.report:KafkaClients",
        "KNet project, KNet: performance evaluation, 2024: the official Kafka client embedded, and librdkafka",
    ),
}


def _row(plugin: Plugin, found: Any) -> Row:
    from ivsim.papers.base import Paper  # noqa: PLC0415 - when there is one to check

    if not isinstance(made(found), Paper):
        raise ValueError("no Paper")  # noqa: TRY004 - as every other lack of a plug-in
    return Row(plugin.where, (found.__doc__ or "no docstring says which").splitlines()[0])


PAPERS: Final[Table[Row]] = Table("ivsim.papers", _OWN, _row)


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
    paper: Paper = made(object_at(where))
    return paper
