"""What a gateway is told of its batches."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gateways.batching.batcher import BatchSetting
from gateways.batching.policies import POLICIES
from gateways.producer import BATCH_MESSAGES
from schemas.config import Strict


class Batching(Strict):
    """Batches that the gateway makes itself, of each partition.

    Attributes:
        messages: closes a batch, by its count.
        wait_ms: closes it too, by the age of its oldest message.
        policy: a name of POLICIES, by which both are chosen anew each period.
        limit_ms: of the latency, from taking a message to Kafka's confirmation; a policy that chooses needs it.
        period_s: between two choices.
        decision_log: where to write the choices; None writes none.
    """

    messages: Annotated[int, Field(ge=1, le=BATCH_MESSAGES)]
    wait_ms: Annotated[float, Field(ge=0, le=60_000)]
    policy: str = "fixed"
    limit_ms: Annotated[float, Field(gt=0)] | None = None
    period_s: Annotated[float, Field(gt=0)] = 10.0
    decision_log: str | None = None

    @property
    def chooses(self) -> bool:
        """Whether the setting is chosen anew, and is not that of the beginning throughout."""
        return POLICIES[self.policy].rule is not None

    def setting(self) -> BatchSetting:
        return BatchSetting(self.messages, self.wait_ms)
