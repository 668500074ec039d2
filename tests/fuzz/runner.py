"""Gives a surface its inputs, good ones in between, and looks at speed and memory; knows no surface."""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass, field

from tests.fuzz.surface import Surface

SAMPLES = 20


class BrokenSurfaceError(AssertionError):
    """An input had an effect that no input may have; the message has the input."""


@dataclass
class Result:
    """What a surface did with its inputs; `resident_bytes` are samples over the run, the first before it."""

    inputs: int = 0
    good: int = 0
    seconds: float = 0.0
    outcomes: dict[str, int] = field(default_factory=dict)
    resident_bytes: list[int] = field(default_factory=list)

    @property
    def grown_bytes(self) -> int:
        """How much the process has grown in the second half."""
        half = self.resident_bytes[len(self.resident_bytes) // 2 :]
        return half[-1] - half[0]


async def run(surface: Surface, count: int) -> Result:
    """Give `count` malformed inputs; BrokenSurfaceError with the input that a surface did not stand."""
    result = Result()
    sample_every = max(1, count // SAMPLES)
    async with surface:
        began_s = time.perf_counter()
        for number in range(count):
            if number % sample_every == 0:
                gc.collect()
                result.resident_bytes.append(surface.resident_bytes())
            try:
                await surface.hostile()
                if number % surface.good_every == 0:
                    await surface.good()
                    result.good += 1
            except Exception as error:
                raise BrokenSurfaceError(f"input {number}: {surface.last!r}: {error!r}") from error
        gc.collect()
        result.resident_bytes.append(surface.resident_bytes())
        result.inputs, result.seconds = count, time.perf_counter() - began_s
    result.outcomes = dict(surface.outcomes.most_common())
    return result
