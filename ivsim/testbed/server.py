"""What every server that a run starts has in common, and how a kind of it is described; it starts none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, Self

from ivsim.testbed.process import OwnedProcess


class Server(Protocol):
    """A server of the run's own: it answers when `__enter__` returns and is gone when `__exit__` does."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    @property
    def process(self) -> OwnedProcess:
        """The running server; for liveness checks and for faults on purpose."""

    def restart(self) -> None:
        """Start again after a stop or a kill, with the same address and what it had kept."""


class Broker(Server, Protocol):
    """A broker between vehicles and gateways.

    Attributes:
        host, port: where clients connect.
    """

    host: str
    port: int

    def last_save_s(self) -> float | None:
        """Return when it last saved what it holds, in s since 1970: 0.0 not yet, None when it saves each message."""

    def save(self) -> None:
        """Have it save what it holds, where it does so now and then; return once that is done, NotReady when it takes too long."""


@dataclass(frozen=True)
class ServerKind:
    """One row of SERVERS.

    Attributes:
        name: as protocols name their broker, and as its process is called.
        part: what `ivsim doctor` calls what must be installed.
        remedy: the one line that installs it.
        find: returns where it is; Refusal with the remedy when it is not installed.
        version: returns its version, None when it is not installed.
        forget: deletes what the server holds under the names given, so that a later run meets none of it; only a kind
            that is slow to start has it, and is kept between the runs of a testbed.
        saves_late: it acknowledges before it has saved, and so may lose what it acknowledged when it is killed.
        forgets_shares: it does not restore a shared subscription when it starts again, and so acknowledges what goes nowhere
            until a member has subscribed once more.
        open: makes one, not yet entered, from a run record; keywords are those of its class.
        needed_for: the runs that start it, for `ivsim doctor`; None means those of the protocols whose broker it is.
    """

    name: str
    part: str
    remedy: str
    find: Callable[[], str]
    version: Callable[[], str | None]
    open: Callable[..., Any]
    needed_for: str | None = None
    saves_late: bool = False
    forgets_shares: bool = False
    forget: Callable[[Any, Iterable[str]], None] | None = None
