"""What a link is and what may be asked of it; nothing here touches the kernel."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Literal, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from schemas.errors import Refusal
from schemas.topics import end_id

Direction = Literal["uplink", "downlink"]
# The control without emulation, which some options and the page ask about.
DIRECT: Final = "direct"
DIRECTIONS: Final[tuple[Direction, Direction]] = ("uplink", "downlink")
TCP_ALGORITHMS: Final = ("cubic", "reno", "bbr")
DEFAULT_TCP_ALGORITHM: Final = "cubic"
DISTRIBUTIONS: Final = ("uniform", "normal", "pareto", "paretonormal")

RATE_MIN_BPS: Final = 8.0  # netem counts whole bytes per second
RATE_MAX_BPS: Final = 100e9
# tc_netem_qopt holds the latency as 32 bits of 64 ns ticks: 274.8 s. Delay and jitter share the range.
DELAY_MAX_MS: Final = 274_000.0
QUEUE_MAX_BYTES: Final = 2**31 - 1


@dataclass(frozen=True)
class GilbertElliott:
    """Bursty loss: two states, good and bad, left at each packet with the given probabilities."""

    good_to_bad_ratio: float
    bad_to_good_ratio: float
    bad_loss_ratio: float = 1.0
    good_loss_ratio: float = 0.0

    @property
    def bad_share(self) -> float:
        """Return the long-run share of packets that meet the bad state."""
        return self.good_to_bad_ratio / (self.good_to_bad_ratio + self.bad_to_good_ratio)

    @property
    def loss_ratio(self) -> float:
        """Return the long-run share of lost packets."""
        bad = self.bad_share
        return bad * self.bad_loss_ratio + (1 - bad) * self.good_loss_ratio


@dataclass(frozen=True)
class Condition:
    """What one direction of one vehicle's link shall do until the next change.

    Attributes:
        rate_bps: bits of Ethernet frames per second; None is unlimited, 0 an outage in which packets wait.
        delay_ms: one-way propagation delay, added after the queue and the serialisation.
        loss_ratio: independent loss of each packet; with `gilbert_elliott` that model alone decides.
        jitter_ms: spread of the delay around `delay_ms` (standard deviation, or half width if uniform).
        distribution: shape of that spread, one of DISTRIBUTIONS.
        gilbert_elliott: bursty loss instead of independent loss.
        reorder_ratio: share of packets that skip the delay line and overtake.
        duplicate_ratio: share of packets sent twice.
        queue_bytes: bytes that may wait for the rate; None derives it from rate and delay.
    """

    rate_bps: float | None = None
    delay_ms: float = 0.0
    loss_ratio: float = 0.0
    jitter_ms: float = 0.0
    distribution: str = "uniform"
    gilbert_elliott: GilbertElliott | None = None
    reorder_ratio: float = 0.0
    duplicate_ratio: float = 0.0
    queue_bytes: int | None = None

    @property
    def outage(self) -> bool:
        return self.rate_bps == 0

    @property
    def mean_loss_ratio(self) -> float:
        """Return the long-run share of lost packets, whichever model decides."""
        return self.loss_ratio if self.gilbert_elliott is None else self.gilbert_elliott.loss_ratio

    @property
    def burst_packets(self) -> float:
        """Return the mean length of a burst of losses: 1 for independent ones, about."""
        return 1.0 if self.gilbert_elliott is None else 1 / self.gilbert_elliott.bad_to_good_ratio

    @property
    def plain(self) -> bool:
        """Return whether there is nothing but rate, delay and independent loss."""
        return (
            not self.jitter_ms
            and self.gilbert_elliott is None
            and not self.reorder_ratio
            and not self.duplicate_ratio
            and self.queue_bytes is None
            and self.distribution == "uniform"
        )


def check(condition: Condition, vehicle: int, direction: Direction) -> None:
    """Raise a Refusal that names the vehicle, the field and what it may be, unless the kernel can do it."""
    c = condition
    rate = c.rate_bps
    if (
        (rate is None or rate == 0 or RATE_MIN_BPS <= rate <= RATE_MAX_BPS)
        and 0 <= c.delay_ms <= DELAY_MAX_MS
        and 0 <= c.loss_ratio <= 1
        and c.plain
    ):
        return  # a fleet's update checks thousands of these
    whose = f"{end_id(vehicle)} {direction}"
    if rate is not None and rate != 0:
        _within(rate, (RATE_MIN_BPS, RATE_MAX_BPS), f"{whose}: rate_bps", "0 (outage) or 8 to 1e11 bit/s")
    for name in ("delay_ms", "jitter_ms"):
        _within(getattr(c, name), (0, DELAY_MAX_MS), f"{whose}: {name}", "0 to 274000 ms")
    for name in ("loss_ratio", "reorder_ratio", "duplicate_ratio"):
        _within(getattr(c, name), (0, 1), f"{whose}: {name}", "0 to 1")
    if c.distribution not in DISTRIBUTIONS:
        raise Refusal(f"{whose}: distribution {c.distribution!r}: allowed {', '.join(DISTRIBUTIONS)}")
    if c.reorder_ratio and not c.delay_ms:
        raise Refusal(f"{whose}: reorder_ratio {c.reorder_ratio}: needs a delay_ms above 0 to overtake")
    if c.queue_bytes is not None:
        _within(c.queue_bytes, (1, QUEUE_MAX_BYTES), f"{whose}: queue_bytes", "1 to 2147483647 bytes")
    if c.gilbert_elliott is not None:
        if c.duplicate_ratio:
            raise Refusal(f"{whose}: duplicate_ratio {c.duplicate_ratio:g}: allowed 0 beside gilbert_elliott")
        _check_bursts(c.gilbert_elliott, whose)


def _check_bursts(bursts: GilbertElliott, whose: str) -> None:
    for name in ("good_to_bad_ratio", "bad_to_good_ratio", "bad_loss_ratio", "good_loss_ratio"):
        _within(getattr(bursts, name), (0, 1), f"{whose}: gilbert_elliott.{name}", "0 to 1")
    if bursts.good_to_bad_ratio + bursts.bad_to_good_ratio == 0:
        raise Refusal(f"{whose}: gilbert_elliott: one of its two transitions must be above 0")


def _within(value: float, bounds: tuple[float, float], what: str, allowed: str) -> None:
    if not math.isfinite(value) or not bounds[0] <= value <= bounds[1]:
        raise Refusal(f"{what} {value:g}: allowed {allowed}")


# Columns of `LinkCounts.values`: what has left the link (Ethernet frames), what was lost or found the queue full, what of it
# found the queue full, what is inside, in the queue or on its way.
COUNTED: Final = ("bytes", "packets", "drops", "queue_drops", "backlog_bytes", "backlog_packets")


class LinkCounts(NamedTuple):
    """The kernel's own counts at a moment, from the link's opening on: a row for each vehicle and direction, in any order.

    Attributes:
        vehicles: numbers, int64.
        ways: places in DIRECTIONS, int64.
        values: a row of `COUNTED` each, int64.
    """

    vehicles: npt.NDArray[np.int64]
    ways: npt.NDArray[np.int64]
    values: npt.NDArray[np.int64]

    @classmethod
    def none(cls) -> Self:
        """Return the counts of a link that counts nothing."""
        nobody = np.zeros(0, np.int64)
        return cls(nobody, nobody, np.zeros((0, len(COUNTED)), np.int64))

    def column(self, name: str) -> npt.NDArray[np.int64]:
        """Return the counts of one of COUNTED."""
        return self.values[:, COUNTED.index(name)]


Pair = tuple[Condition, Condition]  # what is asked of a vehicle's uplink, and of its downlink
Conditions = Mapping[int, Pair]


class Applied(NamedTuple):
    """When the kernel began with an update and had all of it, by this host's time.monotonic.

    Attributes:
        counts: what the kernel had counted right before, where that was asked for, and `counted_s` when it had.
    """

    began_s: float
    ended_s: float
    counts: LinkCounts
    counted_s: float


def wait_until(at_s: float) -> float:
    """Wait for an instant of time.monotonic; return the time it is then."""
    time.sleep(max(0.0, at_s - time.monotonic()))
    return time.monotonic()


class Link(Protocol):
    """Two namespaces and the link between; entering makes them, leaving removes all in reverse."""

    name: str
    vehicles_namespace: str
    cloud_namespace: str
    namespaces: tuple[str, ...]  # all that it makes, for whoever must clean up after a kill
    vehicles_device: str

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def update(self, conditions: Conditions) -> None:
        """Set the uplink and the downlink of each vehicle named; return once the kernel has them.

        What is as it was stays untouched, and so do packets already queued. Raises Refusal for a value out of
        range, LinkError naming the vehicle when the kernel refuses.
        """

    def prepare(self, conditions: Conditions, at_s: float, *, count: bool = False) -> Callable[[], Applied]:
        """Return the update that is due at `at_s` (time.monotonic) as a call that makes it then.

        The call waits for that instant if it has not passed, and returns when the kernel has all of the update. Who prepares
        the next second in this one is not late by the checks and the messages of a large fleet. What is prepared and never
        called changes nothing; no other update comes between the two. With `count` it has the counts until then, read so
        early that the change need not wait for them. Raises as `update` does: Refusal here, LinkError in both.
        """

    def counters(self) -> LinkCounts:
        """Return what the kernel has counted for every vehicle and direction."""

    def attached(self) -> AbstractContextManager[Self]:
        """Use an open link in another process, on its copy by `pickle`; who has opened it leaves it alone meanwhile."""

    def told(self) -> list[Any]:
        """Return what vehicles have been told, for `resume`; it can be pickled."""

    def resume(self, told: Sequence[Any] | None) -> None:
        """Go on with a link that another process has used: with what it has told vehicles, None where it has not said so."""

    def properties(self) -> dict[str, Any]:
        """Return what a manifest should know: back end, kernel, tick, devices."""


class LinkError(RuntimeError):
    """The link could not be made or changed; the text names the vehicle or the step."""
