"""The measurement window of a run: what is measured, and over which seconds; pure but for reading run.json."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ledger.config import LedgerConfig
from schemas.errors import Refusal


@dataclass(frozen=True)
class Window:
    """Messages due from `from_ns` (inclusive) to `to_ns` (exclusive) are measured; a bound of None is none.

    `stop_at_ns` is when the run stopped, None where it stayed until everything had arrived.
    """

    start_at_ns: int | None
    warmup_s: float
    from_ns: int | None
    to_ns: int | None
    stop_at_ns: int | None = None

    def since_start_s(self, at_ns: int | None) -> float | None:
        """Return a bound in seconds after the start; None where either is not known."""
        if at_ns is None or self.start_at_ns is None:
            return None
        return (at_ns - self.start_at_ns) / 1e9

    @property
    def seconds(self) -> float | None:
        """Length of the window; None when a bound is not known or nothing lies between them."""
        if self.from_ns is None or self.to_ns is None or self.to_ns <= self.from_ns:
            return None
        return (self.to_ns - self.from_ns) / 1e9


def read_window(config: LedgerConfig, partial: list[str]) -> Window:
    """Return the window from run.json: after the warm-up, ending one loss timeout before the stop.

    run.json: start_at_ns, warmup_s (0), stop_at_ns (when the last process stopped; missing in a run that
    died, then nothing is cut off at the end), end_at_ns (end of the schedule; the window ends there at the latest).
    """
    path = config.run_file("run.json")
    if not path.is_file():
        partial.append("run.json is missing: no measurement window")
        return Window(None, 0.0, None, None)
    try:
        run: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        start, warmup_s = int(run["start_at_ns"]), float(run.get("warmup_s", 0.0))
    except (ValueError, KeyError, TypeError) as error:
        raise Refusal(f"{path}: {error}") from error
    ends = []
    stop_at_ns = None if run.get("stop_at_ns") is None else int(run["stop_at_ns"])
    if stop_at_ns is not None:
        ends.append(stop_at_ns - round(config.loss_timeout_s * 1e9))
    if run.get("end_at_ns") is not None:
        ends.append(int(run["end_at_ns"]))
    if not ends:
        partial.append("run.json has neither stop_at_ns nor end_at_ns: the window has no end")
    from_ns = start + round(warmup_s * 1e9)
    return Window(start, warmup_s, from_ns, min(ends) if ends else None, stop_at_ns)
