"""Producer and consumer by our own Java classes: one call for many records, whichever way it goes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from ivsim.study.engines.pipe.platforms.base import Arrivals, Full, Place, Report
from ivsim.study.engines.pipe.platforms.kafka_libraries.ends import Calls, Turns, checked_size
from ivsim.study.engines.pipe.platforms.kafka_libraries.frames import Records, arrivals, hand_answers

# A call is made when so many records have gathered, or so many bytes, or the first has waited for the settings' linger.
CALL_RECORDS: Final = 500
CALL_BYTES: Final = 1 << 20


class FarSender(Protocol):
    """FrameSender.java, wherever it is."""

    def send(self, frame: bytes) -> None: ...

    def answers(self, wait_ms: int) -> bytes: ...

    def flush(self) -> None: ...

    def counted(self) -> tuple[float, float]: ...

    def close(self) -> None: ...


class FarReceiver(Protocol):
    """FrameReceiver.java, wherever it is."""

    def open(self, partitions: Sequence[int], *, resumed: bool) -> list[int]: ...

    def poll(self, wait_ms: int) -> bytes: ...

    def commit(self, partition: int, offset: int) -> None: ...

    def close(self) -> None: ...


class FramedSender:
    """A producer; records gather for a call."""

    def __init__(
        self,
        make: Callable[[], FarSender],
        place: Place,
        settings: Mapping[str, Any],
        index: int,
        *,
        report: Report,
        most: int,
    ) -> None:
        self._make, self._report, self._most = make, report, most
        self._origin_ms: int = place["origin_ms"]
        self._turns = Turns(settings, index, place["partitions"])
        self._linger_s: float = settings["linger_ms"] / 1_000
        self._records = Records()
        self._since_s = 0.0
        self._unanswered = 0
        self._far: FarSender | None = None

    def open(self) -> None:
        self._far = self._make()

    @property
    def _there(self) -> FarSender:
        assert self._far is not None, "it is not open"
        return self._far

    def send(self, number: int, key: bytes | None, value: bytes, due_at_ns: int) -> None:
        del due_at_ns  # the place of a timestamp is the number's
        checked_size(key, value)
        if self._unanswered >= self._most:
            raise Full
        records = self._records
        if not len(records):
            self._since_s = time.monotonic()
        records.add(self._origin_ms + number, self._turns.take(), key, value)
        self._unanswered += 1
        if len(records) >= CALL_RECORDS or records.bytes >= CALL_BYTES:
            self._call()

    def _call(self) -> None:
        if len(self._records):
            self._there.send(self._records.frame())

    def poll(self, timeout_s: float) -> None:
        if timeout_s or time.monotonic() - self._since_s >= self._linger_s:
            self._call()
        self._hand_over(timeout_s)

    def _hand_over(self, timeout_s: float) -> None:
        if self._unanswered:
            frame = self._there.answers(round(timeout_s * 1_000))
            self._unanswered -= hand_answers(frame, self._report, self._origin_ms)
        elif timeout_s:
            time.sleep(timeout_s)  # nothing is under way that could be answered sooner

    def flush(self, timeout_s: float) -> int:
        """Wait for the library, which gives each record up at its own `delivery.timeout.ms` and has no other end."""
        del timeout_s
        self._call()
        self._there.flush()
        self._hand_over(0)
        return self._unanswered

    def statistics(self) -> Mapping[str, float | None]:
        wire_bytes, records = self._there.counted()
        return {"wire_bytes": wire_bytes, "batches": None, "batch_records": records}

    def close(self) -> None:
        """Forget what is still waiting: the measurement is over."""
        if self._far is not None:
            self._far.close()


class FramedReceiver:
    """A consumer that is assigned its partitions."""

    def __init__(
        self,
        make: Callable[[], FarReceiver],
        place: Place,
        settings: Mapping[str, Any],
        partitions: Sequence[int],
    ) -> None:
        self._make = make
        self._origin_ms: int = place["origin_ms"]
        self._partitions = partitions
        self._calls = Calls(settings, self._fetch)
        self._far: FarReceiver | None = None

    def open(self, *, resumed: bool = False) -> Mapping[int, int]:
        self._far = self._make()
        begins = self._far.open(self._partitions, resumed=resumed)
        return dict(zip(self._partitions, begins, strict=True))

    def poll(self) -> Arrivals:
        return self._calls.take()

    def _fetch(self, wait_s: float) -> Arrivals:
        assert self._far is not None, "it is not open"
        return arrivals(self._far.poll(round(wait_s * 1_000)), self._origin_ms)

    def acknowledge(self, partition: int, offset: int) -> None:
        assert self._far is not None, "it is not open"
        self._far.commit(partition, offset)

    def close(self) -> None:
        if self._far is not None:
            self._far.close()
