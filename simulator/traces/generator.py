"""Series drawn from a fitted profile, the same on every machine; opens no file and reads no clock.

Draws: 64-bit words of PCG64 seeded with SeedSequence((seed, stream)), both frozen by NumPy's compatibility
policy; a word `w` becomes the uniform ((w >> 11) + 0.5) / 2**53 and a normal by the inverse CDF. The
distributions of `numpy.random.Generator` may change between releases and are not used. What is left to the
machine, the last bits of log, exp and erfc, disappears in the rounding to one decimal at the end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from schemas.errors import Refusal
from simulator.traces.model import Floats, Trace, each_way
from simulator.traces.normal import normal_cdf, normal_quantile
from simulator.traces.profiles import Profile

GENERATOR_VERSION = 2
LICENCE = "CC0-1.0"
DECIMALS = 1
LOSS_SLOT_S = 0.2
_STREAMS = {"uplink_kbps": 1, "downlink_kbps": 2, "rtt_ms": 3, "loss_ratio": 4}


def uniforms(seed: int, stream: int, count: int) -> Floats:
    """`count` uniforms inside (0, 1), never 0 nor 1."""
    words = np.random.PCG64(np.random.SeedSequence((seed, stream))).random_raw(count)
    return ((words >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53


def latent(profile: Profile, seed: int, steps: int) -> Floats:
    """The Gaussian series z of a copula profile: mean 0, variance 1, stationary from the first step."""
    parts = len(profile.w)
    draws = normal_quantile(uniforms(seed, _STREAMS[profile.column], steps * (parts + 1)))
    noise = draws.reshape(steps, parts + 1)
    total = math.sqrt(profile.white) * noise[:, parts]
    for k, (weight, tau_s) in enumerate(zip(profile.w, profile.tau_s, strict=True)):
        total = total + math.sqrt(weight) * _ar1(noise[:, k], math.exp(-profile.dt_s / tau_s))
    return total


def _ar1(noise: Floats, rho: float) -> Floats:
    innovation = math.sqrt(1.0 - rho * rho)
    values = noise.tolist()
    state = values[0]
    for i in range(1, len(values)):
        state = rho * state + innovation * values[i]
        values[i] = state
    return np.asarray(values)


def series(profile: Profile, seed: int, steps: int) -> Floats:
    """`steps` values of the profile's column (kbit/s or ms), rounded to one decimal."""
    if profile.mean_ms is not None and profile.sd_ms is not None:
        draws = normal_quantile(uniforms(seed, _STREAMS[profile.column], steps))
        return _rounded(np.maximum(profile.mean_ms + profile.sd_ms * draws, 0.0))
    u = normal_cdf(latent(profile, seed, steps))
    within = (u - profile.p0) / (1.0 - profile.p0)
    values = np.exp(np.interp(within, profile.quantiles, np.log(profile.table)))
    return _rounded(np.where(u <= profile.p0, 0.0, values))


def _rounded(values: Floats) -> Floats:
    return np.asarray(np.round(values, DECIMALS), dtype=np.float64)


def loss_series(profile: Profile, seed: int, steps: int) -> Floats:
    """Share of each step's round trips that fall into a loss burst: a two-state chain on slots of 0.2 s (the pings' pace).

    Bursts are geometric with the profile's mean length; the long-run share is its `loss_ratio`.
    """
    ratio, burst_s = profile.loss_ratio, profile.loss_burst_mean_s
    if ratio is None or burst_s is None:
        raise Refusal(f"profile {profile.name}: knows no loss")
    leave = LOSS_SLOT_S / burst_s
    enter = leave * ratio / (1.0 - ratio)
    per_step = round(profile.dt_s / LOSS_SLOT_S)
    draws = uniforms(seed, _STREAMS["loss_ratio"], steps * per_step).tolist()
    lost = draws[0] < ratio
    slots = [lost]
    for draw in draws[1:]:
        lost = draw >= leave if lost else draw < enter
        slots.append(lost)
    shares = np.asarray(slots, dtype=np.float64).reshape(steps, per_step).mean(axis=1)
    return np.asarray(shares, dtype=np.float64)


