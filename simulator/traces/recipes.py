"""The traces that come with ivsim: which, how each was made, where they lie; none holds a measured line."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from schemas.errors import Refusal
from simulator.traces.files import read_trace
from simulator.traces.generator import generate
from simulator.traces.model import Trace
from simulator.traces.profiles import profile_named


@dataclass(frozen=True)
class Recipe:
    """Everything `ivsim trace generate` needs to make one bundled file again, byte for byte.

    Half an hour is short against time constants of minutes: each seed was picked among some 1,500 so that its
    trace looks like the profile (quantiles, outage share, for RTT the tail), the default's also so that its
    outages stay short (3 s) and one message a second gets through all over it.
    """

    profiles: tuple[str, ...]
    seed: int
    duration_s: int
    about: str
    loss: bool = False
    outages: tuple[tuple[int, int], ...] = ()

    def make(self) -> Trace:
        profiles = [profile_named(name) for name in self.profiles]
        return generate(profiles, self.seed, self.duration_s, loss=self.loss, outages=self.outages)


DEFAULT = "car-2024"

BUNDLED: dict[str, Recipe] = {
    DEFAULT: Recipe(
        ("us-2024-car-ul-udp", "us-2023-car-rtt"),
        seed=986,
        duration_s=600,
        about="true uplink capacity 2024 and driving RTT, weak seconds included",
    ),
    "lte-car-uplink-as-logged": Recipe(
        ("ie-2018-car-ul-as-logged",),
        seed=1254,
        duration_s=1800,
        about="LTE car uplink as logged while downloading (the paper's kind), not capacity",
    ),
    "paper-lte-car": Recipe(
        ("ie-2018-car-ul-as-logged", "huang-2012-lte"),
        seed=1254,
        duration_s=1800,
        about="the paper's link: uplink as logged with the normal RTT (69.5, 5.6) ms",
    ),
    "car-uplink-2012": Recipe(
        ("us-2012-car-ul-pooled3",),
        seed=453,
        duration_s=900,
        about="true uplink capacity, early LTE, UMTS and EVDO",
    ),
    "car-uplink-2024": Recipe(
        ("us-2024-car-ul-udp",),
        seed=970,
        duration_s=1800,
        about="true uplink capacity, LTE and 5G, long outages included",
    ),
    "car-downlink-2018": Recipe(
        ("ie-2018-car-dl",),
        seed=351,
        duration_s=1800,
        about="LTE car downlink as logged during downloads",
    ),
    "car-rtt-2023": Recipe(
        ("us-2023-car-rtt",),
        seed=60,
        duration_s=1800,
        about="driving RTT with its heavy tail, and loss in bursts",
        loss=True,
    ),
    "paper-rtt": Recipe(
        ("huang-2012-lte",),
        seed=2012,
        duration_s=600,
        about="the paper's RTT: normal (69.5, 5.6) ms, independent from second to second",
    ),
    "tunnel": Recipe(
        ("us-2012-car-ul-pooled3", "us-2023-car-rtt"),
        seed=77,
        duration_s=120,
        about="an outage example: 2012 uplink and driving RTT, no rate at all from 30 s to 50 s",
        outages=((30, 20),),
    ),
}


def bundled_folder() -> Path:
    """Inside a wheel the files lie beside this module, in the source tree in `traces/`."""
    installed = Path(__file__).parent / "bundled"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "traces"


def bundled_path(name: str) -> Path:
    """Where a bundled trace lies.

    Raises:
        Refusal: no such name (the line lists them), or the installation lost the file.
    """
    if name not in BUNDLED:
        raise Refusal(f"trace {name!r}: no bundled trace of that name, there are {', '.join(BUNDLED)}")
    path = bundled_folder() / f"{name}.csv"
    if not path.is_file():
        raise Refusal(f"{path}: the bundled trace {name} is missing from this installation")
    return path


def bundled(name: str = DEFAULT) -> Trace:
    """A bundled trace, read from its file; once in a process, since the options of each run are checked against it."""
    return _read_once(bundled_path(name))


@cache
def _read_once(path: Path) -> Trace:
    trace = read_trace(path)
    for values in (trace.time_s, *trace.all_columns().values()):
        values.flags.writeable = False
    return trace


def trace_named(name: str) -> Trace:
    """A bundled trace by its name, any other by its path; Refusal names file and line."""
    return bundled(name) if name in BUNDLED else read_trace(name)
