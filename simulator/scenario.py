"""What a fleet is asked to do; values only, checked before anything starts."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from schemas.formats import FORMATS
from schemas.formats.base import Format
from schemas.formats.padded import MAX_BYTES, MIN_BYTES, Padded
from schemas.topics import MAX_VEHICLES

Share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0.0, le=31_536_000.0, allow_inf_nan=False)]


class Strict(BaseModel):
    """Unknown keys are errors and values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class VariantMix(Strict):
    """Shares of the four kinds of vehicle in the fleet; they add up to 1."""

    rigid: Share = 0.38
    trailer: Share = 0.37
    hybrid: Share = 0.23
    stub: Share = 0.02

    @model_validator(mode="after")
    def _adds_up(self) -> VariantMix:
        total = self.rigid + self.trailer + self.hybrid + self.stub
        if abs(total - 1.0) > 1e-9:
            raise ValueError(f"rigid + trailer + hybrid + stub = {total:g}: the shares must add up to 1")
        return self


class Scenario(Strict):
    """One fleet: how many vehicles, how often each sends, for how long, in which format.

    Attributes:
        message_bytes: payloads of this size instead of the format's: `small` with filler behind it.
        alike_every: vehicle k drives and sends as vehicle (k - 1) % alike_every + 1 does, under its own name,
            so that configurations side by side have the same messages at the same offsets.
    """

    vehicles: int = Field(default=20, ge=1, le=MAX_VEHICLES)
    interval_s: Seconds = 1.0
    duration_s: Seconds = 60.0
    format: str = "protobuf"
    seed: int = Field(default=1, ge=0, lt=2**63)
    epoch: int = Field(default=1, ge=1, lt=2**31)
    mix: VariantMix = VariantMix()
    message_bytes: int | None = Field(default=None, ge=MIN_BYTES, le=MAX_BYTES)
    alike_every: int | None = Field(default=None, ge=1, le=MAX_VEHICLES)

    @field_validator("format")
    @classmethod
    def _known_format(cls, name: str) -> str:
        if name not in FORMATS:
            raise ValueError(f"{name!r}: allowed are {', '.join(FORMATS)}")
        return name

    @property
    def interval_ns(self) -> int:
        return round(self.interval_s * 1e9)

    @property
    def duration_ns(self) -> int:
        return round(self.duration_s * 1e9)

    @property
    def payload_format(self) -> Format:
        """Return what encodes and peeks this fleet's payloads."""
        return FORMATS[self.format] if self.message_bytes is None else Padded(self.message_bytes)

    def model_of(self, vehicle: int) -> int:
        """Return the number whose random streams this vehicle uses."""
        return vehicle if self.alike_every is None else (vehicle - 1) % self.alike_every + 1
