"""Which limits of the latency can be kept over a link that loses, predicted before anything is measured; pure.

Gateways that share the link send batches of one setting through it; from the answers of each period comes the model that
their controllers would have at its end, and from that the smallest limit, as the policies have it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from gateways.batching.batcher import Batcher, BatchSetting
from gateways.batching.model import IN_FLIGHT, BatchModel
from gateways.batching.observation import Observation
from gateways.batching.rules import smallest_limit_ms
from ivsim.papers.reactive_batching.lossy_path import Connection, Events, Path
from ivsim.study.engines.pipe.link_series import changing
from ivsim.study.engines.pipe.options import PipeOptions
from simulator.traces import Trace

# Of a full packet; a record of 500 bytes with its framing; a Produce request beside its records (`producer_statistics`).
SEGMENT_BYTES: Final = 1_448
RECORD_BYTES: Final = 510
REQUEST_BYTES: Final = 121


@dataclass(frozen=True, slots=True)
class Load:
    """What one gateway offers to its partition.

    Attributes:
        setting: of its batches.
        per_s: Poisson arrivals a second.
        expiry_s: age at which a record is given up.
        in_flight: requests that may be unanswered.
    """

    setting: BatchSetting
    per_s: float
    expiry_s: float
    in_flight: int = IN_FLIGHT


class Answered(NamedTuple):
    """One record that was sent and answered, though its producer may have given it up by then; seconds since the start.

    Attributes:
        ended_s: when its batch ended.
    """

    taken_s: float
    ended_s: float
    answered_s: float


@dataclass(frozen=True, slots=True)
class Link:
    """What the gateways share.

    Attributes:
        series: a step a second, with rtt_ms and loss_ratio.
        burst: mean length of a burst of losses in packets; None: each packet is lost by itself.
        gateways: that send over it.
    """

    series: Trace
    burst: float | None
    gateways: int


class _Batch(NamedTuple):
    ended_s: float
    records: tuple[float, ...]


class _Gateway:
    """Batches of records through a connection of its own, a few requests at a time."""

    def __init__(self, load: Load, path: Path, events: Events) -> None:
        self._load, self._events = load, events
        self._connection = Connection(events, path, self._hear)
        self._waiting: deque[_Batch] = deque()
        # The end of each request among the segments, and what of its batch had not expired.
        self._asked: deque[tuple[int, _Batch]] = deque()
        self.answered: list[Answered] = []

    def expect(self, batch: _Batch) -> None:
        """Have a batch sent when it has ended."""

        def end(now_s: float) -> None:
            self._waiting.append(batch)
            self._ask(now_s)

        self._events.at(batch.ended_s, end)

    def _ask(self, now_s: float) -> None:
        while self._waiting and len(self._asked) < self._load.in_flight:
            ended_s, records = self._waiting.popleft()
            alive = tuple(taken_s for taken_s in records if now_s - taken_s < self._load.expiry_s)
            if alive:
                segments = math.ceil((REQUEST_BYTES + len(alive) * RECORD_BYTES) / SEGMENT_BYTES)
                self._asked.append((self._connection.write(segments, now_s), _Batch(ended_s, alive)))

    def _hear(self, now_s: float, segments: int) -> None:
        while self._asked and self._asked[0][0] <= segments:
            _, (ended_s, records) = self._asked.popleft()
            self.answered += [Answered(taken_s, ended_s, now_s) for taken_s in records]
        self._ask(now_s)


def answers(load: Load, link: Link, seconds: float, seed: int) -> list[list[Answered]]:
    """Return what of each gateway is answered over the link, in the order of the answers.

    Args:
        load: of each gateway.
        link: that they share.
        seconds: how long records come.
        seed: of arrivals and losses.
    """
    rng, events = np.random.default_rng([seed, 2]), Events()
    path = Path(link.series, link.burst, rng)
    gateways = [_Gateway(load, path, events) for _ in range(link.gateways)]
    for gateway in gateways:
        for batch in _batches(load, seconds, rng):
            gateway.expect(batch)
    events.run()
    return [gateway.answered for gateway in gateways]


def _batches(load: Load, seconds: float, rng: np.random.Generator) -> Iterator[_Batch]:
    batcher: Batcher[float] = Batcher(load.setting)
    now_s = rng.exponential(1 / load.per_s)
    while now_s < seconds:
        yield from _over(batcher, now_s)
        closed = batcher.add(0, now_s, now_s)
        if closed is not None:
            yield _Batch(now_s, tuple(closed))
        now_s += rng.exponential(1 / load.per_s)
    yield from _over(batcher, math.inf)


def _over(batcher: Batcher[float], until_s: float) -> Iterator[_Batch]:
    while (deadline_s := batcher.deadline_s) is not None and deadline_s <= until_s:
        yield from (_Batch(deadline_s, tuple(batch)) for batch in batcher.due(deadline_s))


def models(
    found: Sequence[Answered], load: Load, period_s: float, seconds: float, limit_ms: float
) -> list[BatchModel | None]:
    """Return what a controller would know at the end of each whole period; None where nothing was confirmed in it."""
    answers_ms: list[list[float]] = [[] for _ in range(int(seconds / period_s))]
    for one in found:
        period = int(one.answered_s / period_s)
        # A record that has expired is confirmed no more.
        if period < len(answers_ms) and one.answered_s - one.taken_s < load.expiry_s:
            answers_ms[period].append((one.answered_s - one.ended_s) * 1e3)
    most = load.setting.messages
    return [
        BatchModel.of(Observation(load.per_s, tuple(period)), limit_ms, partitions=1, messages_max=most)
        for period in answers_ms
    ]


def asked_of(options: PipeOptions) -> tuple[Load, Link]:
    """Return load and link of a cell with a policy, whose link varies by the seed."""
    assert options.link_varies
    assert options.rate is not None
    assert options.expiry_ms is not None
    series = changing(options.seed, float(options.rtt or 0), options.loss_ratio)
    load = Load(
        BatchSetting(options.batch_messages, options.linger_ms),
        options.rate / options.producers,
        options.expiry_ms / 1e3,
    )
    return load, Link(series, options.loss_burst, options.producers)


def known(options: PipeOptions, limit_ms: float) -> list[BatchModel | None]:
    """Return what the gateways of a cell would know at the end of each of their periods, at its first setting."""
    load, link = asked_of(options)
    seconds, period_s = options.duration_s, options.batch_period_s
    every = answers(load, link, seconds, options.seed)
    return [model for found in every for model in models(found, load, period_s, seconds, limit_ms)]


def smallest_limits_ms(options: PipeOptions) -> list[float]:
    """Return, for each period of each gateway, the smallest limit that can be kept; infinite where nothing was confirmed."""
    # Which is the smallest does not depend on the one that is asked for.
    return [math.inf if model is None else smallest_limit_ms(model) for model in known(options, limit_ms=1.0)]
