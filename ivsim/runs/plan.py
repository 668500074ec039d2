"""What one run is asked and where its result goes; made before anything is opened, and never changed."""

from __future__ import annotations

from dataclasses import dataclass

from ivsim.options import RunOptions
from ivsim.runs.clock import ClockWatch
from ivsim.runs.directory import RunDirectory
from ivsim.runs.shards import SenderShare
from ivsim.topologies import TOPOLOGIES, Topology
from simulator.link_schedule import LinkSchedule


@dataclass(frozen=True)
class RunPlan:
    """One run before it is opened.

    Attributes:
        run_id: no other run's.
        directory: made, and this run's own.
        schedule: what the link is asked, second by second.
        senders: which vehicles each sender has, and what these speak.
        clock: takes the offset of the two clocks at the beginning.
    """

    run_id: str
    options: RunOptions
    directory: RunDirectory
    schedule: LinkSchedule
    senders: tuple[SenderShare, ...]
    clock: ClockWatch

    @property
    def shards(self) -> int:
        """Return how many senders share the vehicles."""
        return len(self.senders)

    @property
    def topology(self) -> Topology:
        return TOPOLOGIES[self.options.topology]
