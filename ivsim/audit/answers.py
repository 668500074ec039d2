"""What a run's query came to, from its answers and the rows of the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ivsim.audit.figures import nearest_rank

_NAMES: Final = (
    "answers", "answers_in_time_ratio", "answer_latency_mean_ms", "answer_latency_p50_ms", "answer_latency_p99_ms",
)  # fmt: skip


class QueryFigures:
    """Name, limit and figures of the query that a run asked for.

    Args:
        options: of the run.
        answered: answers.parquet is there; without it each figure is None.
    """

    def __init__(self, options: Mapping[str, Any], *, answered: bool) -> None:
        self._limit_ms = options["answer_limit_ms"]
        self._head = {"name": options["query"], "limit_ms": self._limit_ms}
        self._answered = answered
        self._took_ns: list[int] = []
        self._due = 0

    def add(self, answers: Iterable[Mapping[str, Any]], rows: Iterable[Mapping[str, Any]]) -> None:
        """Take some vehicles' rows of answers.parquet and of the ledger."""
        first: dict[tuple[Any, ...], int] = {}
        for answer in answers:
            message = answer["vehicle_id"], answer["epoch"], answer["sequence"]
            first[message] = min(first.get(message, answer["answered_at_ns"]), answer["answered_at_ns"])
        due = {
            (row["vehicle_id"], row["epoch"], row["sequence"]): row["due_at_ns"]
            for row in rows
            if row["in_window"]
        }
        self._due += len(due)
        self._took_ns += [first[message] - at_ns for message, at_ns in due.items() if message in first]

    def figures(self) -> dict[str, Any]:
        """Return the figures of all that was taken."""
        if not self._answered:
            return {**self._head, **dict.fromkeys(_NAMES)}
        took_ns = self._took_ns
        in_time = sum(one <= self._limit_ms * 1e6 for one in took_ns)
        mean_ms = sum(took_ns) / len(took_ns) / 1e6 if took_ns else None
        ratio = in_time / self._due if self._due else None
        ranks = [
            None if (found := nearest_rank(took_ns, share)) is None else found / 1e6 for share in (50, 99)
        ]
        figures = (len(took_ns), ratio, mean_ms, *ranks)
        return {**self._head, **dict(zip(_NAMES, figures, strict=True))}
