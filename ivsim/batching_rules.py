"""What no batching policy can do: keep a limit below the link's own round trip, or end a period before a batch."""

from __future__ import annotations

from collections.abc import Iterator

from gateways.batching.policies import POLICIES
from ivsim.option import Naming
from ivsim.options import RunOptions, rtt_of
from ivsim.topologies import TOPOLOGIES
from simulator.links import DIRECT
from simulator.traces import Trace


def batch_periods(options: RunOptions, name: Naming) -> Iterator[str]:
    """Refuse a period that ends before a batch that began in it may."""
    if options.batching == "none" or POLICIES[options.batching].rule is None:
        return
    longest_ms = max(options.batch_limit_ms, options.batch_ms)
    if options.batch_period_s * 1e3 <= longest_ms:
        yield (
            f"{name('batch_period_s')} {options.batch_period_s:g}: must be longer than a batch may wait,"
            f" {longest_ms / 1e3:g} s by {name('batch_limit_ms')} and {name('batch_ms')}"
        )


def batch_limits(options: RunOptions, name: Naming) -> Iterator[str]:
    """Refuse a limit that the path to Kafka alone exceeds: at the edge the link is between gateway and Kafka."""
    if options.batching == "none" or POLICIES[options.batching].rule is None:
        return
    if not TOPOLOGIES[options.topology].edge:
        return
    least_ms = least_round_trip_ms(options)
    if options.batch_limit_ms <= least_ms:
        yield no_setting_keeps(name("batch_limit_ms"), options.batch_limit_ms, least_ms)


def least_round_trip_ms(options: RunOptions) -> float:
    """Return the least round trip that the link is asked for in any second; 0 where it is asked for none."""
    if options.link == DIRECT:
        return 0.0
    rtt = rtt_of(options)
    if isinstance(rtt, Trace):
        return 0.0 if rtt.rtt_ms is None else float(rtt.rtt_ms.min())
    if rtt is not None:
        return rtt
    return min(0.0 if trace.rtt_ms is None else float(trace.rtt_ms.min()) for trace in options.traces)


def no_setting_keeps(word: str, limit_ms: float, least_ms: float) -> str:
    """Return the refusal of a limit that no batch setting can keep."""
    return (
        f"{word} {limit_ms:g}: no batch setting keeps it, the link's round trip takes {least_ms:.3g} ms at least;"
        f" it must be above {least_ms:.3g}"
    )
