"""Room on the disks that a run writes to: too little is refused before the start, and ends a run before there is none.

What a run writes, measured: 45 MB for Spark's libraries and state, 5 MB of logs and captures, and for each message twice its
payload (Kafka has it, and the twin's new state) and 1.5 kB (state store, logs, capture, tables).
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ivsim.options import RunOptions, history_directory
from schemas.errors import Refusal

MB: Final = 1_000_000
BASE_BYTES: Final = 60 * MB
MESSAGE_BYTES: Final = 1_500
PAYLOAD_BYTES: Final = 1_300  # of a CurrentStatus as JSON, the largest format
# What must stay free while messages are due: the ledger and the report are made of it.
RESERVE_BYTES: Final = 64 * MB
LEDGER_ROW_BYTES: Final = 200
FULL_BYTES: Final = 4 * MB


class DiskNearlyFull(Exception):  # noqa: N818 - what happened
    """Ends a run before its time: it is accounted for up to there."""


def needed_bytes(options: RunOptions) -> int:
    """Return about how much a run writes, in bytes."""
    messages = _messages(options)
    payload = options.message_bytes or PAYLOAD_BYTES
    return round(BASE_BYTES + messages * (MESSAGE_BYTES + 2 * payload))


def check_room(path: Path, options: RunOptions) -> None:
    """Refuse a run whose results would not fit; `path` need not exist yet."""
    existing = next(parent for parent in (path, *path.parents) if parent.exists())
    usage = shutil.disk_usage(existing)
    if not usage.total:
        raise Refusal(f"--output {path}: {existing} is on a file system that holds no ordinary files")
    needed = needed_bytes(options) + _reserve_bytes(options)
    if usage.free < needed:
        messages, per_s = _messages(options), options.sending / options.interval_s
        raise Refusal(
            f"--output {path}: {usage.free // MB:,} MB free on its disk, about {needed // MB:,} MB needed for {messages:,.0f}"
            f" messages ({per_s:,.10g}/s of all vehicles): free some, name another directory, or ask for fewer messages"
        )


class DiskWatch:
    """Looks at the free room of the disks that a run writes to.

    Args:
        paths: a directory on each of them; that of a history on this machine is watched, too.
        options: of the run.
    """

    def __init__(self, paths: Iterable[Path], options: RunOptions) -> None:
        history = history_directory(options)
        self._paths = tuple(dict.fromkeys(paths if history is None else (*paths, history)))
        self._reserve_bytes = _reserve_bytes(options)

    def check(self) -> None:
        """Raise DiskNearlyFull where less is free than the end of the run needs."""
        for path in self._paths:
            if (free := shutil.disk_usage(path).free) < self._reserve_bytes:
                raise DiskNearlyFull(
                    f"{path}: its disk is nearly full ({free // MB} MB free, {self._reserve_bytes // MB} MB are kept for"
                    " the ledger): stopped before the end, and accounted for up to there"
                )

    def full(self) -> str | None:
        """Return the line that says which disk is full, for what broke because of it; None where none is."""
        for path in self._paths:
            if path.exists() and shutil.disk_usage(path).free < FULL_BYTES:
                return f"{path}: its disk is full: what the run has written stays; free some, and run again"
        return None


def ran_out(error: OSError) -> bool:
    """Say whether the error is that of a full disk, or of a quota."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def _reserve_bytes(options: RunOptions) -> int:
    return round(RESERVE_BYTES + _messages(options) * LEDGER_ROW_BYTES)


def _messages(options: RunOptions) -> float:
    """Return how many messages are due, all vehicles sending throughout."""
    return options.sending * options.duration_s / options.interval_s
