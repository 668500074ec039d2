"""How many sender processes share the vehicles of a run, and which vehicles each has; starts nothing.

What a vehicle sends, and when, depends on the seed and its own number alone, so the vehicles may be dealt out in any way:
the shards together send what one process would. They are dealt out in turn, so that traces and times of the first message,
which follow the numbers, are mixed alike in each.
"""

from __future__ import annotations

import os
import resource
from typing import Final

from ivsim.options import AUTO_SHARDS, MAX_SHARDS, RunOptions
from ivsim.topologies import TOPOLOGIES

# What one process sends on time with room to spare; a core does more, but shares it with the broker and the rest.
MESSAGES_PER_S_A_SHARD: Final = 1_000
# Files of a process beside the sockets of the vehicles: logs, pipes, libraries.
SPARE_FILES: Final = 512


def shard_count(options: RunOptions, *, cores: int | None = None, files: int | None = None) -> int:
    """Return how many senders a run has.

    `auto` is one for each MESSAGES_PER_S_A_SHARD, at most one a core; more where a process may not open a socket for each
    of its vehicles.

    Args:
        options: of the run.
        cores: that this process may use; None asks the system.
        files: that a process may open at most; None asks the system, 0 is no limit.
    """
    if options.shards != AUTO_SHARDS:
        return int(options.shards)
    cores = len(os.sched_getaffinity(0)) if cores is None else cores
    files = open_files() if files is None else files
    of_rate = min(cores, _upwards(options.vehicles / options.interval_s, MESSAGES_PER_S_A_SHARD))
    sockets = options.vehicles * sockets_a_vehicle(options)
    of_files = _upwards(sockets, files - SPARE_FILES) if files > SPARE_FILES else 1
    return max(1, min(max(of_rate, of_files), options.vehicles, MAX_SHARDS))


def shard_vehicles(vehicles: int, shards: int) -> list[list[int]]:
    """Return the numbers of the vehicles of each shard, dealt out in turn; every number is in one of them."""
    return [list(range(first, vehicles + 1, shards)) for first in range(1, shards + 1)]


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
