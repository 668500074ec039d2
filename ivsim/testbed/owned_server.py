"""What every server that a run starts has alike: its directory, its held ports, its one process, and their end."""

from __future__ import annotations

import shutil
import socket
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Self

from ivsim.testbed.process import OwnedProcess, hold_port
from ivsim.testbed.registry import RunRecord
from schemas.namespace import inside

if TYPE_CHECKING:
    # Loads pyroute2: not before a server stands on one.
    from ivsim.testbed.machine import Machine


class OwnedServer(ABC):
    """One server process; a context manager that answers when `__enter__` returns and is gone when `__exit__` does.

    A kind says what lies in its directory (`_prepare`), how its process begins (`relaunch`), and when it answers (`ready`).

    Args:
        record: of the run; the server's directory and log lie in its own.
        name: of process, directory and log.
        namespace: in which it stands and has its ports; None: this host's own.
    """

    START_TIMEOUT_S: ClassVar[float]

    def __init__(self, record: RunRecord, name: str, namespace: str | None = None) -> None:
        self._record = record
        self._name = name
        self._namespace = namespace
        self._dir = record.directory / name
        self._process: OwnedProcess | None = None
        self._machine: Machine | None = None
        self._holders: list[socket.socket] = []

    def stand_on(self, machine: Machine | None) -> Self:
        """Have its process on a machine of its own, with its directory for a disk; None: on this host.

        To kill it is then to cut the machine's power.
        """
        self._machine = machine
        return self

    def __enter__(self) -> Self:
        try:
            self._prepare()
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it, let go of its ports, and remove what it kept; idempotent."""
        if self._process is not None:
            self._process.stop()
        for holder in self._holders:
            holder.close()
        shutil.rmtree(self._dir, ignore_errors=True)

    @property
    def process(self) -> OwnedProcess:
        """The running server; for liveness checks and for faults on purpose."""
        assert self._process is not None, f"{self._name} is not started"
        return self._process

    def restart(self) -> None:
        """Start again after a stop or a kill, with the same address and what it had kept; return once it answers."""
        self.process.stop()
        self._start()

    @abstractmethod
    def relaunch(self) -> None:
        """Begin to start again after a kill, with the same address and data; `ready` says when it answers."""

    @abstractmethod
    def ready(self) -> bool:
        """Return whether it answers."""

    @abstractmethod
    def _prepare(self) -> None:
        """Make the directory and what must lie in it before the first start."""

    def await_answer(self) -> None:
        """Return once it answers; ProcessDied when it ends before, NotReady when it takes too long."""
        try:
            self.process.wait_ready(self.ready, self.START_TIMEOUT_S)
        except BaseException:
            self.process.stop()
            raise

    def _start(self) -> None:
        self.relaunch()
        self.await_answer()

    def _make_directory(self) -> None:
        self._record.scratch(self._dir)
        self._dir.mkdir(parents=True)

    def _held_port(self, host: str = "127.0.0.1") -> int:
        """Return a port that is free where it stands, which nobody else is given there until the server is closed."""
        with inside(self._namespace):
            self._holders.append(hold_port(host))
        return int(self._holders[-1].getsockname()[1])

    def _launch(
        self,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        stop_timeout_s: float = 10.0,
    ) -> None:
        if self._machine is not None:
            self._process = self._machine.launch(self._name, self._dir, argv, self._record)
            return
        self._process = OwnedProcess(
            self._name,
            argv,
            self._record,
            namespace=self._namespace,
            environment=environment,
            stop_timeout_s=stop_timeout_s,
        )
