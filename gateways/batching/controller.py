"""Chooses the setting of the batches anew each period; has no clock and does no I/O."""

from __future__ import annotations

from dataclasses import dataclass

from gateways.batching import rules
from gateways.batching.batcher import BatchSetting
from gateways.batching.model import BatchModel, Prediction
from gateways.batching.observation import Observation
from gateways.batching.policies import POLICIES, Policy
from gateways.batching.rules import Bounds, Choice


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """What a controller is told. ValueError names what no controller can obey.

    Attributes:
        policy: a name of POLICIES.
        limit_ms: of the latency.
        period_s: between two decisions.
        bounds: what is chosen from.
        partitions: of the topic.
        drift_max: difference of predicted and measured late shares beyond which a period counts as drifted.
        drift_periods: so many drifted ones in a row, and the deadline rule decides; so many others, and the policy does.
    """

    policy: str
    limit_ms: float
    period_s: float
    bounds: Bounds
    partitions: int
    drift_max: float = 0.2
    drift_periods: int = 2

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise ValueError(f"policy {self.policy!r}: allowed {', '.join(POLICIES)}")
        if not self.limit_ms > 0:
            raise ValueError(f"limit_ms {self.limit_ms}: must be above 0")
        longest_ms = max(self.limit_ms, self.bounds.configured.wait_ms)
        if self.row.rule is not None and self.period_s * 1e3 <= longest_ms:
            raise ValueError(
                f"period_s {self.period_s}: shorter than a batch, which may wait {longest_ms:g} ms; it must be longer"
            )
        if self.partitions < 1:
            raise ValueError(f"partitions {self.partitions}: 1 at least")
        if not 0 < self.drift_max <= 1 or self.drift_periods < 1:
            raise ValueError(
                f"drift_max {self.drift_max}, drift_periods {self.drift_periods}: above 0 to 1, and 1 at least"
            )

    @property
    def row(self) -> Policy:
        return POLICIES[self.policy]


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided at the end of a period, and on what grounds.

    Attributes:
        at_s: the caller's clock.
        before, setting: in force until then, and from then on.
        rule: what decided: configured, blind, drifted, or a rule of Choice.
        reason: one clause with the figures.
        observation: the period that has ended.
        expected: what was predicted of that period when it began; None where nothing was.
        prediction: of the period that begins; None where nothing can be said.
    """

    at_s: float
    before: BatchSetting
    setting: BatchSetting
    rule: str
    reason: str
    observation: Observation
    expected: Prediction | None
    prediction: Prediction | None

    @property
    def drift(self) -> float | None:
        """Return by how much the share that was late is above the predicted one; None where either is unknown."""
        if self.expected is None or self.observation.late_ratio is None:
            return None
        return self.observation.late_ratio - self.expected.late_ratio


class Controller:
    """One gateway's: give it each period as it ends, and make batches by the setting of its decision."""

    def __init__(self, settings: ControllerSettings) -> None:
        self._settings = settings
        self._setting = settings.bounds.configured
        self._expected: Prediction | None = None
        self._fallen_back = False
        # Periods in a row that speak for the other state.
        self._against = 0

    @property
    def setting(self) -> BatchSetting:
        return self._setting

    def decide(self, observation: Observation, at_s: float) -> Decision:
        """Return the setting for the period that begins."""
        expected, before = self._expected, self._setting
        self._watch(observation, expected)
        choice = self._choice(observation)
        if isinstance(choice, Choice):
            rule, reason, prediction = choice.rule, choice.reason, choice.prediction
            self._setting = choice.setting
        else:
            (rule, reason), prediction = choice, None
        self._expected = prediction
        return Decision(at_s, before, self._setting, rule, reason, observation, expected, prediction)

    def _choice(self, observation: Observation) -> Choice | tuple[str, str]:
        """Return what the policy or its fall-back chooses, or (rule, reason) where nothing can be chosen."""
        settings = self._settings
        name = settings.row.rule
        if name is None:
            return "configured", "the setting is fixed"
        model = BatchModel.of(
            observation, settings.limit_ms, settings.partitions, settings.bounds.messages_max
        )
        if model is None:
            return "blind", "nothing was taken, or nothing confirmed, in the period"
        if not self._fallen_back:
            chosen: Choice = getattr(rules, name)(model, self._setting, settings.bounds)
            return chosen
        choice = rules.deadline(model, self._setting, settings.bounds)
        if choice.rule == "unreachable":
            return choice
        reason = f"the share of late messages was off by more than {settings.drift_max:g}: {choice.reason}"
        return Choice("drifted", reason, choice.prediction)

    def _watch(self, observation: Observation, expected: Prediction | None) -> None:
        """Fall back, or return, after enough periods in a row; one of which nothing is known ends no row."""
        settings = self._settings
        if not settings.row.falls_back or expected is None or observation.late_ratio is None:
            return
        drifted = abs(observation.late_ratio - expected.late_ratio) > settings.drift_max
        self._against = self._against + 1 if drifted != self._fallen_back else 0
        if self._against == settings.drift_periods:
            self._fallen_back, self._against = drifted, 0
