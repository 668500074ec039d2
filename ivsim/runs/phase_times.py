"""How long the phases of a run usually take on this machine, from runs before that were like it; a guess for its display.

Kept in the user's cache folder (XDG Base Directory Specification), the last runs of each likeness: same topology,
security, proof of the link, and as many messages, to the power of ten. A file that cannot be read or written is as good as
none: no figure of a result depends on it.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from pathlib import Path
from statistics import median
from typing import Any, Final, TypeGuard

from gateways.sinks import KAFKA
from ivsim.options import RunOptions

RUNNING: Final = "running"
# In the order of a run; what a phase says begins with its word.
PHASES: Final = (
    "starting Kafka",
    "starting Spark, and the link",
    "starting the platform, and the link",
    "starting broker and gateway",
    "waiting for Spark",
    "connecting",
    RUNNING,
    "draining",
    "proving the link",
    "accounting for every message",
    "writing the report",
)
_KEPT: Final = 9


def phase_of(words: str) -> str | None:
    """Return the phase that these words are said of, such as `connecting` of "connecting 20 vehicles"; None of no phase."""
    return next((phase for phase in PHASES if words.startswith(phase)), None)


def cache_file() -> Path:
    """Return where the times of this user's runs are kept: in IVSIM_CACHE, or by the specification."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(os.environ.get("IVSIM_CACHE") or Path(home) / "ivsim") / "phase_times.json"


class PhaseTimes:
    """The phases of one run, as far as it has come, beside what they usually take.

    Args:
        options: of the run.
        path: the file of times.
    """

    def __init__(self, options: RunOptions, path: Path) -> None:
        self._path, self._running_s = path, options.duration_s
        due = options.sending * options.duration_s / options.interval_s
        size = round(math.log10(max(due, 1.0)))
        through = options.topology + ("" if options.platform == KAFKA else f"-{options.platform}")
        self._like = f"{through}/{options.security}/{options.prove_link}/{options.probe}/10^{size}"
        known = _read(path).get(self._like)
        self._usual = {
            phase: median(times)
            for phase, times in (known if isinstance(known, dict) else {}).items()
            if phase in PHASES and _are_times(times)
        }
        self._took: dict[str, float] = {}
        self._now: str | None = None
        self._since_s = 0.0

    def begin(self, words: str) -> None:
        """Note that a phase begins, and the one before has ended; its own further words change nothing."""
        phase = phase_of(words)
        if phase is None or phase == self._now:
            return
        self._end()
        self._now, self._since_s = phase, time.monotonic()

    def usual_s(self, words: str) -> float | None:
        """Return what a phase usually takes; None where nothing is known, and of the messages, whose time was asked for."""
        phase = phase_of(words)
        return None if phase is None or phase == RUNNING else self._usual.get(phase)

    def left_s(self, own_left_s: float | None = None) -> float | None:
        """Return about how long it is until the run is over; None where no run like it has ended here.

        Args:
            own_left_s: what is left of this phase at most, where that is known.
        """
        if self._now is None or not self._usual:
            return None
        elapsed_s = time.monotonic() - self._since_s
        if self._now == RUNNING:
            own_s = own_left_s if own_left_s is not None else max(0.0, self._running_s - elapsed_s)
        else:
            guessed_s = max(0.0, self._usual.get(self._now, 0.0) - elapsed_s)
            own_s = guessed_s if own_left_s is None else min(guessed_s, own_left_s)
        later = PHASES[PHASES.index(self._now) + 1 :]
        return own_s + sum(
            self._running_s if phase == RUNNING else self._usual.get(phase, 0.0)
            for phase in later
            if phase not in self._took
        )

    def keep(self) -> None:
        """Add this run's times to those of its like: it has ended in order."""
        self._end()
        self._now = None
        known = _read(self._path)
        found = known.get(self._like)
        times = found if isinstance(found, dict) else {}
        for phase, took_s in self._took.items():
            before = times.get(phase)
            times[phase] = [*(before if _are_times(before) else []), round(took_s, 2)][-_KEPT:]
        known[self._like] = times
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            temporary = self._path.with_suffix(f".{os.getpid()}")
            temporary.write_text(json.dumps(known), encoding="utf-8")
            temporary.replace(self._path)

    def _end(self) -> None:
        if self._now is not None:
            took_s = time.monotonic() - self._since_s
            self._took[self._now] = self._took.get(self._now, 0.0) + took_s


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _are_times(values: Any) -> TypeGuard[list[float]]:
    return (
        isinstance(values, list)
        and bool(values)
        and all(isinstance(one, int | float) and math.isfinite(one) and one >= 0 for one in values)
    )
