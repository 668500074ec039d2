"""What a run came to; whoever only asks for one loads this, and nothing that a run is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

EXIT_FAILED: Final = 1
EXIT_STOPPED_EARLY: Final = 3
EXIT_SIGNALLED: Final = 128  # and the signal's number, as a shell says it


@dataclass
class Outcome:
    """What a run came to: its exit code, its figures, and what went wrong, if anything did.

    `directory` is None, and there are no figures, when it broke before its first message was due.
    """

    exit_code: int = 0
    directory: Path | None = None
    metrics: dict[str, Any] = field(default_factory=dict)
    report: Path | None = None
    twin_distinct: int = 0
    error: str | None = None

    @property
    def signal(self) -> int | None:
        """Return the number of the signal that stopped it, whatever went wrong afterwards; None where none did."""
        return self.exit_code - EXIT_SIGNALLED if self.exit_code > EXIT_SIGNALLED else None
