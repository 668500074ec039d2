"""What a run's query came to, from its answers and the rows of the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ivsim.audit.figures import nearest_rank

_NAMES: Final = (
    "answers", "answers_in_time_ratio", "answer_latency_mean_ms", "answer_latency_p50_ms", "answer_latency_p99_ms",
)  # fmt: skip


def query_figures(
    options: Mapping[str, Any], answers: Iterable[Mapping[str, Any]] | None, rows: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return name, limit and figures of the query that a run asked for; None for each figure without its answers.

    Args:
        options: of the run.
        answers: rows of answers.parquet.
        rows: of the ledger.
    """
    limit_ms = options["answer_limit_ms"]
    head = {"name": options["query"], "limit_ms": limit_ms}
    if answers is None:
        return {**head, **dict.fromkeys(_NAMES)}
    first: dict[tuple[Any, ...], int] = {}
    for answer in answers:
        message = answer["vehicle_id"], answer["epoch"], answer["sequence"]
        first[message] = min(first.get(message, answer["answered_at_ns"]), answer["answered_at_ns"])
    due = {
        (row["vehicle_id"], row["epoch"], row["sequence"]): row["due_at_ns"]
        for row in rows
        if row["in_window"]
    }
    took_ns = sorted(first[message] - due_at_ns for message, due_at_ns in due.items() if message in first)
    in_time = [one for one in took_ns if one <= limit_ms * 1e6]

    mean_ms = sum(took_ns) / len(took_ns) / 1e6 if took_ns else None
    ratio = len(in_time) / len(due) if due else None
    ranks = [None if (found := nearest_rank(took_ns, share)) is None else found / 1e6 for share in (50, 99)]
    figures = (len(took_ns), ratio, mean_ms, *ranks)
    return {**head, **dict(zip(_NAMES, figures, strict=True))}
