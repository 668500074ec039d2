"""How long a sender stays after the last message was due, on a clock of the test."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from simulator import shard as shard_module
from simulator.scenario import Scenario
from simulator.sender_config import SenderConfig
from simulator.shard import Shard
from simulator.vehicle_sender import Totals

STEP_NS = 100_000_000
DRAIN_S = 1.0


class Clock:
    """Goes on by a step each time it is asked."""

    def __init__(self) -> None:
        self.now_ns = 0

    def time_ns(self) -> int:
        self.now_ns += STEP_NS
        return self.now_ns


class Vehicle:
    """A vehicle that emits one message at a moment of the drain and is never answered."""

    client: object

    def __init__(self, totals: Totals, clock: Clock, emits_at_ns: int) -> None:
        self._totals, self._clock, self._emits_at_ns = totals, clock, emits_at_ns
        self.gave_up_at_ns: int | None = None

    def idle(self) -> bool:
        if self._clock.now_ns >= self._emits_at_ns > self._totals.last_emitted_at_ns:
            self._totals.last_emitted_at_ns = self._emits_at_ns
        return False

    def give_up(self) -> None:
        self.gave_up_at_ns = self.gave_up_at_ns or self._clock.now_ns

    async def close(self) -> None:
        pass


class Sent:
    """A schedule of which all is sent."""

    def __init__(self, _takers: object) -> None:
        self.sent_all = asyncio.Event()
        self.sent_all.set()

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("emits_at_s", "ends_at_s"),
    [
        (0.3, 1.3),  # late: it has its own time, from its emission
        (0.0, 1.1),  # before the drain: its time is that of the drain
    ],
)
async def test_what_left_late_has_its_time_and_what_stayed_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, emits_at_s: float, ends_at_s: float
) -> None:
    clock = Clock()
    scenario = Scenario(vehicles=1, duration_s=1.0)
    config = SenderConfig(
        protocol="coap", mode="con", host="127.0.0.1", port=9, scenario=scenario,
        events_path=str(tmp_path / "events"), drain_s=DRAIN_S,
    )  # fmt: skip
    made: list[Vehicle] = []

    def vehicle_sender(_number: int, _log: object, totals: Totals, **_: object) -> Vehicle:
        made.append(Vehicle(totals, clock, round(emits_at_s * 1e9)))
        return made[-1]

    monkeypatch.setattr(shard_module, "VehicleSender", vehicle_sender)
    monkeypatch.setattr(shard_module, "OpenLoop", Sent)
    shard = Shard(config)
    (vehicle,) = made
    with monkeypatch.context() as patch:
        patch.setattr(shard_module, "time", clock)
        assert await shard.finish() is False
    await shard.close()
    assert clock.now_ns == pytest.approx(ends_at_s * 1e9, abs=2 * STEP_NS)
    assert vehicle.gave_up_at_ns == pytest.approx(DRAIN_S * 1e9, abs=2 * STEP_NS)


@pytest.mark.parametrize(
    ("vehicles", "least_s", "most_s"), [(25, 0.0, 0.0), (100, 0.15, 0.15), (10_000, 7.0, 8.0)]
)
async def test_a_fleet_does_not_leave_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vehicles: int, least_s: float, most_s: float
) -> None:
    slept_s: list[float] = []
    left_after_s: list[float] = []

    class Leaving(Vehicle):
        async def close(self) -> None:
            left_after_s.append(sum(slept_s))

    async def sleep(duration_s: float) -> None:
        await yielding(0)  # what was begun goes on before time does
        slept_s.append(duration_s)

    yielding = asyncio.sleep
    config = SenderConfig(
        protocol="coap", mode="con", host="127.0.0.1", port=9, events_path=str(tmp_path / "events"),
        scenario=Scenario(vehicles=vehicles, duration_s=1.0),
    )  # fmt: skip
    monkeypatch.setattr(
        shard_module, "VehicleSender", lambda _n, _log, totals, **_: Leaving(totals, Clock(), 0)
    )
    monkeypatch.setattr(shard_module, "OpenLoop", Sent)
    shard = Shard(config)
    monkeypatch.setattr(shard_module.asyncio, "sleep", sleep)
    await shard.close()
    assert len(left_after_s) == vehicles
    assert least_s <= max(left_after_s) <= most_s + 1e-9
    per_s = max(500.0, vehicles / 8)
    assert all(left_after_s.count(at_s) <= 25 for at_s in set(left_after_s))
    assert all(index / per_s <= at_s + 25 / per_s + 1e-9 for index, at_s in enumerate(left_after_s))
