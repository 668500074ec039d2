"""One testbed that stays open for many echo cells: link, brokers, CoAP's echo servers; measures nothing."""

from __future__ import annotations

import secrets
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from gateways.protocols import PROTOCOLS
from ivsim.runs.children import READY_S, Children, ChildSpec
from ivsim.runs.noted_link import noted_link
from ivsim.runs.processes import echo_config
from ivsim.testbed.process import OwnedProcess
from ivsim.testbed.registry import RunRecord
from ivsim.testbed.server import Broker
from ivsim.testbed.servers import SERVERS
from schemas.topics import CLOUD_ADDRESS
from simulator.links import Link


class EchoTestbed:
    """Everything an echo cell needs but its vehicles and their schedule.

    Args:
        work: scratch directory, made here and left to the caller.
        link: name of the back end.
        vehicles: the most that any session has.
        protocols: whose servers to start.
    """

    def __init__(self, work: Path, link: str, vehicles: int, protocols: set[str]) -> None:
        self.work = work
        self._link_name = link
        self._vehicles = vehicles
        self._protocols = protocols
        self._stack = ExitStack()
        self.brokers: dict[str, Broker] = {}
        self._processes: list[OwnedProcess] = []
        self.record: RunRecord
        self.link: Link

    def __enter__(self) -> Self:
        try:
            self._open()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _open(self) -> None:
        self.work.mkdir(parents=True, exist_ok=True)
        run = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-study-{secrets.token_hex(2)}"
        self.record = self._stack.enter_context(RunRecord(run, self.work))
        self.link = self._stack.enter_context(noted_link(self.record, self._link_name, self._vehicles))
        children = Children(self.record, self.work, self._stack)
        for protocol in sorted(self._protocols):
            self._serve(protocol, children)

    def _serve(self, protocol: str, children: Children) -> None:
        kind = PROTOCOLS[protocol].broker
        if kind is not None:
            server = SERVERS[kind].open(self.record, host=CLOUD_ADDRESS, namespace=self.link.cloud_namespace)
            self.brokers[protocol] = self._stack.enter_context(server)
            self._processes.append(self.brokers[protocol].process)
            return
        for mode, port in PROTOCOLS[protocol].echo_ports.items():
            config = echo_config(mode, port, self.link.cloud_namespace)
            arguments = ("gateways", f"{protocol}-echo", "--config")
            child = children.start(ChildSpec(f"echo-{mode}", arguments, config))
            child.wait_for("ready", READY_S)
            self._processes.append(child)

    def port(self, protocol: str, mode: str) -> int:
        """Return where vehicles of this mode send to."""
        return (
            self.brokers[protocol].port if protocol in self.brokers else PROTOCOLS[protocol].echo_ports[mode]
        )

    def check(self) -> None:
        """Raise ProcessDied when a server has ended on its own."""
        for process in self._processes:
            process.check()

    def properties(self) -> dict[str, Any]:
        """Return what a manifest should know of the link."""
        return {"name": self.link.name, **self.link.properties()}
