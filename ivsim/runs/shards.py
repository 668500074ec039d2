"""How many sender processes share the vehicles of a run, and which vehicles each has; starts nothing.

A sender speaks one protocol in one mode: each part of a mix has senders of its own.

What a vehicle sends, and when, depends on the seed and its own number alone, so the vehicles may be dealt out in any way:
the shards together send what one process would. They are dealt out in turn, so that traces and times of the first message,
which follow the numbers, are mixed alike in each.
"""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass
from typing import Final

from ivsim.mix import FleetPart
from ivsim.options import AUTO_SHARDS, MAX_SHARDS, RunOptions
from ivsim.topologies import TOPOLOGIES

# What one process sends on time with room to spare; a core does more, but shares it with the broker and the rest.
MESSAGES_PER_S_A_SHARD: Final = 1_000
# Files of a process beside the sockets of the vehicles: logs, pipes, libraries.
SPARE_FILES: Final = 512


@dataclass(frozen=True)
class SenderShare:
    """What one sender process has: vehicles of one part of the fleet."""

    part: FleetPart
    vehicles: list[int]


def sender_shares(
    options: RunOptions, *, cores: int | None = None, files: int | None = None
) -> tuple[SenderShare, ...]:
    """Return the senders of a run in the order of its parts; the arguments are those of `shard_count`."""
    shares = []
    for part in options.parts:
        count = shard_count(options, len(part.vehicles), cores=cores, files=files)
        shares += [SenderShare(part, list(part.vehicles[first::count])) for first in range(count)]
    return tuple(shares)


def shard_count(
    options: RunOptions, vehicles: int | None = None, *, cores: int | None = None, files: int | None = None
) -> int:
    """Return how many senders a part of a run's fleet has.

    `auto` is one for each MESSAGES_PER_S_A_SHARD, at most one a core; more where a process may not open a socket for each
    of its vehicles.

    Args:
        options: of the run.
        vehicles: of the part; None: the whole fleet.
        cores: that this process may use; None asks the system.
        files: that a process may open at most; None asks the system, 0 is no limit.
    """
    if options.shards != AUTO_SHARDS:
        return int(options.shards)
    vehicles = options.vehicles if vehicles is None else vehicles
    cores = len(os.sched_getaffinity(0)) if cores is None else cores
    files = open_files() if files is None else files
    of_rate = min(cores, _upwards(vehicles / options.interval_s, MESSAGES_PER_S_A_SHARD))
    sockets = vehicles * sockets_a_vehicle(options)
    of_files = _upwards(sockets, files - SPARE_FILES) if files > SPARE_FILES else 1
    return max(1, min(max(of_rate, of_files), vehicles, MAX_SHARDS))


def sockets_a_vehicle(options: RunOptions) -> int:
    """Return how many sockets a vehicle has in its sender; with echoes, its receiver has one of its own."""
    return 2 if TOPOLOGIES[options.topology].echoed else 1


def open_files() -> int:
    """Return how many files a process of this user may open at most; 0 is no limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 0 if hard == resource.RLIM_INFINITY else hard


def _upwards(amount: float, of: int) -> int:
    """Return the least whole number that is not below amount / of."""
    return int(-(-amount // of))
