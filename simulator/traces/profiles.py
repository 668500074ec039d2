"""The fitted parameters of `profiles.json` as typed records; figures only, no drawing of numbers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schemas.errors import Refusal

_FILE = Path(__file__).parent / "profiles.json"


@dataclass(frozen=True)
class Profile:
    """One series that can be generated.

    A copula profile has a quantile table (`quantiles` -> `table`, kbit/s or ms), `p0` (share of zeros),
    weights and time constants (s) of its AR(1) parts and the variance of its white part; a normal
    profile has `mean_ms` and `sd_ms` alone.
    """

    name: str
    column: str
    dt_s: int
    note: str
    rate_meaning: str | None = None
    quantiles: tuple[float, ...] = ()
    table: tuple[float, ...] = ()
    p0: float = 0.0
    w: tuple[float, ...] = ()
    tau_s: tuple[float, ...] = ()
    white: float = 0.0
    mean_ms: float | None = None
    sd_ms: float | None = None
    loss_ratio: float | None = None
    loss_burst_mean_s: float | None = None


def _profile(entry: dict[str, Any], document: dict[str, Any]) -> Profile:
    fields: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()
    }
    if "table" in fields:
        kind = "rtt" if entry["column"] == "rtt_ms" else "rate"
        fields["quantiles"] = tuple(document[f"{kind}_quantiles"])
    return Profile(**fields)


def _load() -> dict[str, Profile]:
    document = json.loads(_FILE.read_text(encoding="utf-8"))
    return {entry["name"]: _profile(entry, document) for entry in document["profiles"]}


PROFILES: dict[str, Profile] = _load()


def profile_named(name: str) -> Profile:
    """The profile of that name.

    Raises:
        Refusal: no such profile; the line lists the names there are.
    """
    if name not in PROFILES:
        raise Refusal(f"profile {name!r}: must be one of {', '.join(PROFILES)}")
    return PROFILES[name]
