"""What a policy falls short of the best fixed count that could have been known only afterwards; pure."""

from __future__ import annotations

from collections.abc import Mapping

from ivsim.papers.parts import Figures


def best_fixed(by_count: Mapping[int, Figures]) -> dict[int, tuple[int, float]]:
    """Return, for each repetition that all counts have, the count with the most timely throughput and how much it is."""
    if not by_count:
        return {}
    both = set.intersection(*(set(one) for one in by_count.values()))
    return {
        repetition: max(
            ((count, one[repetition]) for count, one in by_count.items()), key=lambda pair: pair[1]
        )
        for repetition in sorted(both)
    }


def regret(policy: Figures, by_count: Mapping[int, Figures]) -> dict[int, float]:
    """Return the share of the best fixed count's timely throughput that a policy lacks, for each repetition.

    Below 0 where it has more; none where even the best has nothing.
    """
    return {
        repetition: 1 - policy[repetition] / most
        for repetition, (_count, most) in best_fixed(by_count).items()
        if repetition in policy and most > 0
    }
