"""The twenty claims of the thesis, and the rule by which each is decided; K is Kafka, P Pulsar, R Redis Streams.

Where two are claimed to be the same, their ratio lies within 1/1.1 and 1.1 with its whole interval: two one-sided tests.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from ivsim.papers.ingestion_platforms.cells import (
    BYTES,
    HIGH,
    KAFKA,
    KB1,
    KB65,
    KB600,
    LABELS,
    LOADS,
    LOW,
    MEAN,
    MEGABYTES,
    PULSAR,
    REDIS,
    SIZES,
    SPEED,
    TAIL,
    Cells,
    Load,
)
from ivsim.papers.parts import (
    ANY,
    DIFFERENCE,
    Figures,
    Pair,
    Part,
    differences,
    each_and_mean,
    found_of,
    ratios,
)
from ivsim.study.claims import NOT_COMPARABLE, Claim, Finding

SAME: Final = (1 / 1.1, 1.1)
ABOVE: Final = (1.0, ANY)
BELOW: Final = (0.0, 1.0)
# "Over 3 times" of claims 12 and 16, "4 to 5 times" of claim 14 (its table: 5.0 and 3.6), "over 2.5 times" of claim 4.
THREE: Final = (3.0, ANY)
FOUR: Final = (3.5, ANY)
MOST: Final = (2.5, ANY)
# What claims 11 and 20 call small, ms.
SMALL_MS: Final = 1.0
ALL_MS: Final = 6.0
BEST_MS: Final = 3.0
# What "hardly depends" allows, largest over smallest.
HARDLY: Final = 1.2

Bounds = tuple[float, float]


def _size(record: str) -> str:
    return f"{BYTES[record] // 1_000} kB"


def _each(pairs: Sequence[Pair], what: str, bounds: Bounds) -> list[Part]:
    return each_and_mean(pairs, f"ratios, {what}", *bounds)


def _speeds(cells: Cells, record: str, first: str, second: str) -> Pair:
    """Return the first platform's capacity over the second's."""
    above, below = (cells.capacity(SPEED, record, one) for one in (first, second))
    return Pair(f"{_size(record)} {LABELS[first]}/{LABELS[second]}", above, below)


def _delays(cells: Cells, load: Load, first: str, second: str, metric: str = MEAN) -> Pair:
    """Return the first platform's latency over the second's."""
    above, below = (cells.load(metric, load, one) for one in (first, second))
    return Pair(f"{load.text} {LABELS[first]}/{LABELS[second]}", above, below)


def _change(cells: Cells, platform: str, later: Load, earlier: Load) -> Pair:
    """Return a platform's latency at one load over that at another."""
    above, below = (cells.load(MEAN, load, platform) for load in (later, earlier))
    return Pair(f"{LABELS[platform]} {later.text} over {earlier.text}", above, below)


def _least(figures: list[Figures]) -> Figures:
    """Return the least of each repetition that all have."""
    both = set.intersection(*(set(one) for one in figures))
    return {place: min(one[place] for one in figures) for place in both}


def _most(figures: list[Figures]) -> Figures:
    both = set.intersection(*(set(one) for one in figures))
    return {place: max(one[place] for one in figures) for place in both}


def _small_most(cells: Cells) -> list[Finding]:
    order = [_speeds(cells, KB1, PULSAR, KAFKA), _speeds(cells, KB1, KAFKA, REDIS)]
    return found_of(_each(order, "P/K and K/R", ABOVE))


def _medium_same(cells: Cells) -> list[Finding]:
    return found_of(_each([_speeds(cells, KB65, KAFKA, REDIS)], "K/R", SAME))


def _medium_least(cells: Cells) -> list[Finding]:
    others = [_speeds(cells, KB65, other, PULSAR) for other in (KAFKA, REDIS)]
    return found_of(_each(others, "K and R over P", ABOVE))


def _large_most(cells: Cells) -> list[Finding]:
    others = [_speeds(cells, KB600, KAFKA, other) for other in (REDIS, PULSAR)]
    return found_of(_each(others, "K over R and P", MOST))


def _steadiest(cells: Cells) -> list[Finding]:
    pairs = []
    for record in SIZES:
        last = _least([cells.capacity(SPEED, record, other) for other in (PULSAR, REDIS)])
        own = cells.capacity(SPEED, record, KAFKA)
        pairs.append(Pair(f"{_size(record)} K over the lower of P and R", own, last))
    parts = _each(pairs, "K over the lower of P and R", ABOVE)
    parts.append(Part("slope of K's log MB/s over log size", _slopes(cells, KAFKA), 0.0, ANY, DIFFERENCE))
    return found_of(parts)


