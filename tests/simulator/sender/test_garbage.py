"""Garbage is collected when there is time for it, and in any case before it is too much."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateways.protocols import PROTOCOLS
from gateways.protocols.backoff import Backoff
from gateways.protocols.base import Endpoint, VehicleSettings
from ivsim.testbed.process import hold_port
from simulator.emission_log import EmissionLog
from simulator.garbage import QuietCollector, spared
from simulator.vehicle_sender import Totals, VehicleSender


class Knot:
    """A cycle: only the collector frees it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def collector(request: pytest.FixtureRequest) -> Iterator[QuietCollector]:
    made = QuietCollector(*request.param)
    made.begin()
    yield made
    made.end()
    assert gc.isenabled()


def limits(*counts: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("collector", [counts], indirect=True)


@limits(10)
def test_garbage_goes_when_nothing_is_due(collector: QuietCollector) -> None:
    knot = Knot()
    gone = weakref.ref(knot)
    del knot
    rest = [[] for _ in range(100)]
    collector.offer(quiet_ns=10**9)
    assert gone() is None
    assert (len(rest), collector.collections) == (100, 1)


@limits(10, 1_000)
def test_a_burst_is_not_disturbed_until_it_is_too_much(collector: QuietCollector) -> None:
    some = [[] for _ in range(100)]
    collector.offer(quiet_ns=10**9)
    some += [[] for _ in range(100)]
    collector.offer(quiet_ns=0)
    assert collector.collections == 1
    some += [[] for _ in range(2_000)]
    collector.offer(quiet_ns=0)
    assert collector.collections == 2


@limits(800)
async def test_refused_connections_leave_nothing_behind(collector: QuietCollector, tmp_path: Path) -> None:
    """A fleet that meets a closed port for an hour makes many; pika ties a connection into knots."""
    log = EmissionLog(tmp_path / "events")
    totals = Totals()
    one = VehicleSender(1, log, totals, backoff=Backoff(0.0, 0.0), limit=1, policy="drop_oldest")
    protocol = PROTOCOLS["amqp"]
    mode = protocol.modes[protocol.default_mode]
    with hold_port() as silent:
        here = Endpoint("127.0.0.1", silent.getsockname()[1])
        one.client = protocol.vehicle_client(here, 1, mode, one, VehicleSettings())
        one.open()
        objects = []
        for attempts in (20, 220):
            while totals.connect_failures < attempts:
                await asyncio.sleep(0.001)
                collector.offer(quiet_ns=10**9)
            objects.append(len(gc.get_objects()))
        await one.close()
    log.close()
    # 200 more attempts: what waits until a collection is worth it (800), and of what stays less than an object each, whether
    # knots were collected or never tied. Without collections it is 8,000.
    assert objects[1] - objects[0] < 1_000


def test_what_lives_is_spared_within_the_block_and_what_is_new_is_not() -> None:
    gc.disable()
    old = weakref.ref(Knot())
    with spared():
        gc.enable()
        new = weakref.ref(Knot())
        gc.collect()
        assert old() is not None
        assert new() is None
    gc.collect()
    assert old() is None
    assert gc.get_freeze_count() == 0


def test_what_is_kept_within_the_block_is_spared_too_once_it_is_said() -> None:
    """A replay keeps 3,000 objects a second: after some minutes a collection went through all, and no thread ran."""
    gc.collect()
    seen: list[int] = []

    def count(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            seen.append(len(gc.get_objects()))

    gc.callbacks.append(count)
    try:
        with spared() as spare_new:
            kept = []
            for _ in range(50):
                kept.append([[] for _ in range(3_000)])
                garbage = weakref.ref(Knot())
                spare_new()
                assert garbage() is None
            gc.collect()
    finally:
        gc.callbacks.remove(count)
    assert len(seen) >= 51
    assert max(seen) < 2 * 3_000 + 1_000
    assert len(kept) == 50
    assert gc.get_freeze_count() == 0
