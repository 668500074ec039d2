"""The audit's figures of rows that are all there at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ivsim.audit import certificate, figures
from ivsim.audit.answers import QueryFigures
from ivsim.audit.kafka_records import Kafka
from ivsim.audit.ledger import Consumed

Rows = Sequence[Mapping[str, Any]]


def message_figures(rows: list[dict[str, Any]], window: tuple[int, int], *, kafka: bool) -> figures.Figures:
    """Return the figures of a ledger."""
    sums = figures.MessageFigures(window, kafka=kafka)
    sums.add(rows)
    return sums.figures()


def kafka_figures(
    rows: list[dict[str, Any]], kafka: Kafka, end: str = "twin", platform: Consumed | None = None
) -> figures.Figures:
    """Return what Kafka, or the platform in its place, held beyond the messages due."""
    sums = figures.KafkaFigures(end)
    sums.add(rows, kafka, platform)
    return sums.figures()


def link_figures(
    link: Rows | None, warmup_s: float, rows: list[dict[str, Any]], from_ns: int, crossings: int = 1
) -> figures.Figures:
    """Return the figures of a link's log beside a ledger."""
    sums = figures.LinkFigures(warmup_s, from_ns, crossings)
    sums.add(link or [], rows)
    return sums.figures()


def played(rows: Rows, start_at_ns: int) -> certificate.Played:
    """Return what the log of the seconds played says."""
    found = certificate.Played(start_at_ns)
    found.add(rows)
    return found


def sender_lag_p99_ms(rows: Rows) -> float | None:
    """Return the senders' own lag."""
    lag = certificate.SenderLag()
    lag.add(rows)
    return lag.p99_ms()


def live_agreement(live: Mapping[str, Any], ledger: Rows, link: Rows) -> dict[str, Any]:
    """Return how live.json compares with ledger and link."""
    agreement = certificate.LiveAgreement(live)
    agreement.add(ledger, link)
    return agreement.outcome()


def query_figures(options: Mapping[str, Any], answers: Rows | None, rows: Rows) -> dict[str, Any]:
    """Return the figures of a query; without answers, None."""
    sums = QueryFigures(options, answered=answers is not None)
    sums.add(answers or [], rows)
    return sums.figures()