def _slopes(cells: Cells, platform: str) -> list[float]:
    """Return the slope of log MB/s over log size, of each repetition that has all sizes."""
    figures = [cells.capacity(MEGABYTES, record, platform) for record in SIZES]
    both = sorted(set.intersection(*(set(one) for one in figures)))
    sizes = [math.log(BYTES[record]) for record in SIZES]
    return [
        float(np.polyfit(sizes, [math.log(one[place]) for one in figures], 1)[0])
        for place in both
        if min(one[place] for one in figures) > 0
    ]


def _best_in_the_middle(cells: Cells) -> list[Finding]:
    best = cells.capacity(MEGABYTES, KB65, REDIS)
    others = [
        Pair(f"R MB/s, 65 kB/{_size(record)}", best, cells.capacity(MEGABYTES, record, REDIS))
        for record in (KB1, KB600)
    ]
    return found_of(_each(others, "R MB/s at 65 kB over the others", ABOVE))


def _hardly(cells: Cells) -> list[Finding]:
    figures = [cells.capacity(MEGABYTES, record, PULSAR) for record in SIZES]
    values = ratios(_most(figures), _least(figures))
    return found_of([Part("P MB/s, largest over smallest of the sizes", values, 0.0, HARDLY)])


def _no_overload(cells: Cells) -> list[Finding]:
    del cells
    text = "a producer's queue is bounded and holds it up: no more is offered than is taken"
    return [Finding(NOT_COMPARABLE, text)]


def _no_unlimited(cells: Cells) -> list[Finding]:
    del cells
    text = "a producer's queue is bounded to 256 MiB, which the claim is about the lack of"
    return [Finding(NOT_COMPARABLE, text)]


def _no_volatile(cells: Cells) -> list[Finding]:
    del cells
    return [Finding(NOT_COMPARABLE, "every topic here is persistent")]


def _below_a_millisecond(cells: Cells) -> list[Finding]:
    parts = []
    for load in (LOW[KB1], HIGH[KB1]):
        for platform in (PULSAR, REDIS, KAFKA):
            values = list(cells.load(MEAN, load, platform).values())
            bounds = (SMALL_MS, ANY) if platform == KAFKA else (0.0, SMALL_MS)
            parts.append(Part(f"{LABELS[platform]} {load.text}, mean ms", values, *bounds))
    return found_of(parts)


def _three_times(cells: Cells) -> list[Finding]:
    loads = (LOW[KB1], HIGH[KB1])
    others = [_delays(cells, load, KAFKA, other) for load in loads for other in (PULSAR, REDIS)]
    return found_of(_each(others, "1 kB K over P and R", THREE))


def _lowest_everywhere(cells: Cells) -> list[Finding]:
    others = [_delays(cells, load, PULSAR, other) for load in LOADS for other in (KAFKA, REDIS)]
    return found_of(_each(others, "P over K and R", BELOW))


def _four_times(cells: Cells) -> list[Finding]:
    others = [_delays(cells, HIGH[KB65], KAFKA, other) for other in (PULSAR, REDIS)]
    return found_of(_each(others, "K over P and R", FOUR))


def _faster_is_sooner(cells: Cells) -> list[Finding]:
    sooner = ((PULSAR, KB1), (PULSAR, KB65), (REDIS, KB65))
    quicker = [_change(cells, platform, HIGH[record], LOW[record]) for platform, record in sooner]
    slower = [_change(cells, KAFKA, HIGH[record], LOW[record]) for record in SIZES]
    parts = _each(quicker, "P and R, high over low rate", BELOW)
    return found_of(parts + _each(slower, "K, high over low rate", ABOVE))


def _size_matters(cells: Cells) -> list[Finding]:
    both = [_change(cells, platform, LOW[KB600], HIGH[KB65]) for platform in (PULSAR, REDIS)]
    return found_of(_each(both, "P and R, 600 kB over 65 kB", THREE))


def _rate_matters_not(cells: Cells) -> list[Finding]:
    both = [_change(cells, platform, HIGH[KB600], LOW[KB600]) for platform in (KAFKA, REDIS)]
    return found_of(_each(both, "K and R, high over low rate", SAME))


