"""Namespaces of producers and of the platform, and the emulated link between them; it sends no record.

Without a site every process stands on this host's loopback. With one the producers stand at the vehicles' end of a link
and brokers and consumers at its cloud end, as vehicles and brokers do in a run: the same link, replay, probes, capture and
certificate. All producers share the link, as the clients of one road-side gateway would.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from ivsim.options import RunOptions
from ivsim.runs.crossing import Crossing
from ivsim.runs.link_log import link_table
from ivsim.runs.noted_link import noted_link
from ivsim.runs.processes import capture_config
from ivsim.runs.runner import link_schedule_of
from ivsim.study.engines.pipe.link_series import changing
from ivsim.study.engines.pipe.platforms.base import Host
from ivsim.testbed.registry import RunRecord
from schemas.topics import CLOUD_ADDRESS, vehicle_address
from simulator.link_schedule import LinkSchedule
from simulator.links import Condition, Link, tcp_stack, wiring
from simulator.links.base import DEFAULT_TCP_ALGORITHM
from simulator.links.proof.certificate import certificate
from simulator.links.proof.prober import PROBE_PORT

WAYS: Final = ("uplink", "downlink")
_VEHICLES: Final = 1


@dataclass(frozen=True)
class Asked:
    """What a link is asked during one measurement.

    Attributes:
        options: of a run with one vehicle.
        seed: of the series of delay and loss, where the link varies; None: the options' trace alone.
    """

    options: RunOptions
    seed: int | None = None

    def schedule(self) -> LinkSchedule:
        """Return it second by second."""
        found = link_schedule_of(self.options)
        if self.seed is None:
            return found
        assert self.options.rtt is not None
        return replace(
            found, trace=changing(self.seed, float(self.options.rtt), self.options.loss_ratio), rtt=None
        )


@dataclass(frozen=True)
class Crossed:
    """What a link did during one measurement.

    Attributes:
        rows: link.parquet: what was asked, what the kernel counted, what the producers' end saw.
        certificate: as a run has it.
        replay: how late changes of the link were, and how many.
        capture_drops: frames that the kernel dropped before they were read; None when nobody knows.
    """

    name: str
    properties: Mapping[str, Any]
    rows: pa.Table
    certificate: Mapping[str, Any]
    replay: Mapping[str, Any]
    capture_drops: int | None

    def wire_bytes(self, way: str) -> int | None:
        """Return the bytes captured one way, IP headers included, without the link's own probes; None when none are known."""
        if self.capture_drops != 0:
            return None
        own = self.rows.filter(pc.equal(self.rows["direction"], way))
        captured = pc.sum(own["wire_bytes"]).as_py()
        return None if captured is None else int(captured) - int(pc.sum(own["probe_bytes"]).as_py() or 0)


class Site:
    """A link and its two namespaces; a context manager that removes them.

    It is asked anew for each measurement: servers stay where they are while its conditions and TCP's algorithm change.

    Args:
        link: back end, or AUTO.
        record: of the run, which notes the namespaces.
    """

    def __init__(self, link: str, record: RunRecord) -> None:
        self._name, self._record = link, record
        self._stack = ExitStack()
        self.link: Link

    def __enter__(self) -> Self:
        with self._stack:
            self.link = self._stack.enter_context(noted_link(self._record, self._name, _VEHICLES))
            # Kafka's clients cannot bind an address: they are vehicle 1.
            wiring.prefer_source(self.link.vehicles_namespace, vehicle_address(1))
            tcp_stack.use(self.link, DEFAULT_TCP_ALGORITHM)
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def host(self) -> Host:
        """Where the platform's servers listen."""
        return Host(CLOUD_ADDRESS, self.link.cloud_namespace)

    @property
    def producers_namespace(self) -> str:
        return self.link.vehicles_namespace

    @contextmanager
    def crossing(self, work: Path, asked: Asked) -> Iterator[Crossing]:
        """Yield what follows one measurement; its files lie in `work`, which is made."""
        work.mkdir(parents=True)
        # Before any client connects: a connection keeps the algorithm that it began with.
        tcp_stack.use(self.link, asked.options.tcp)
        capture = capture_config(
            device=self.link.vehicles_device,
            directory=work,
            echo=False,
            attributed_ends=[],
            probe_ports=[PROBE_PORT],
        )
        schedule = asked.schedule()
        try:
            with Crossing(
                self.link, schedule, probed=schedule.numbers, capture=capture, record=self._record, work=work
            ) as crossing:
                yield crossing
        finally:
            # The next measurement's clients connect as the first one's did.
            self.link.update({vehicle: (Condition(), Condition()) for vehicle in range(1, _VEHICLES + 1)})

    def crossed(self, crossing: Crossing) -> Crossed:
        """End a measurement's crossing, and return what it saw; LinkError, ProcessDied or NotReady where a part failed."""
        crossing.end()
        rows = crossing.rows()
        return Crossed(
            self.link.name,
            {**self.link.properties(), "tcp": tcp_stack.settings(self.link)},
            link_table(rows, crossing.wire_events),
            certificate(self.link.name, rows, crossing.properties, []),
            crossing.properties,
            crossing.capture_drops,
        )
