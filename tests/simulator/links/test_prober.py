"""How long the prober waits for its last probes; over loopback, without a link."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from simulator.links.proof import prober, probes
from simulator.links.proof.prober import Prober

VEHICLE = 1


def bound() -> socket.socket:
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, probes.SO_TIMESTAMPNS, 1)
    s.setblocking(False)
    s.bind(("127.0.0.1", 0))
    return s


class Loopback:
    """Ends of probes; what goes to the vehicle is swallowed while `swallow` says so."""

    def __init__(self) -> None:
        self.cloud, self.vehicle, self.hole = bound(), bound(), bound()
        self.cloud_name = self.cloud.getsockname()
        self.vehicles = {VEHICLE: self.vehicle}
        self.names = {VEHICLE: self.vehicle.getsockname()}

    def swallow(self, *, on: bool) -> None:
        self.names[VEHICLE] = (self.hole if on else self.vehicle).getsockname()

    def deliver(self) -> None:
        """Send what was swallowed on its way after all."""
        self.cloud.sendto(self.hole.recv(2048), self.vehicle.getsockname())


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    made = Loopback()
    monkeypatch.setattr(probes, "Ends", lambda *_: made)
    monkeypatch.setattr(prober, "SECOND_NS", 50_000_000)  # a probe each way each 50 ms
    yield made
    for s in (made.cloud, made.vehicle, made.hole):
        s.close()


def until(ready: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 10
    while not ready():
        assert time.monotonic() < end_s
        time.sleep(0.005)


def downlink(made: Prober) -> list[bool]:
    """Say of each probe to the vehicle, in the order of sending, whether it came."""
    return made.times.way(VEHICLE, "downlink")


def stop_s(made: Prober) -> float:
    began_s = time.monotonic()
    made.stop()
    assert made.failure is None
    return time.monotonic() - began_s


def begun() -> Prober:
    link: Any = None
    return Prober(link, VEHICLE, time.time_ns()).__enter__()


@pytest.mark.timing
def test_it_ends_once_the_last_probes_have_come_whatever_was_lost_before(ends: Loopback) -> None:
    ends.swallow(on=True)
    made = begun()
    until(lambda: len(downlink(made)) >= 2)
    ends.swallow(on=False)
    until(lambda: any(downlink(made)))
    assert stop_s(made) < prober.SETTLE_S / 2
    assert downlink(made)[0] is False
    assert downlink(made)[-1] is True


@pytest.mark.timing
def test_it_waits_for_a_lost_one_no_longer_than_it_says(ends: Loopback) -> None:
    made = begun()
    until(lambda: any(downlink(made)))
    ends.swallow(on=True)
    until(lambda: not downlink(made)[-1])
    assert prober.SETTLE_S <= stop_s(made) < prober.SETTLE_S + 1


@pytest.mark.timing
def test_a_late_probe_counts(ends: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prober, "SECOND_NS", 60_000_000_000)  # one probe each way
    monkeypatch.setattr(prober, "FIRST_PHASE", 0.0)
    ends.swallow(on=True)
    made = begun()
    until(lambda: downlink(made) == [False])
    late = threading.Timer(0.3, ends.deliver)
    late.start()
    assert 0.25 < stop_s(made) < prober.SETTLE_S
    assert downlink(made) == [True]
    late.join()