def _large_alike(cells: Cells) -> list[Finding]:
    loads = (LOW[KB600], HIGH[KB600])
    parts = _each([_delays(cells, load, REDIS, KAFKA) for load in loads], "R/K", SAME)
    lowest = [_delays(cells, load, PULSAR, other) for load in loads for other in (KAFKA, REDIS)]
    return found_of(parts + _each(lowest, "P over K and R", BELOW))


def _tails(cells: Cells) -> list[Finding]:
    shortest = [
        _delays(cells, load, PULSAR, other, TAIL)
        for load in (HIGH[KB65], LOW[KB600], HIGH[KB600])
        for other in (KAFKA, REDIS)
    ]
    longest = [_delays(cells, HIGH[KB600], REDIS, other, TAIL) for other in (KAFKA, PULSAR)]
    parts = _each(shortest, "P over K and R", BELOW)
    return found_of(parts + _each(longest, "R over K and P", ABOVE))


def _no_matter(cells: Cells) -> list[Finding]:
    parts = []
    for load in LOADS:
        means = {platform: cells.load(MEAN, load, platform) for platform in LABELS}
        parts += [
            Part(f"{LABELS[platform]} {load.text}, mean ms", list(figures.values()), 0.0, ALL_MS)
            for platform, figures in means.items()
        ]
        behind = differences(means[KAFKA], _least(list(means.values())))
        parts.append(Part(f"{load.text}, K minus the best, ms", behind, -ANY, BEST_MS, DIFFERENCE))
    return found_of(parts)


CLAIMS: Final[tuple[Claim, ...]] = (
    Claim(1, "1 kB: P takes more than K, and K more than R", "ratios of capacity above 1", _small_most),
    Claim(2, "65 kB: K and R take the same", "ratio within 10 %", _medium_same),
    Claim(3, "65 kB: P takes least", "ratios of K and R to P above 1", _medium_least),
    Claim(4, "600 kB: K takes over 2.5 times R and P", "ratios above 2.5", _large_most),
    Claim(
        5,
        "K is the steadiest: never last, and its MB/s grows with size",
        "K over the lower of the others above 1, at each size; slope of log MB/s over log size above 0",
        _steadiest,
    ),
    Claim(6, "R's MB/s is best at 65 kB", "65 kB over 1 kB and over 600 kB above 1", _best_in_the_middle),
    Claim(7, "P's MB/s hardly depends on size", f"largest over smallest below {HARDLY:g}", _hardly),
    Claim(
        8,
        "P, 65 kB: offered more than it can take, it takes less",
        "goodput at 1.7 times capacity",
        _no_overload,
    ),
    Claim(9, "P, 600 kB, unlimited producer: the bookie dies of memory", "deaths", _no_unlimited),
    Claim(10, "P, 600 kB: non-persistent takes over 5 times as much", "ratio above 5", _no_volatile),
    Claim(
        11,
        "1 kB: mean latency of P and R below 1 ms at both rates, K's above",
        "means against 1 ms",
        _below_a_millisecond,
    ),
    Claim(12, "1 kB: K's mean over 3 times that of P and of R", "ratios above 3, both rates", _three_times),
    Claim(13, "P has the lowest mean in all six cells", "twelve ratios below 1", _lowest_everywhere),
    Claim(14, "65 kB, high rate: K's mean 4 to 5 times the others'", "ratios above 3.5", _four_times),
    Claim(
        15,
        "more messages a second, less latency: P at 1 and 65 kB, R at 65 kB; K never",
        "high over low rate: below 1, K's above",
        _faster_is_sooner,
    ),
    Claim(
        16,
        "P and R: 600 kB at the low rate takes 4 to 5 times as long as 65 kB at the high one, at as many MB/s",
        "ratios above 3",
        _size_matters,
    ),
    Claim(17, "600 kB: four times the rate leaves K's and R's mean", "ratios within 10 %", _rate_matters_not),
    Claim(18, "600 kB: R's mean is K's, and P is lowest", "ratio within 10 %; ratios below 1", _large_alike),
    Claim(
        19,
        "from 65 kB at the high rate up P's tails are the shortest; R's the longest at 600 kB, high rate",
        "ratios of p99.9 (the thesis: maxima)",
        _tails,
    ),
    Claim(
        20,
        "differences do not matter: all means below 6 ms, K within 3 ms of the best",
        "means, and differences, with their intervals",
        _no_matter,
    ),
)
