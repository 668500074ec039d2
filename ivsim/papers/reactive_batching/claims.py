"""The eighteen claims, and the rule by which each is decided; B_S is the count of a batch, B_T its age, ten times as fast.

The unit is a run, since records of a batch are late together: intervals are 95 % over repetitions (Student's t), ratios
by their logarithms.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from ivsim.papers.parts import ANY, DIFFERENCE, Figures, Part, differences, found_of, ratios
from ivsim.papers.reactive_batching import latency_claims as latency
from ivsim.papers.reactive_batching import loss_claims as loss
from ivsim.papers.reactive_batching.cells import (
    COUNTS,
    FILLED,
    FULL_COUNTS,
    LIMIT_MS,
    LOST,
    MEAN,
    SPEED,
    TIMELY,
    Cells,
    deviations,
    slopes,
)
from ivsim.study.claims import Claim, Finding

HUNDRED: Final = 100.0
# A count that is smaller is so by one at least.
SMALLER: Final = 0.5
RIVAL_COUNTS: Final = (1, 10)
CAREFUL: Final = 10


def _most(figures: list[Figures]) -> Figures:
    both = set.intersection(*(set(one) for one in figures))
    return {place: max(one[place] for one in figures) for place in both}


def _sync(cells: Cells) -> list[Finding]:
    alone = cells.figures(SPEED, "sync_throughput", batch_messages=1, in_flight=1)
    fastest = _most(list(cells.speeds().values()))
    wide, narrow = (deviations(runs) for runs in (cells.count_runs(CAREFUL), cells.sync_runs()))
    return found_of(
        [
            Part("async over sync, records/s", ratios(fastest, alone), HUNDRED, ANY),
            Part(f"SD of L, B_S {CAREFUL} over sync", ratios(wide, narrow), 1.0, ANY),
        ]
    )


def _both_rise(cells: Cells) -> list[Finding]:
    speeds = {
        float(count): {place: math.log(value) for place, value in one.items() if value > 0}
        for count, one in cells.speeds().items()
    }
    means = {float(count): cells.figures(MEAN, "latency", batch_messages=count) for count in (1, *FILLED)}
    return found_of(
        [
            Part(
                "slope of log records/s over log B_S",
                slopes(speeds, math.log),
                0.0,
                ANY,
                DIFFERENCE,
            ),
            Part("slope of mean latency over B_S 1 to 10, ms", slopes(means), 0.0, ANY, DIFFERENCE),
        ]
    )


def best_counts(cells: Cells) -> dict[int, tuple[int, int]]:
    """Return, for each repetition, the count with the most timely throughput, and the largest whose mean keeps the limit.

    Timely throughput as published: the producer's at full load, times the share in time at 100 records/s.
    """
    counts = [count for count in COUNTS if count in FULL_COUNTS]
    runs = {count: cells.count_runs(count) for count in counts}
    speeds = cells.speeds()
    both = set.intersection(*(set(runs[one]) & set(speeds[one]) for one in counts))
    found: dict[int, tuple[int, int]] = {}
    for repetition in sorted(both):
        late = {one: runs[one][repetition].latency for one in counts}
        timely = {one: speeds[one][repetition] * float(np.mean(late[one] <= LIMIT_MS)) for one in counts}
        kept = [one for one in counts if late[one].mean() <= LIMIT_MS]
        found[repetition] = (max(timely, key=timely.__getitem__), max(kept, default=counts[0]))
    return found


def _smaller_is_better(cells: Cells) -> list[Finding]:
    values = [float(kept - best) for best, kept in best_counts(cells).values()]
    text = f"largest B_S with a mean up to {LIMIT_MS:g} ms minus the timeliest"
    return found_of([Part(text, values, SMALLER, ANY, DIFFERENCE)])


def _reactive(cells: Cells) -> list[Finding]:
    own = cells.policy(TIMELY, "reactive")
    rivals = {"pareto": cells.policy(TIMELY, "pareto")}
    rivals |= {f"B_S {count}": cells.fixed(TIMELY, count) for count in RIVAL_COUNTS}
    parts = [
        # A rival may have none in time, which no ratio is over.
        Part(f"timely records/s, reactive minus {name}", differences(own, other), 0.0, ANY, DIFFERENCE)
        for name, other in rivals.items()
    ]
    lost = differences(cells.policy(LOST, "reactive"), cells.fixed(LOST, CAREFUL))
    parts.append(Part(f"lost, reactive minus B_S {CAREFUL}", lost, 0.0, ANY, DIFFERENCE))
    return found_of(parts)


CLAIMS: Final[tuple[Claim, ...]] = (
    Claim(
        1,
        "l1 makes up most of L and grows with B_S, l2 does not change",
        "l1/L above one half; slope of l1 above 0; l2 within 5 ms of that at B_S 1",
        latency.split,
    ),
    Claim(
        2,
        "mean L rises with B_S, then is flat once B_T closes the batches",
        "slope above 0; B_S 15 and 30 within 5 ms",
        latency.rise_and_plateau,
    ),
    Claim(
        3, "the mean is flat from B_S 10 on", "hinge of the mean from 8 to 12, at three rates", latency.hinge
    ),
    Claim(4, "SD of L rises with B_S up to 10", "ratios of neighbours above 1", latency.wider),
    Claim(
        5,
        "the mean misleads: a B_S with a mean below 20 ms and over 20 % above it",
        "mean and share at one of B_S 2, 4, 7, 10",
        latency.misleading,
    ),
    Claim(
        6,
        "B_S 1: a Gamma law predicts what is late within 0.01",
        "MAE, held-out runs; none where the other runs themselves are further off",
        latency.gamma,
    ),
    Claim(
        7,
        "B_S 2 to 10: hyper-Erlang within 0.005, and a tenth of Cauchy's error",
        "MAE and their ratio, held-out long runs; as 6",
        latency.phase_type,
    ),
    Claim(8, "above: uniform with alpha 0.9 within 0.01", "MAE, held-out runs; as 6", latency.uniform),
    Claim(
        9,
        "all L lie between min(L_sync) and max(L_sync) + B_T",
        "share outside below 0.1 %",
        latency.bounded,
    ),
    Claim(
        10,
        "asynchronous sending: over 100 times the throughput of synchronous, and wider latencies",
        "ratio above 100; ratio of SDs above 1",
        _sync,
    ),
    Claim(
        11,
        "no message is lost up to 8 % loss of the link",
        "lost below 1 % at 0, 2, 5, 8 %",
        loss.none_lost,
    ),
    Claim(12, "from 10 to 25 %: less is lost as B_S grows", "slopes below 0", loss.less_with_count),
    Claim(
        13,
        "15 %, at least once: B_S 1 to 3 lowers the loss from over 80 % to below 5 %",
        "both shares",
        loss.from_one_to_three,
    ),
    Claim(
        14,
        "at least once loses less than at most once",
        "difference below 0 in each cell (the text gives no direction, a figure does)",
        loss.acknowledged_less,
    ),
    Claim(15, "the network predicts loss within 0.02", "MAE, held-out cells", loss.network),
    Claim(16, "throughput and mean latency both rise with B_S", "two slopes above 0", _both_rise),
    Claim(
        17,
        "the best B_S by timely throughput is smaller than the largest that keeps the mean in the limit",
        "difference of counts",
        _smaller_is_better,
    ),
    Claim(
        18,
        "on a changing link the controller has the most timely throughput of four policies, but loses more than B_S 10",
        "differences above 0; paired, same series",
        _reactive,
    ),
)
