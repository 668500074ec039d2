"""Rules by which the next setting is chosen, one function each; they have no clock and do no I/O. Their table: policies.py.

`reactive` and the rival `pareto`: Wu, Shang, Peng and Wolter, "A Reactive Batching Strategy of Apache Kafka for Reliable
Stream Processing in Real-time" (IEEE ISSRE 2020), which leaves the choice on the Pareto front open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gateways.batching.batcher import BatchSetting
from gateways.batching.model import BatchModel, Prediction

# Of the answers' times: what the deadline rule keeps free for all but this share of them.
_ANSWERED = 0.99
# Counts that are worth telling apart: each is about half as much again as the one before.
_COUNTS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1_000)
# Ages that are, as shares of what the limit leaves to the wait.
_ROOM_SHARES = (0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, slots=True)
class Choice:
    """A setting and why it was chosen.

    Attributes:
        rule: a word for what decided: largest, kept, front, deadline, unreachable.
        reason: one clause with the figures.
        prediction: what the setting is expected to do.
    """

    rule: str
    reason: str
    prediction: Prediction

    @property
    def setting(self) -> BatchSetting:
        return self.prediction.setting


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a policy chooses from.

    Attributes:
        configured: the setting of the options; its age is that of policies which choose a count alone.
        messages_max: the greatest count.
        gain_min: share by which the predicted timely throughput must rise before the policy `timely` changes a setting.
    """

    configured: BatchSetting
    messages_max: int
    gain_min: float = 0.05

    def __post_init__(self) -> None:
        if not self.configured.messages <= self.messages_max:
            raise ValueError(f"{self.configured.messages} messages a batch: {self.messages_max} at most")
        if not 0 <= self.gain_min < 1:
            raise ValueError(f"gain_min {self.gain_min}: from 0, below 1")

    @property
    def counts(self) -> tuple[int, ...]:
        """Return the counts to choose from, the greatest and the configured one among them."""
        fit = {count for count in _COUNTS if count <= self.messages_max}
        return tuple(sorted(fit | {self.messages_max, self.configured.messages}))


def smallest_limit_ms(model: BatchModel) -> float:
    """Return the smallest limit that the path itself leaves any room: what all but 1 % of the answers take."""
    return float(model.base.quantile_ms(_ANSWERED))


def deadline(model: BatchModel, _now: BatchSetting, bounds: Bounds) -> Choice:
    """Close batches by age alone, as late as the limit allows; where it allows none, at once."""
    answered_ms = smallest_limit_ms(model)
    room_ms = model.limit_ms - answered_ms
    if room_ms <= 0:
        return _unreachable(model, bounds, answered_ms)
    setting = BatchSetting(bounds.messages_max, room_ms)
    reason = f"the limit of {model.limit_ms:g} ms less the {answered_ms:.0f} ms in which 99 % are answered"
    return Choice("deadline", reason, model.predict([setting])[0])


def _unreachable(model: BatchModel, bounds: Bounds, answered_ms: float) -> Choice:
    """Send what gets most through: no setting keeps the limit, and waiting keeps it least."""
    reason = f"no setting keeps {model.limit_ms:g} ms: the path takes {answered_ms:.0f} ms, the smallest limit to ask for"
    settings = [BatchSetting(count, bounds.configured.wait_ms) for count in bounds.counts]
    return Choice("unreachable", reason, max(model.predict(settings), key=_timely_first))


def reactive(model: BatchModel, now: BatchSetting, bounds: Bounds) -> Choice:
    """Choose the count with the largest predicted timely throughput, at the configured age: the published strategy."""
    settings = [BatchSetting(count, bounds.configured.wait_ms) for count in bounds.counts]
    return _largest(model.predict(settings), now)


def timely(model: BatchModel, now: BatchSetting, bounds: Bounds) -> Choice:
    """Choose count and age by the largest predicted timely throughput; change for a gain that is worth it alone."""
    answered_ms = smallest_limit_ms(model)
    room_ms = model.limit_ms - answered_ms
    if room_ms <= 0:
        return _unreachable(model, bounds, answered_ms)
    ages_ms = [room_ms * share for share in _ROOM_SHARES]
    candidates = [BatchSetting(count, age_ms) for age_ms in ages_ms for count in bounds.counts if count > 1]
    kept, *others = model.predict([now, BatchSetting(1, 0.0), *candidates])
    largest = _largest(others, now)
    if largest.prediction.timely_per_s > (1 + bounds.gain_min) * kept.timely_per_s:
        return largest
    reason = (
        f"{kept.timely_per_s:.1f} timely messages/s; {_named(largest.setting)} would have"
        f" {largest.prediction.timely_per_s:.1f}, less than {bounds.gain_min:.0%} more"
    )
    return Choice("kept", reason, kept)


def pareto(model: BatchModel, now: BatchSetting, bounds: Bounds) -> Choice:
    """Choose from the Pareto front of mean latency and 1 / throughput: most throughput whose mean keeps the limit.

    Where no mean does, the least mean.
    """
    settings = [BatchSetting(count, bounds.configured.wait_ms) for count in bounds.counts]
    front = pareto_front(model.predict(settings))
    kept = [prediction for prediction in front if prediction.mean_ms <= model.limit_ms]
    chosen = max(kept, key=lambda p: p.through_per_s) if kept else min(front, key=lambda p: p.mean_ms)
    reason = f"{chosen.through_per_s:.1f} messages/s at a mean of {chosen.mean_ms:.0f} ms"
    return Choice("kept" if chosen.setting == now else "front", reason, chosen)


def pareto_front(predictions: Sequence[Prediction]) -> list[Prediction]:
    """Return those that no other one beats in mean latency or throughput without losing in the other; of equals one."""
    front: list[Prediction] = []
    for prediction in sorted(predictions, key=lambda p: (p.mean_ms, -p.through_per_s)):
        if not front or prediction.through_per_s > front[-1].through_per_s:
            front.append(prediction)
    return front


def _largest(predictions: Sequence[Prediction], now: BatchSetting) -> Choice:
    largest = max(predictions, key=_timely_first)
    reason = f"{largest.timely_per_s:.1f} timely messages/s of {largest.per_s:.1f} are the most"
    return Choice("kept" if largest.setting == now else "largest", reason, largest)


def _timely_first(prediction: Prediction) -> tuple[float, float, float]:
    """Of equally timely settings the one that gets more through, then the one that is faster."""
    return (round(prediction.timely_per_s, 6), round(prediction.through_per_s, 6), -prediction.mean_ms)


def _named(setting: BatchSetting) -> str:
    return f"{setting.messages} messages or {setting.wait_ms:.0f} ms"
