"""What the ledger of one run is told, and what of it the run's twin is told, too; it opens nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

# The flag by which the process of a ledger waits for its owner's command, and that command.
WHEN_TOLD: Final = "--when-told"
BUILD: Final = "build"
Topology = Literal["gateway", "edge", "ingest", "echo", "peer"]


class RunTerms(BaseModel):
    """What a run's twin and its ledger are told alike; unknown keys and values out of range are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    run_dir: str
    topology: Topology = "gateway"
    more_formats: tuple[str, ...] = Field(
        default=(), strict=False, description="formats of plug-ins that this run's records may have"
    )
    max_payload_bytes: int = Field(default=1_048_576, ge=1)
    future_tolerance_s: float = Field(default=5.0, ge=0)

    @property
    def bridged(self) -> bool:
        """Whether gateways take the messages in."""
        return self.twins or self.topology == "ingest"

    @property
    def twins(self) -> bool:
        """Whether messages get into Kafka, and twins are kept."""
        return self.topology in {"gateway", "edge"}

    def run_file(self, name: str) -> Path:
        """Return the path of a file in the run directory."""
        return Path(self.run_dir) / name


class LedgerConfig(RunTerms):
    """Settings of a ledger."""

    loss_timeout_s: float = Field(default=30.0, gt=0, le=86_400)
