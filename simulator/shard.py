"""The vehicles of one sender process: built, connected, sending, and taking leave.

Three things beside the schedule (`open_loop`) would make a message late: building a vehicle (2 ms with its first payload),
the collector's pauses, and answers that are read in the same loop. So vehicles are built before they connect, and the
collector runs in quiet moments alone.

Every event goes to the emission log, which is flushed each 50 ms and crash-safe: a sender that is killed leaves rows
that say `unsent`, not holes.
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
import time
from collections.abc import Sequence
from pathlib import Path

from gateways.protocols.backoff import Backoff
from schemas.errors import Refusal
from simulator.background import in_background
from simulator.echo import Echo
from simulator.emission_log import EmissionLog, Kind
from simulator.fleet import Fleet
from simulator.garbage import QuietCollector
from simulator.open_loop import OpenLoop
from simulator.sender_config import SenderConfig
from simulator.vehicle_sender import EmissionLag, Totals, VehicleSender

_BUILD_SLICE_S = 0.02
_FLUSH_S = 0.05
_CONNECTING_AT_ONCE = 200
_CONNECTED_POLL_S = 0.02
# A fleet that leaves at once is a burst of six packets each: on an emulated link of 5,000 vehicles half a second's probes were
# lost in it, and a change came 0.7 s late. An owner that says stop waits no longer than this for it.
_LEAVING_TOGETHER, _LEAVING_PER_S, _LEAVING_MOST_S = 25, 500, 8.0


class Shard:
    """All vehicles of one process, from connecting to taking leave."""

    def __init__(self, config: SenderConfig) -> None:
        self._config = config
        self._protocol, self._mode = config.rows()
        self._log = EmissionLog(Path(config.events_path))
        self.totals = Totals()
        self.lag = EmissionLag()
        # A rate of connections is open loop: how many are in a handshake is the peer's doing.
        self._gate = asyncio.Semaphore(_CONNECTING_AT_ONCE) if config.connect_rate_per_s is None else None
        self._vehicle_senders = {vehicle: self._vehicle_sender(vehicle) for vehicle in config.numbers()}
        self._echoes = (
            {vehicle: self._echo(vehicle) for vehicle in config.numbers()}
            if config.topology == "echo"
            else {}
        )
        self._fleet = Fleet(config.scenario, config.vehicles)
        self._cpu_at_start_s: float | None = None
        self._schedule = OpenLoop(self._vehicle_senders)
        self._collector = QuietCollector()
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> int:
        """Build every vehicle, then connect it and its receiver; return how many vehicles there are.

        Raises Refusal when not all are connected at once within `connect_wait_s`: a run that begins with a part of its
        fleet offline measures something else.
        """
        self._tasks = [in_background("the emission log", self._flush_forever())]
        await self._build()
        try:
            async with asyncio.timeout(self._config.connect_wait_s):
                await asyncio.gather(*await self._begin_to_connect())
                while True:
                    if self._all_connected():
                        break
                    await asyncio.sleep(_CONNECTED_POLL_S)
        except TimeoutError:
            raise Refusal(self._missing()) from None
        self._collector.begin()
        return self.totals.connected

    async def _begin_to_connect(self) -> list[asyncio.Future[None]]:
        """Begin every connection, at once or each when it is due; return what ends with the first success of each.

        Vehicle k's is due (k - 1) / rate after the beginning, whichever sender has it, and whatever became of the others.
        """
        rate_per_s = self._config.connect_rate_per_s
        if rate_per_s is None:
            return [end.open() for end in self._ends()]
        opening: list[asyncio.Future[None]] = [echo.open() for echo in self._echoes.values()]
        begin_ns = time.time_ns()
        for vehicle, vehicle_sender in self._vehicle_senders.items():
            due_at_ns = begin_ns + round((vehicle - 1) / rate_per_s * 1e9)
            await asyncio.sleep(max(0.0, (due_at_ns - time.time_ns()) / 1e9))
            self._log.note(Kind.CONNECT_DUE, vehicle, due_at_ns)
            opening.append(vehicle_sender.open())
        return opening

    async def _build(self) -> None:
        """Build the vehicles before anything is connected; a command to stop is heard meanwhile."""
        slice_ends_s = time.monotonic() + _BUILD_SLICE_S
        for _ in self._fleet.build():
            if time.monotonic() >= slice_ends_s:
                await asyncio.sleep(0)
                slice_ends_s = time.monotonic() + _BUILD_SLICE_S

    def _ends(self) -> list[VehicleSender | Echo]:
        return [*self._vehicle_senders.values(), *self._echoes.values()]

    def _all_connected(self) -> bool:
        return self.totals.connected == len(self._vehicle_senders) and self.totals.subscribed == len(
            self._echoes
        )

    def _missing(self) -> str:
        """Say how many are not connected, and why the first of them is not."""
        connected, wanted = self.totals.connected, len(self._vehicle_senders)
        what = f"{wanted - connected} of {wanted} vehicles are"
        if connected == wanted:
            wanted = len(self._echoes)
            what = f"{wanted - self.totals.subscribed} of {wanted} receivers beside the vehicles are"
        reason = next((end.trouble for end in self._ends() if end.trouble), "no answer")
        where = f"{self._config.host}:{self._config.port}"
        return f"{what} not connected to {where} within {self._config.connect_wait_s:g} s: {reason}"

    def start(self, at_ns: int, clock_ahead_ns: int = 0) -> None:
        """Begin: offset 0 of the scenario is `at_ns` on the owner's wall clock, of which this one is so far ahead.

        What vehicles say of the time is by the owner's clock, so that their messages do not depend on where they are made.
        """
        self._cpu_at_start_s = time.process_time()
        self._log.note(Kind.STARTED, 0, at_ns, epoch=self._config.scenario.epoch)
        self.lag.start_at_ns = at_ns + clock_ahead_ns
        self._schedule.start(self._fleet.emissions(at_ns), at_ns + clock_ahead_ns)

    async def finish(self) -> bool:
        """Wait until everything is sent and acknowledged; False when the time for that is over first.

        What still waits in a vehicle `drain_s` after the last message was due is given up, and is `unsent`. What was
        sent has `drain_s` from its own emission, so that a message that left late is not cut off before the others.
        """
        await self._schedule.sent_all.wait()
        drain_ns = round(self._config.drain_s * 1e9)
        outboxes_to_ns = time.time_ns() + drain_ns
        while not self._drained():
            now_ns = time.time_ns()
            if now_ns >= outboxes_to_ns:
                for vehicle_sender in self._vehicle_senders.values():
                    vehicle_sender.give_up()
                if now_ns >= self.totals.last_emitted_at_ns + drain_ns:
                    return False
            await asyncio.sleep(0.02)
        return True

    async def close(self) -> None:
        """Take leave of the peers and close the log; what was not due yet stays `unsent`."""
        self._schedule.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._leave([*self._echoes.values(), *self._vehicle_senders.values()])
        self._log.close()
        self._collector.end()

    async def _leave(self, ends: Sequence[VehicleSender | Echo]) -> None:
        """Close connections one group after the other."""
        pause_s = _LEAVING_TOGETHER * min(1 / _LEAVING_PER_S, _LEAVING_MOST_S / max(1, len(ends)))
        leaving: list[asyncio.Task[None]] = []
        for begin in range(0, len(ends), _LEAVING_TOGETHER):
            if begin:
                await asyncio.sleep(pause_s)
            leaving += [asyncio.create_task(end.close()) for end in ends[begin : begin + _LEAVING_TOGETHER]]
        await asyncio.gather(*leaving)

    def cpu_s(self) -> float | None:
        """Return the CPU of this process since the start; None before it."""
        return None if self._cpu_at_start_s is None else time.process_time() - self._cpu_at_start_s

    def numbers(self) -> dict[str, int]:
        return dataclasses.asdict(self.totals)

    def _backoff(self, vehicle: int, what: str) -> Backoff:
        config = self._config
        return Backoff(
            config.reconnect_first_s,
            config.reconnect_most_s,
            random.Random(f"{config.scenario.seed}/{vehicle}/{what}"),
        )

    def _vehicle_sender(self, vehicle: int) -> VehicleSender:
        config = self._config
        vehicle_sender = VehicleSender(
            vehicle,
            self._log,
            self.totals,
            backoff=self._backoff(vehicle, "reconnect"),
            limit=config.outbox_limit,
            policy=config.outbox_policy,
            gate=self._gate,
            lag=self.lag,
        )
        vehicle_sender.client = self._protocol.vehicle_client(
            config.endpoint(vehicle), vehicle, self._mode, vehicle_sender, config.settings(vehicle)
        )
        return vehicle_sender

    def _echo(self, vehicle: int) -> Echo:
        config = self._config
        echo = Echo(
            vehicle,
            config.scenario.epoch,
            config.scenario.payload_format,
            self._log,
            self.totals,
            backoff=self._backoff(vehicle, "resubscribe"),
            gate=self._gate,
        )
        echo.subscriber = self._protocol.subscriber(
            config.endpoint(vehicle), vehicle, self._mode, echo, config.settings(vehicle)
        )
        return echo

    def _drained(self) -> bool:
        if self._config.topology == "echo" and self.totals.received < self.totals.emitted:
            return False
        return all(vehicle_sender.idle() for vehicle_sender in self._vehicle_senders.values())

    async def _flush_forever(self) -> None:
        while True:
            await asyncio.sleep(_FLUSH_S)
            self._log.flush()
            self._collector.offer(self._schedule.quiet_ns())