def generate(
    profiles: Sequence[Profile],
    seed: int,
    duration_s: int,
    *,
    loss: bool = False,
    outages: Sequence[tuple[int, int]] = (),
) -> Trace:
    """One trace with a column per profile.

    `loss` adds loss_ratio, each direction's, from the profile's loss of round trips; `outages`, (start_s, length_s)
    each, set the rates to 0.

    Raises:
        Refusal: two profiles for one column, different steps, a bad duration, seed or outage.
    """
    _check(profiles, seed, duration_s, outages)
    dt_s = profiles[0].dt_s
    steps = duration_s // dt_s
    time_s = np.arange(steps, dtype=np.float64) * dt_s
    columns = {profile.column: series(profile, seed, steps) for profile in profiles}
    for start_s, length_s in outages:
        inside = (time_s >= start_s) & (time_s < start_s + length_s)
        for column in columns.keys() & {"uplink_kbps", "downlink_kbps"}:
            columns[column][inside] = 0.0
    if loss:
        columns["loss_ratio"] = np.round(each_way(loss_series(_lossy(profiles), seed, steps)), 6)
    header = _header(profiles, seed, duration_s, loss=loss, outages=outages)
    return Trace(time_s, header=header, last_step_s=float(dt_s), source="generated", **columns)


def _lossy(profiles: Sequence[Profile]) -> Profile:
    for profile in profiles:
        if profile.loss_ratio is not None:
            return profile
    raise Refusal("loss: none of the chosen profiles knows a loss")


def _check(
    profiles: Sequence[Profile], seed: int, duration_s: int, outages: Sequence[tuple[int, int]]
) -> None:
    if not profiles:
        raise Refusal("profile: at least one is needed")
    if len({p.column for p in profiles}) < len(profiles):
        raise Refusal(f"profile: two for one column: {', '.join(f'{p.name} ({p.column})' for p in profiles)}")
    if len({p.dt_s for p in profiles}) > 1:
        raise Refusal(f"profile: steps differ: {', '.join(f'{p.name} ({p.dt_s} s)' for p in profiles)}")
    if seed < 0:
        raise Refusal(f"seed: {seed}, must be 0 or more")
    if duration_s < profiles[0].dt_s or duration_s % profiles[0].dt_s:
        raise Refusal(
            f"duration: {duration_s} s, must be above 0 and a multiple of the step of {profiles[0].dt_s} s"
        )
    for start_s, length_s in outages:
        if start_s < 0 or length_s < 1 or start_s + length_s > duration_s:
            raise Refusal(f"outage: {start_s}:{length_s} does not lie inside 0 to {duration_s} s")


def _header(
    profiles: Sequence[Profile],
    seed: int,
    duration_s: int,
    *,
    loss: bool,
    outages: Sequence[tuple[int, int]],
) -> dict[str, str]:
    options = [f"--profile {p.name}" for p in profiles] + [f"--seed {seed}", f"--duration {duration_s}"]
    options += ["--loss"] if loss else []
    options += [f"--outage {start_s}:{length_s}" for start_s, length_s in outages]
    header = {
        "origin": f"generated by ivsim (generator {GENERATOR_VERSION}), no measured line in it",
        "licence": LICENCE,
        "command": " ".join(["ivsim trace generate", *options]),
        "seed": str(seed),
    }
    meanings = {p.rate_meaning for p in profiles if p.rate_meaning}
    if len(meanings) == 1:
        header["rate_meaning"] = meanings.pop()
    elif meanings:
        header |= {f"rate_meaning_{p.column}": p.rate_meaning for p in profiles if p.rate_meaning}
    return header | {f"profile_{p.column}": f"{p.name}: {p.note}" for p in profiles}
