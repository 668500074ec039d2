"""The decisions of a gateway's controller as a run keeps them: a line of JSON each, written when it is made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from gateways.batching.controller import Decision
from gateways.batching.model import Prediction

_PREDICTED = ("late_ratio", "lost_ratio", "per_s", "mean_ms", "timely_per_s")


def decision_row(decision: Decision, decided_at_ns: int) -> dict[str, Any]:
    """Return a decision without structure: what is not known is None.

    `observed_` is of the period that ended, `expected_` what was predicted of it when it began, `predicted_` is of the
    period that begins; `answer_ms` is the median.
    """
    seen, link = decision.observation, decision.observation.link
    return {
        "decided_at_ns": decided_at_ns,
        "messages_before": decision.before.messages,
        "wait_ms_before": decision.before.wait_ms,
        "messages": decision.setting.messages,
        "wait_ms": decision.setting.wait_ms,
        "rule": decision.rule,
        "reason": decision.reason,
        "observed_per_s": seen.per_s,
        "observed_late_ratio": seen.late_ratio,
        "held_back": seen.held_back,
        "answers": len(seen.answers_ms),
        "answer_ms": float(np.median(seen.answers_ms)) if seen.answers_ms else None,
        "request_ms": link.request_ms,
        "message_bytes": link.message_bytes,
        "request_bytes": link.request_bytes,
        "rtt_ms": link.rtt_ms,
        "loss_ratio": link.loss_ratio,
        "segment_bytes": link.segment_bytes,
        "congestion_control": link.congestion_control,
        **_flat("expected", decision.expected),
        **_flat("predicted", decision.prediction),
    }


def _flat(prefix: str, prediction: Prediction | None) -> dict[str, float | None]:
    return {
        f"{prefix}_{name}": None if prediction is None else getattr(prediction, name) for name in _PREDICTED
    }


class DecisionLog:
    """Appends to a file, so that a gateway which is killed has written what it decided."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")

    def append(self, decision: Decision, decided_at_ns: int) -> None:
        self._file.write(json.dumps(decision_row(decision, decided_at_ns), allow_nan=False) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()
