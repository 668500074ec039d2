"""Namespaces of producers and of the platform, and the emulated link between them; it sends no record.

Without a site every process stands on this host's loopback. With one the producers stand at the vehicles' end of a link
and brokers and consumers at its cloud end, as vehicles and brokers do in a run: the same link, replay, probes, capture and
certificate. All producers share the link, as the clients of one road-side gateway would.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from ivsim.options import RunOptions
from ivsim.runs.children import READY_S
from ivsim.runs.directory import tag_of
from ivsim.runs.link_log import link_table
from ivsim.runs.processes import capture_config
from ivsim.runs.runner import link_schedule_of
from ivsim.study.engines.pipe.link_series import changing
from ivsim.study.engines.pipe.platforms.base import Host
from ivsim.testbed.child import Child, write_config
from ivsim.testbed.process import NotReady
from ivsim.testbed.registry import RunRecord
from schemas.topics import CLOUD_ADDRESS, vehicle_address
from simulator.link_schedule import LinkSchedule
from simulator.links import Condition, choose, open_link, tcp_stack, wiring
from simulator.links.base import DEFAULT_TCP_ALGORITHM
from simulator.links.proof.certificate import certificate
from simulator.links.proof.prober import PROBE_PORT, Prober
from simulator.links.replay import LINK_STEPS, LinkReplay

WIRE_LOG: Final = "wire.events"
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
        self._record = record
        self.link = open_link(choose(link), tag_of(record.run_id), _VEHICLES)

    def __enter__(self) -> Self:
        for namespace in self.link.namespaces:
            self._record.namespace(namespace)
        self.link.__enter__()
        try:
            # Kafka's clients cannot bind an address: they are vehicle 1.
            wiring.prefer_source(self.link.vehicles_namespace, vehicle_address(1))
            tcp_stack.use(self.link, DEFAULT_TCP_ALGORITHM)
        except BaseException:
            self.link.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.link.__exit__(None, None, None)

    @property
    def host(self) -> Host:
        """Where the platform's servers listen."""
        return Host(CLOUD_ADDRESS, self.link.cloud_namespace)

    @property
    def producers_namespace(self) -> str:
        return self.link.vehicles_namespace

    def crossing(self, name: str, work: Path, asked: Asked) -> Crossing:
        """Return what follows one measurement; its files lie in `work`."""
        return Crossing(self, name, work, self._record, asked)

    def clear(self) -> None:
        """Take the conditions off, so that the next measurement's clients connect as the first one's did."""
        self.link.update({vehicle: (Condition(), Condition()) for vehicle in range(1, _VEHICLES + 1)})


class Crossing:
    """The replay, the probes and the capture of one measurement; a context manager that ends what is still going on."""

    def __init__(self, site: Site, name: str, work: Path, record: RunRecord, asked: Asked) -> None:
        self._asked = asked
        self._site, self._work = site, work / f"{name}-link"
        self._name, self._record = name, record
        self._stack = ExitStack()
        self._capture: Child | None = None
        self._replay: LinkReplay | None = None
        self._prober: Prober | None = None

    def __enter__(self) -> Self:
        self._work.mkdir(parents=True)
        link = self._site.link
        # Before any client connects: a connection keeps the algorithm that it began with.
        tcp_stack.use(link, self._asked.options.tcp)
        config = capture_config(
            device=link.vehicles_device,
            directory=self._work,
            echo=False,
            attributed_ends=[],
            probe_ports=[PROBE_PORT],
        )
        path = self._work / "capture.json"
        write_config(path, config)
        with self._stack:
            self._capture = Child(
                f"{self._name}-capture",
                ["simulator.capture.process", str(path)],
                self._record,
                namespace=link.vehicles_namespace,
            )
            self._stack.callback(self._capture.stop)
            self._capture.wait_for("ready", READY_S)
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        self._site.clear()

    def begin(self, start_at_ns: int) -> None:
        """Let the link change, and be probed, from then on."""
        assert self._capture is not None
        self._replay = self._stack.enter_context(
            LinkReplay(self._site.link, self._asked.schedule().at, start_at_ns, self._work / LINK_STEPS)
        )
        self._prober = self._stack.enter_context(Prober(self._site.link, _VEHICLES, start_at_ns))
        self._capture.send("start", at_ns=start_at_ns)

    def check(self) -> None:
        """Raise NotReady or ProcessDied when a part has failed."""
        assert self._capture is not None
        self._capture.check()
        for thread in (self._replay, self._prober):
            if thread is not None and thread.failure is not None:
                raise NotReady(f"{thread.name}: {thread.failure}")

    def end(self) -> Crossed:
        """Stop all of it, and return what it saw."""
        assert self._capture is not None
        assert self._replay is not None
        assert self._prober is not None
        for thread in (self._prober, self._replay):
            thread.stop()
        self.check()
        self._capture.stop()
        rows = self._prober.add_to(self._replay.rows())
        link = self._site.link
        properties = self._replay.properties()
        return Crossed(
            link.name,
            {**link.properties(), "tcp": tcp_stack.settings(link)},
            link_table(rows, self._work / WIRE_LOG),
            certificate(link.name, rows, properties, []),
            properties,
            self._capture.latest.get("done", {}).get("kernel_drops"),
        )
