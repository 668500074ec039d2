"""What every vehicle did with every message, on disk within 100 ms; no failure downstream can touch it."""

from __future__ import annotations

import os
import struct
from enum import IntEnum
from pathlib import Path

# kind, reason, words, vehicle, epoch, size, sequence, at_ns; a record cut short by a kill is the last one.
RECORD = struct.Struct("<BBHIIIqq")
# kind, nothing, number of the words, where this part of them begins, the part in UTF-8, filled up with zeros.
WORDS_RECORD = struct.Struct("<BBHI24s")
_PART_BYTES = 24
_WORDS_BYTES_MAX = 4 * _PART_BYTES
# A peer that never says the same twice must not fill the log: what comes after these shares the last number.
_DIFFERENT_WORDS_MAX = 1_000


class Kind(IntEnum):
    """What happened. `size` is the payload's bytes, but where it says otherwise."""

    EMITTED = 1
    ACKNOWLEDGED = 2
    UNSENT = 3
    REFUSED = 4  # the peer said that it will not keep a message that was emitted; `words`: what it said
    RECEIVED = 5  # echo topology
    CONNECTING = 6
    CONNECTED = 7  # size: 1 when the peer still had the session; sequence, here and with its kin: the backlog
    DISCONNECTED = 8
    BUFFERED = 9  # could not go at once
    CONNECT_FAILED = 10
    STARTED = 11  # at_ns: start_at_ns of the run
    UNANSWERED = 12  # the client gave up a message that was emitted: it may have arrived
    POSTPONED = (
        13  # the peer would not keep it now, and the client will send it again; `words` as with REFUSED
    )
    CONNECT_DUE = 15  # at_ns: when a connection was due, by the rate at which vehicles are to connect
    WORDS = 14  # a part of what a number in `words` stands for, see WORDS_RECORD; before its first use


class Reason(IntEnum):
    """Why a message was not sent, in `unsent_reason` by its lower-case name; with REFUSED and UNANSWERED, who ended it."""

    NONE = 0
    DROPPED_OLDEST = 1
    DROPPED_NEWEST = 2
    LEFT_AT_END = 3
    SENDER_ENDED = 4
    REFUSED_BY_PEER = 5
    NO_ANSWER = 6
    AGENT_LOST = 7  # noted by the run, of whose vehicles an agent had the senders
    BEYOND_PEERS_LIMIT = 8  # refused by what the peer had announced: never on the wire
    SHARE_MISSING = 9  # noted where a fleet's shares are joined, for one without a result: nothing is known


class EmissionLog:
    """Append-only file of fixed-size records."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
        self._pending = bytearray()
        self._words: dict[str, int] = {}
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
        words: str = "",
    ) -> None:
        """Note one event; nothing is written before `flush`."""
        number = self._number(words) if words else 0
        self._pending += self._pack(kind, reason, number, vehicle, epoch, size, sequence, at_ns)

    def _number(self, words: str) -> int:
        """Return the number of these words in this log; they are written once, in parts, before it is used."""
        if len(self._words) >= _DIFFERENT_WORDS_MAX and words not in self._words:
            words = "other words"
        if words not in self._words:
            self._words[words] = len(self._words) + 1
            text = words.encode()[:_WORDS_BYTES_MAX]
            for at in range(0, len(text), _PART_BYTES):
                part = text[at : at + _PART_BYTES]
                self._pending += WORDS_RECORD.pack(Kind.WORDS, 0, self._words[words], at, part)
        return self._words[words]

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
