"""What a run's query came to: metrics.json's `query`, from the ledger and the answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ivsim.options import RunOptions
from twin.queries import answers


def query_figures(directory: Path, options: RunOptions) -> dict[str, Any]:
    """Return name and limit of the run's query, and QUERY_METRICS; those are None where there is no ledger."""
    limit_ms = options.answer_limit_ms
    return {"name": options.query, "limit_ms": limit_ms, **answers.figures(directory, limit_ms)}
