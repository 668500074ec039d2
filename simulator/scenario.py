"""What a fleet is asked to do; values only, checked before anything starts."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from itertools import accumulate
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator

from schemas.config import Strict
from schemas.formats import FORMATS
from schemas.formats.base import Format
from schemas.formats.padded import MAX_BYTES, MIN_BYTES, Padded
from schemas.topics import MAX_FLEET

Share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0.0, le=31_536_000.0, allow_inf_nan=False)]


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


class Stage(Strict):
    """A part of a run in which so many vehicles send: a constant number, or one that grows or shrinks evenly.

    Attributes:
        duration_s: of the stage.
        begin_vehicles, end_vehicles: how many send at its begin and, as a limit, at its end.
    """

    duration_s: Seconds
    begin_vehicles: int = Field(ge=0, le=MAX_FLEET)
    end_vehicles: int = Field(ge=0, le=MAX_FLEET)

    @property
    def duration_ns(self) -> int:
        return round(self.duration_s * 1e9)


class Scenario(Strict):
    """One fleet: how many vehicles, how often each sends, for how long, in which format.

    Attributes:
        stages: one behind another, how many of the vehicles send; those with the lowest numbers do. What a vehicle would
            send while it does not is not due, and has no sequence. Without any, all vehicles send throughout.
        message_bytes: payloads of this size instead of the format's: `small` with filler behind it.
        alike_every: vehicle k drives and sends as vehicle (k - 1) % alike_every + 1 does, under its own name,
            so that configurations side by side have the same messages at the same offsets.
        vehicle_log: path of recorded drives, of which each vehicle has one in turn; None: vehicles make up their own.
        vehicle_mapping: path of what the log's columns are.
        traces: names of bundled traces, or paths, that the vehicles' links replay: a vehicle is where its trace was
            recorded, if that says so. None of them where vehicles have a log.
        trace_offsets: whether each vehicle enters its trace at its own second.
    """

    vehicles: int = Field(default=20, ge=1, le=MAX_FLEET)
    interval_s: Seconds = 1.0
    duration_s: Seconds = 60.0
    format: str = "protobuf"
    seed: int = Field(default=1, ge=0, lt=2**63)
    epoch: int = Field(default=1, ge=1, lt=2**31)
    mix: VariantMix = VariantMix()
    message_bytes: int | None = Field(default=None, ge=MIN_BYTES, le=MAX_BYTES)
    alike_every: int | None = Field(default=None, ge=1, le=MAX_FLEET)
    stages: tuple[Stage, ...] = ()
    vehicle_log: str | None = None
    vehicle_mapping: str | None = None
    traces: tuple[str, ...] = ()
    trace_offsets: bool = True

    @model_validator(mode="after")
    def _stages_fit(self) -> Scenario:
        if not self.stages:
            return self
        if (total_ns := sum(stage.duration_ns for stage in self.stages)) != self.duration_ns:
            raise ValueError(f"the stages last {total_ns / 1e9:g} s, and duration_s is {self.duration_s:g}")
        if (most := max(max(s.begin_vehicles, s.end_vehicles) for s in self.stages)) > self.vehicles:
            raise ValueError(f"a stage has {most} vehicles, and vehicles is {self.vehicles}")
        return self

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

    @cached_property
    def _stage_ends_ns(self) -> list[int]:
        return list(accumulate(stage.duration_ns for stage in self.stages))

    def sends(self, vehicle: int, offset_ns: int) -> bool:
        """Say whether a vehicle sends at this offset, at which it would be due; in whole numbers, so that all agree."""
        if not self.stages:
            return True
        number = bisect_right(self._stage_ends_ns, offset_ns)
        if number == len(self.stages):
            return False
        stage = self.stages[number]
        length_ns = stage.duration_ns
        past_ns = offset_ns - self._stage_ends_ns[number] + length_ns
        growth = stage.end_vehicles - stage.begin_vehicles
        return vehicle * length_ns <= stage.begin_vehicles * length_ns + growth * past_ns

    def sending(self, vehicles: NDArray[np.int64], offsets_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say the same of many vehicles and offsets at once."""
        if not self.stages:
            return np.ones(offsets_ns.shape, np.bool_)
        ends_ns = np.array(self._stage_ends_ns, np.int64)
        numbers = np.searchsorted(ends_ns, offsets_ns, side="right")
        stage = np.minimum(numbers, len(self.stages) - 1)
        lengths_ns = np.array([one.duration_ns for one in self.stages], np.int64)
        # Products of more than 63 bits are Python's own numbers.
        wide = max(self.vehicles, 1) * int(lengths_ns.max()) >= 1 << 61
        kind = np.dtype(object if wide else np.int64)
        begins, ends = (
            np.array([getattr(one, name) for one in self.stages], np.int64).astype(kind)
            for name in ("begin_vehicles", "end_vehicles")
        )
        past_ns = (offsets_ns - (ends_ns - lengths_ns)[stage]).astype(kind)
        lengths = lengths_ns.astype(kind)[stage]
        reached = (
            vehicles.astype(kind) * lengths <= begins[stage] * lengths + (ends - begins)[stage] * past_ns
        )
        found: NDArray[np.bool_] = (numbers < len(self.stages)) & reached.astype(np.bool_)
        return found

    def model_of(self, vehicle: int) -> int:
        """Return the number whose random streams this vehicle uses."""
        return vehicle if self.alike_every is None else (vehicle - 1) % self.alike_every + 1
