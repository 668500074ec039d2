"""How many sender processes share the vehicles of a run, and which vehicles each has; starts nothing.

A sender speaks one protocol in one mode, to one place: each part of a mix has senders of its own, and so has each gateway
at the edge and each of several brokers.

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
    """What one sender process has: vehicles of one part of the fleet.

    Attributes:
        peer: whom they send to: which gateway at the edge, which of several brokers; None where all share one way.
        agent: number of the agent that has the process, from 0; None: this machine.
    """

    part: FleetPart
    vehicles: list[int]
    peer: int | None = None
    agent: int | None = None


def sender_shares(
    options: RunOptions, *, cores: int | None = None, files: int | None = None
) -> tuple[SenderShare, ...]:
    """Return the senders of a run in the order of its parts; the arguments are those of `shard_count`.

    This machine and its agents take them in turn, this machine first where it takes any.
    """
    places = generators(options)
    shares: list[SenderShare] = []
    for part in options.parts:
        for peer, vehicles in groups(options, part):
            count = shard_count(options, len(vehicles), cores=cores, files=files)
            for first in range(count):
                place = places[len(shares) % len(places)]
                shares.append(SenderShare(part, list(vehicles[first::count]), peer, place))
    return tuple(shares)


def generators(options: RunOptions) -> list[int | None]:
    """Return the machines that have senders: agents by their numbers from 0, this one as None."""
    agents: list[int | None] = [*range(len(options.agents))]
    return agents if options.agents_only else [None, *agents]


def groups(options: RunOptions, part: FleetPart) -> list[tuple[int | None, tuple[int, ...]]]:
    """Return the vehicles of each gateway at the edge, or of each of several brokers, dealt out in turn; else all, with None."""
    edge = TOPOLOGIES[options.topology].edge
    count = options.gateways if edge else brokers_of(options, part)
    if count == 1 and not edge:
        return [(None, part.vehicles)]
    return [(peer, part.vehicles[peer::count]) for peer in range(count)]


def brokers_of(options: RunOptions, part: FleetPart) -> int:
    """Return among how many brokers behind the link the vehicles of a part are dealt out: one where it needs none."""
    return options.brokers if part.protocol.broker is not None else 1


def shard_count(
    options: RunOptions, vehicles: int | None = None, *, cores: int | None = None, files: int | None = None
) -> int:
    """Return how many senders a part of a run's fleet has.

    `auto` is one for each MESSAGES_PER_S_A_SHARD, at most one a core, where agents are taken to have as many as this
    machine, and at least one for each machine; more where a process may not open a socket for each of its vehicles.

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
    machines = len(generators(options))
    of_rate = min(cores * machines, _upwards(vehicles / options.interval_s, MESSAGES_PER_S_A_SHARD))
    sockets = vehicles * sockets_a_vehicle(options)
    of_files = _upwards(sockets, files - SPARE_FILES) if files > SPARE_FILES else 1
    return max(1, min(max(of_rate, of_files, machines), vehicles, MAX_SHARDS))


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
