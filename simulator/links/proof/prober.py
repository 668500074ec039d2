"""Light probes beside a run: a small UDP packet each way per probed vehicle and second; it judges nothing."""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import threading
import time
from types import TracebackType
from typing import Any, Final, Self

from simulator.links.base import Direction, Link
from simulator.links.proof import probes
from simulator.links.proof.probe_times import ProbedRows, ProbeTimes
from simulator.links.replay import SECOND_NS
from simulator.links.step_log import Rows

PAYLOAD: Final = struct.Struct("!4sIIq")
MAGIC: Final = b"IVP1"
IP_BYTES: Final = 28 + PAYLOAD.size
FRAME_BYTES: Final = IP_BYTES + 14
MOST_VEHICLES: Final = 32
# The cloud's end, in a namespace of its own: by it the capture knows a probe from a message.
PROBE_PORT: Final = 18_862
SETTLE_S: Final = 1.0
# Probes keep away from the first fifth of a second, in which the conditions change.
FIRST_PHASE, LAST_PHASE = 0.2, 0.95


def probed_vehicles(vehicles: int, most: int = MOST_VEHICLES, first: int = 1) -> list[int]:
    """Return the vehicles that are probed, of those from `first` on: all of a small fleet, else evenly spread numbers."""
    if vehicles <= most:
        return list(range(first, first + vehicles))
    return [first + index * (vehicles - 1) // (most - 1) for index in range(most)]


class Prober(threading.Thread):
    """A context manager: probes from `start_at_ns` until it is left, then waits for what is on its way.

    The last probe of a way (a vehicle and a direction) ends its wait: they leave a second apart, so that one before it that
    has not come by then is lost, or later than a probe is waited for.
    """

    def __init__(self, link: Link, vehicles: int, start_at_ns: int, first: int = 1) -> None:
        super().__init__(name="link-prober", daemon=True)
        self.vehicles = probed_vehicles(vehicles, first=first)
        self.times = ProbeTimes(self.vehicles, IP_BYTES)
        self.failure: Exception | None = None
        self._pending: dict[
            tuple[int, Direction], int
        ] = {}  # the second of a way's last probe, until it comes
        self._link = link
        self._start_at_ns = start_at_ns
        self._end = threading.Event()
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        try:
            self._ends = probes.Ends(self._link, self.vehicles, self._stack, PROBE_PORT)
        except BaseException:
            self._stack.close()
            raise
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Send no more, take in what arrives within a second, or until the last has come, and close the sockets."""
        self._end.set()
        self.join()
        self._stack.close()

    def run(self) -> None:
        try:
            self._loop()
        except Exception as error:  # noqa: BLE001 - a thread's error must reach its owner
            self.failure = error

    def _loop(self) -> None:
        due = self._due()
        next_at_ns, vehicle, second = next(due)
        last_s: float | None = None
        with selectors.DefaultSelector() as selector:
            for s in (self._ends.cloud, *self._ends.vehicles.values()):
                selector.register(s, selectors.EVENT_READ)
            while last_s is None or time.monotonic() < last_s:
                wait_s = 0.05 if last_s else min(0.05, max(0.0, (next_at_ns - time.time_ns()) / 1e9))
                for key, _events in selector.select(wait_s):
                    assert isinstance(key.fileobj, socket.socket)
                    self._take(key.fileobj)
                if self._end.is_set():
                    if not self._pending:
                        return
                    last_s = last_s or time.monotonic() + SETTLE_S
                elif time.time_ns() >= next_at_ns:
                    # Each way by itself: an echo may leave in a later second, whose conditions are others.
                    self._send("uplink", vehicle, second)
                    self._send("downlink", vehicle, second)
                    next_at_ns, vehicle, second = next(due)

    def _due(self) -> Any:
        count = len(self.vehicles)
        second = 0
        while True:
            for index, vehicle in enumerate(self.vehicles):
                phase = FIRST_PHASE + (LAST_PHASE - FIRST_PHASE) * index / count
                yield self._start_at_ns + second * SECOND_NS + round(phase * SECOND_NS), vehicle, second
            second += 1

    def _send(self, direction: Direction, vehicle: int, second: int) -> None:
        at_ns = time.time_ns()
        packet = PAYLOAD.pack(MAGIC, vehicle, second, at_ns)
        with contextlib.suppress(BlockingIOError):
            if direction == "uplink":
                self._ends.vehicles[vehicle].sendto(packet, self._ends.cloud_name)
            else:
                self._ends.cloud.sendto(packet, self._ends.names[vehicle])
            self.times.sent(second, vehicle, direction, at_ns)
            self._pending[vehicle, direction] = second

    def _take(self, s: socket.socket) -> None:
        direction: Direction = "uplink" if s is self._ends.cloud else "downlink"
        for payload, at_ns in probes.receive_all(s):
            if len(payload) != PAYLOAD.size or not payload.startswith(MAGIC):
                continue
            _magic, vehicle, second, _sent = PAYLOAD.unpack(payload)
            if not self.times.came(second, vehicle, direction, at_ns):
                continue
            if self._pending.get((vehicle, direction)) == second:
                del self._pending[vehicle, direction]

    def add_to(self, rows: Rows) -> Rows:
        """Return rows of link.parquet with the probes' columns, as `ProbeTimes.columns` gives them."""
        return ProbedRows(rows, self.times)
