"""What a fleet that is generated and sent nowhere is asked: every option once, as `ivsim.options` has those of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from ivsim.option import Declared, Option, declared, refusal_of, shown, word_of
from ivsim.share import FleetShare, share_of
from schemas.errors import Refusal
from schemas.formats import FORMATS
from schemas.topics import MAX_FLEET
from simulator.scenario import Scenario

FLEET: Final = "Fleet"
PANELS: Final = (FLEET,)
MAX_SHARES: Final = 10_000
# 2024-01-01T00:00:00Z; any other would do as well, if only it is the same each time.
START_AT_MS: Final = 1_704_067_200_000


class FleetOptions(BaseModel):
    """One fleet, or one share of it; units are in the names."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    vehicles: Annotated[int, Field(ge=1, le=MAX_FLEET), Option("How many vehicles.", FLEET)] = 20
    interval_s: Annotated[
        float,
        Field(gt=0, le=86_400),
        Option("Time between two messages of a vehicle.", FLEET, "s", word="interval"),
    ] = 1.0
    duration_s: Annotated[
        float,
        Field(gt=0, le=7 * 86_400),
        Option("Time in which messages are due.", FLEET, "s", word="duration"),
    ] = 60.0
    format: Annotated[str, Option("Format of the payload.", FLEET, choices=lambda: FORMATS)] = "protobuf"
    seed: Annotated[
        int,
        Field(ge=0, lt=2**63),
        Option("The same seed gives the same messages as in a run.", FLEET),
    ] = 1
    start_at_ms: Annotated[
        int,
        Field(ge=0, lt=2**42),
        Option("Unix time of offset 0, from which the payloads' stamps count.", FLEET, "ms"),
    ] = START_AT_MS
    share: Annotated[
        str,
        Option("K/N: the K-th of N shares of the vehicles, such as 2/4; all N are the whole fleet.", FLEET),
    ] = "1/1"

    @field_validator("format")
    @classmethod
    def _format(cls, value: str) -> str:
        if value not in FORMATS:
            raise ValueError(f"{shown(value)}: allowed are {', '.join(FORMATS)}")
        return value

    @field_validator("share")
    @classmethod
    def _share(cls, value: str) -> str:
        return str(share_of(value, MAX_SHARES))

    @property
    def place(self) -> FleetShare:
        """Return which share of the fleet it is."""
        return share_of(self.share, MAX_SHARES)

    @property
    def scenario(self) -> Scenario:
        """Return the whole fleet."""
        return Scenario(
            vehicles=self.vehicles,
            interval_s=self.interval_s,
            duration_s=self.duration_s,
            format=self.format,
            seed=self.seed,
        )


OPTIONS: Final[Mapping[str, Declared]] = declared(FleetOptions)


def fleet_options(given: Mapping[str, Any]) -> FleetOptions:
    """Return checked options; Refusal names the one that cannot be."""

    def name(field: str) -> str:
        return word_of(field, OPTIONS)

    try:
        options = FleetOptions(**given)
    except ValidationError as error:
        raise Refusal(refusal_of(error, OPTIONS, name)) from None
    if options.place.total > options.vehicles:
        raise Refusal(
            f"{name('share')} {options.share}: each needs a vehicle at least: {name('vehicles')} is {options.vehicles}"
        )
    return options
