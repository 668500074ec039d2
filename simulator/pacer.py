"""`python -m simulator.pacer CONFIG.json`: sends what is due when it is due, whatever became of the last."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import logging
import random
import signal
import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gateways.protocols.backoff import Backoff
from gateways.protocols.base import Subscriber
from schemas.config import read_config
from schemas.control import Commands, emit
from schemas.errors import Refusal
from simulator.echo import Echo
from simulator.emission_log import EmissionLog, Kind
from simulator.fleet import Emission, emissions
from simulator.lane import Lane, Totals
from simulator.pacer_config import PacerConfig
from simulator.priority import go_first
from simulator.wakeup import Wakeup

_MILLISECOND_NS = 1_000_000
_AHEAD_NS = 5_000 * _MILLISECOND_NS
_AHEAD_MESSAGES = 20_000
# Preparing a message takes some 100 us: none is begun when the next one is due this soon.
_QUIET_NS = 2 * _MILLISECOND_NS
_SLICE_NS = _MILLISECOND_NS
_FLUSH_S = 0.05
_PROGRESS_S = 0.5
_CONNECTING_AT_ONCE = 200


class Pacer:
    """All vehicles of one process, from connecting to taking leave."""

    def __init__(self, config: PacerConfig) -> None:
        self._config = config
        self._protocol, self._mode = config.rows()
        self._log = EmissionLog(Path(config.events_path))
        self.totals = Totals()
        self._gate = asyncio.Semaphore(_CONNECTING_AT_ONCE)
        self._lanes = {vehicle: self._lane(vehicle) for vehicle in config.numbers()}
        self._subscribers = self._echoes() if config.topology == "echo" else []
        self._prepared: deque[Emission] = deque()
        self._coming: Iterator[Emission] = iter(())
        self._exhausted = False
        self._refilling = False
        self._start_at_ns = 0
        self._sent_all = asyncio.Event()
        self._wakeup = Wakeup(self._ring)
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> int:
        """Connect every vehicle; return how many are. Refusal when not one could within `connect_wait_s`."""
        self._tasks = [asyncio.ensure_future(self._flush_forever())]
        opening = [lane.open() for lane in self._lanes.values()]
        opening += [asyncio.ensure_future(subscriber.open()) for subscriber in self._subscribers]
        _, late = await asyncio.wait(opening, timeout=self._config.connect_wait_s)
        self._tasks += late
        if not self.totals.connected:
            raise Refusal(
                f"no vehicle could connect to {self._config.host}:{self._config.port}"
                f" within {self._config.connect_wait_s:g} s"
            )
        gc.collect()
        gc.freeze()
        gc.disable()
        return self.totals.connected

    def start(self, at_ns: int) -> None:
        """Begin: offset 0 of the scenario is `at_ns` on the wall clock."""
        self._start_at_ns = at_ns
        self._log.note(Kind.STARTED, 0, at_ns, epoch=self._config.scenario.epoch)
        self._coming = emissions(self._config.scenario, at_ns, self._config.vehicles)
        self._refill()

    async def finish(self) -> bool:
        """Wait until everything is sent and acknowledged; False when `drain_s` is over first."""
        await self._sent_all.wait()
        end = time.monotonic() + self._config.drain_s
        while not self._drained():
            if time.monotonic() >= end:
                return False
            await asyncio.sleep(0.02)
        return True

    async def close(self) -> None:
        """Take leave of the peers and close the log; what was not due yet stays `unsent`."""
        self._wakeup.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(subscriber.close() for subscriber in self._subscribers))
        await asyncio.gather(*(lane.close() for lane in self._lanes.values()))
        self._log.close()

    def numbers(self) -> dict[str, int]:
        return dataclasses.asdict(self.totals)

    def _lane(self, vehicle: int) -> Lane:
        config = self._config
        backoff = Backoff(
            config.reconnect_first_s,
            config.reconnect_most_s,
            random.Random(f"{config.scenario.seed}/{vehicle}/reconnect"),
        )
        lane = Lane(
            vehicle,
            self._log,
            self.totals,
            backoff=backoff,
            limit=config.outbox_limit,
            policy=config.outbox_policy,
            gate=self._gate,
        )
        lane.client = self._protocol.vehicle_client(
            config.endpoint(vehicle), vehicle, self._mode, lane, config.settings(vehicle)
        )
        return lane

    def _echoes(self) -> list[Subscriber]:
        config = self._config
        scenario = config.scenario
        return [
            self._protocol.subscriber(
                config.endpoint(vehicle),
                vehicle,
                self._mode,
                Echo(vehicle, scenario.epoch, scenario.payload_format, self._log, self.totals),
                config.settings(vehicle),
            )
            for vehicle in config.numbers()
        ]

    def _ring(self) -> None:
        """Offer everything that is due; nothing else happens here, since each microsecond is lag."""
        prepared = self._prepared
        start_at_ns = self._start_at_ns
        while prepared and start_at_ns + prepared[0].due_offset_ns <= time.time_ns():
            emission = prepared.popleft()
            self._lanes[emission.vehicle].offer(emission)
        self._arm()
        if not self._refilling and not self._exhausted:
            self._refilling = True
            asyncio.get_running_loop().call_soon(self._refill)

    def _arm(self) -> None:
        if self._prepared:
            self._wakeup.arm(self._start_at_ns + self._prepared[0].due_offset_ns)
        elif self._exhausted:
            self._sent_all.set()

    def _refill(self) -> None:
        """Prepare payloads ahead, in slices, while nothing is due soon."""
        self._refilling = False
        begun_at_ns = now_ns = time.time_ns()
        was_empty = not self._prepared
        while now_ns - begun_at_ns < _SLICE_NS or not self._prepared:
            if self._full(now_ns):
                break
            emission = next(self._coming, None)
            if emission is None:
                self._exhausted = True
                break
            self._prepared.append(emission)
            now_ns = time.time_ns()
        if was_empty:
            self._arm()
        if not self._exhausted and not self._refilling and len(self._prepared) < _AHEAD_MESSAGES:
            self._refill_later(now_ns)

    def _full(self, now_ns: int) -> bool:
        """Say whether enough is prepared, or the next message is too close to begin another."""
        if not self._prepared:
            return False
        first_ns = self._start_at_ns + self._prepared[0].due_offset_ns - now_ns
        last_ns = self._start_at_ns + self._prepared[-1].due_offset_ns - now_ns
        return first_ns < _QUIET_NS or last_ns > _AHEAD_NS or len(self._prepared) >= _AHEAD_MESSAGES

    def _refill_later(self, now_ns: int) -> None:
        """Go on at once while there is too little; `_ring` calls again otherwise."""
        if not self._full(now_ns):
            self._refilling = True
            asyncio.get_running_loop().call_soon(self._refill)

    def _drained(self) -> bool:
        if self._config.topology == "echo" and self.totals.received < self.totals.emitted:
            return False
        return all(lane.idle() for lane in self._lanes.values())

    async def _flush_forever(self) -> None:
        while True:
            await asyncio.sleep(_FLUSH_S)
            self._log.flush()


async def run(config: PacerConfig) -> int:
    """Obey the owner until everything is sent, or told to stop, or alone."""
    scheduling = go_first()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    failures: list[str] = []

    def failed(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """End rather than go on with a part missing: a silent vehicle would look like a lossy network."""
        loop.default_exception_handler(context)
        failures.append(f"{context['message']}: {context.get('exception')!r}")
        stop.set()

    loop.set_exception_handler(failed)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    pacer = Pacer(config)
    tasks: list[asyncio.Task[Any]] = []
    try:
        connected = await pacer.open()
        emit("ready", vehicles=len(config.numbers()), connected=connected, scheduling=scheduling)
        tasks = [asyncio.ensure_future(_obey(pacer, stop)), asyncio.ensure_future(_report(pacer))]
        await _first(stop.wait(), pacer.finish())
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await pacer.close()
    if failures:
        emit("error", message=failures[0])
        return 1
    emit("done", stopped=stop.is_set(), **pacer.numbers())
    return 0


async def _first(*waits: Any) -> None:
    """Wait for the first of several to end; the rest are given up."""
    pending = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)


async def _obey(pacer: Pacer, stop: asyncio.Event) -> None:
    commands = await Commands.open()
    try:
        while (command := await commands.next()) is not None:
            if command.get("command") == "start":
                pacer.start(int(command["at_ns"]))
            elif command.get("command") == "stop":
                break
    except Exception as error:  # noqa: BLE001 - a command that cannot be followed ends the process with its reason
        context = {"message": "a command failed", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)
    stop.set()


async def _report(pacer: Pacer) -> None:
    while True:
        await asyncio.sleep(_PROGRESS_S)
        emit("progress", **pacer.numbers())


def main(argv: list[str]) -> int:
    """Return 0 after the work or a stop, 2 for a refusal."""
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    if len(argv) != 1:
        emit("error", message="usage: python -m simulator.pacer CONFIG.json")
        return 2
    try:
        return asyncio.run(run(read_config(argv[0], PacerConfig)))
    except Refusal as refusal:
        emit("error", message=str(refusal))
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
