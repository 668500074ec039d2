"""What a setting would do at the link as it is: late, lost and timely messages, for many settings at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from gateways.batching.batcher import BatchSetting
from gateways.batching.latency_laws import Sample
from gateways.batching.loss import Goodput, tcp_bytes_per_s
from gateways.batching.observation import LinkState, Observation
from gateways.batching.waiting import late_waits, mean_waits_ms, middles_ms

# An idempotent producer of librdkafka has no more requests unanswered.
IN_FLIGHT = 5
# Slices of the answers' times: a share is off by 1/64 at most, and a decision takes milliseconds.
_SLICES = 32
# Algorithms that halve their window, or nearly, at a loss, so that loss bounds what the link carries; BBR does not.
_HALVING = frozenset({"reno", "cubic"})


@dataclass(frozen=True, slots=True)
class Prediction:
    """What one setting would do.

    Attributes:
        late_ratio: share of what gets through that takes longer than the limit (eta_v).
        lost_ratio: share that does not get through (eta_l).
        per_s: messages a second that are offered (X).
        mean_ms: mean latency of what gets through.
    """

    setting: BatchSetting
    late_ratio: float
    lost_ratio: float
    per_s: float
    mean_ms: float

    @property
    def timely_per_s(self) -> float:
        """Return the timely throughput, (1 - eta_v)(1 - eta_l) X."""
        return (1 - self.late_ratio) * self.through_per_s

    @property
    def through_per_s(self) -> float:
        """Return the throughput, late messages included."""
        return (1 - self.lost_ratio) * self.per_s


@dataclass(frozen=True, slots=True)
class BatchModel:
    """Predicts by the waiting law upon the answers of the period, and by the goodput formula: neither is fitted.

    Attributes:
        limit_ms: of the latency, from taking a message to Kafka's confirmation.
        per_s: messages taken a second, which come to wait for a batch.
        partitions: over which they are spread evenly.
        base: law of the time from the end of a batch to its confirmation.
        goodput: of the link.
    """

    limit_ms: float
    per_s: float
    partitions: int
    base: Sample
    goodput: Goodput

    @classmethod
    def of(cls, observation: Observation, limit_ms: float, partitions: int, messages_max: int) -> Self | None:
        """Return the model at what was observed; None where nothing was taken or nothing was confirmed.

        While back-pressure held the intake back, what is offered is taken for as much as batches of `messages_max` would
        carry: else every setting would seem to carry all, since no more was taken than the one in force carried.
        """
        if not observation.per_s > 0 or not observation.answers_ms:
            return None
        base = Sample.of(observation.answers_ms)
        answer_ms = observation.link.request_ms or float(np.mean(base.sorted_ms))
        carried = _carried(observation.link)
        offered_per_s = observation.per_s
        if observation.held_back:
            most = Goodput(math.inf, IN_FLIGHT, answer_ms, *carried).through_per_s(messages_max)
            offered_per_s = max(offered_per_s, float(most))
        goodput = Goodput(offered_per_s, IN_FLIGHT, answer_ms, *carried)
        return cls(limit_ms, observation.per_s, partitions, base, goodput)

    def predict(self, settings: Sequence[BatchSetting]) -> list[Prediction]:
        """Return a prediction for each setting, in their order; those of the same age cost hardly more than one."""
        predictions: dict[BatchSetting, Prediction] = {}
        for wait_ms in dict.fromkeys(setting.wait_ms for setting in settings):
            alike = [setting for setting in settings if setting.wait_ms == wait_ms]
            predictions |= zip(alike, self._of_one_age(alike, wait_ms), strict=True)
        return [predictions[setting] for setting in settings]

    def _of_one_age(self, settings: Sequence[BatchSetting], wait_ms: float) -> list[Prediction]:
        counts = np.array([setting.messages for setting in settings])
        partition_per_s = self.per_s / self.partitions
        late = late_waits(
            counts, wait_ms, partition_per_s, self.limit_ms - middles_ms(self.base, _SLICES)
        ).mean(axis=-1)
        means_ms = mean_waits_ms(counts, wait_ms, partition_per_s) + np.mean(self.base.sorted_ms)
        lost = self.goodput.lost(counts)
        return [
            Prediction(setting, float(late_ratio), float(lost_ratio), self.goodput.per_s, float(mean_ms))
            for setting, late_ratio, lost_ratio, mean_ms in zip(settings, late, lost, means_ms, strict=True)
        ]


def _carried(link: LinkState) -> tuple[float, float, float]:
    """Return what TCP carries in bytes a second, a message's and a request's bytes; no bound where any is unknown."""
    unbounded = math.inf, 1.0, 0.0
    if link.rtt_ms is None or link.loss_ratio is None or link.segment_bytes is None:
        return unbounded
    if link.message_bytes is None or link.request_bytes is None or link.congestion_control not in _HALVING:
        return unbounded
    # Headers of TCP and IP are not in `segment_bytes`, and so neither in what a message takes.
    bytes_per_s = tcp_bytes_per_s(link.segment_bytes, link.rtt_ms, link.loss_ratio)
    return bytes_per_s, link.message_bytes, link.request_bytes
