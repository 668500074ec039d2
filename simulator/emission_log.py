"""What every vehicle did with every message, on disk within 100 ms; no failure downstream can touch it."""

from __future__ import annotations

import os
import struct
from enum import IntEnum
from pathlib import Path

# kind, reason, not used, vehicle, epoch, size, sequence, at_ns; a record cut short by a kill is the last one.
RECORD = struct.Struct("<BBHIIIqq")


class Kind(IntEnum):
    """What happened. `size` is the payload's bytes, but where it says otherwise."""

    EMITTED = 1
    ACKNOWLEDGED = 2
    UNSENT = 3
    REFUSED = 4  # the client or the peer gave up a message that was emitted
    RECEIVED = 5  # echo topology
    CONNECTING = 6
    CONNECTED = 7  # size: 1 when the peer still had the session; sequence, here and with its kin: the backlog
    DISCONNECTED = 8
    BUFFERED = 9  # could not go at once
    CONNECT_FAILED = 10
    STARTED = 11  # at_ns: start_at_ns of the run


class Reason(IntEnum):
    """Why a message was not sent, in `unsent_reason` by its lower-case name."""

    NONE = 0
    DROPPED_OLDEST = 1
    DROPPED_NEWEST = 2
    LEFT_AT_END = 3
    PACER_ENDED = 4
    REFUSED_BY_PEER = 5


class EmissionLog:
    """Append-only file of fixed-size records."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
        self._pending = bytearray()
        self._pack = RECORD.pack

    def note(
        self,
        kind: int,
        vehicle: int,
        at_ns: int,
        *,
        epoch: int = 0,
        sequence: int = 0,
        size: int = 0,
        reason: int = 0,
    ) -> None:
        """Note one event; nothing is written before `flush`."""
        self._pending += self._pack(kind, reason, 0, vehicle, epoch, size, sequence, at_ns)

    def flush(self) -> None:
        """Hand everything noted to the kernel."""
        while self._pending:
            written = os.write(self._file, self._pending)
            del self._pending[:written]

    def close(self) -> None:
        """Flush and close; idempotent."""
        if self._file >= 0:
            self.flush()
            os.close(self._file)
            self._file = -1
