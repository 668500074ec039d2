"""What a platform must do: the server's side, in the measuring process, and the clients, in processes of their own.

A record is known by its number, from 1, which the producers share out. The number goes beside key and value: a
platform carries it where a record has room for an integer of its own (Kafka: the record's timestamp), so that key and
value are what the options say, byte for byte. When a record was due and when it came is joined by it afterwards: no
stamp is sent.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol, runtime_checkable

from ivsim.testbed.paths import set_up
from ivsim.testbed.registry import RunRecord
from schemas.errors import Refusal

if TYPE_CHECKING:
    # It loads pyroute2, a quarter of a second, which a client does without.
    from ivsim.testbed.machine import Machine

# What clients need to find the records of one measurement; JSON.
Place = dict[str, Any]
# Settings of a client beside the options, as comparisons of clients need them: what each is.
TUNING: Final[Mapping[str, str]] = MappingProxyType(
    {
        "in_flight": "requests to a broker that wait for an answer at a time",
        "socket_buffer_bytes": "send and receive buffers of the operating system",
        "fetch_min_bytes": "records that a broker collects before it answers a fetch",
        "retries": "times that a request is repeated",
        "message_max_bytes": "largest request, and so largest batch",
    }
)
# Number, and why the platform would not have it (None: it has).
Report = Callable[[int, str | None], None]


@dataclass(frozen=True)
class Host:
    """Where a platform's servers listen.

    Attributes:
        address: of the clients' listeners.
        namespace: a name under /run/netns in which they stand; None: this host's own.
        machine: a computer of their own, whose power can be cut; None: this host.
    """

    address: str = "127.0.0.1"
    namespace: str | None = None
    machine: Machine | None = None


LOOPBACK: Final = Host()


class Tool(NamedTuple):
    """A platform's own program that sends at full speed.

    Attributes:
        name: of the program.
        command: from place, settings, number of records and bytes of each to the words of its command; the payload is on
            its standard input.
        rate: finds the records a second in what it prints; the last is the result.
    """

    name: str
    command: Callable[[Place, Mapping[str, Any], int, int], list[str]]
    rate: re.Pattern[str]


class Full(Exception):  # noqa: N818 - what happened, not a kind of error
    """A sender takes no more before it has got rid of some."""


class Refused(Exception):  # noqa: N818
    """A sender will never take this record."""


class Arrivals(NamedTuple):
    """The records that one call gave a consumer, column by column: a tuple for each would cost as much as all the rest.

    Attributes:
        offset: counts from 0 within the partition.
    """

    number: Sequence[int]
    partition: Sequence[int]
    offset: Sequence[int]
    value: Sequence[bytes]


NONE: Final = Arrivals((), (), (), ())


class Sender(Protocol):
    """A producer's end; of one thread."""

    def open(self) -> None:
        """Return once the platform has answered."""

    def send(self, number: int, key: bytes | None, value: bytes, due_at_ns: int) -> None:
        """Take a record, to be sent as the settings say; Full or Refused when it is not taken.

        Args:
            number: of the record.
            key: None where the settings have none.
            value: the payload.
            due_at_ns: for a platform that can be told when a record is of.
        """

    def poll(self, timeout_s: float) -> None:
        """Hand over delivery reports that are there, or come within the time."""

    def flush(self, timeout_s: float) -> int:
        """Wait for what was taken; return how many are still without an answer."""

    def statistics(self) -> Mapping[str, float | None]:
        """Return what the library counted: wire_bytes, batches, batch_records; what it cannot say is None."""

    def close(self) -> None:
        """Give everything back."""


@runtime_checkable
class Choosing(Protocol):
    """A sender that chooses the setting of its batches anew."""

    @property
    def decisions(self) -> list[dict[str, Any]]:
        """Return one row for each choice, as `gateways.batching.decision_log` has them."""


class Receiver(Protocol):
    """A consumer's end, of some partitions."""

    def open(self, *, resumed: bool = False) -> Mapping[int, int]:
        """Return once records that are sent from now on would be got: the offset at which it begins, by partition.

        Args:
            resumed: begin behind what was acknowledged, by whomever; else, or where nothing was, at the beginning.
        """

    def poll(self) -> Arrivals:
        """Return records as the settings say, none when none came in time."""

    def acknowledge(self, partition: int, offset: int) -> None:
        """Say that a partition is read up to and with this offset."""

    def close(self) -> None:
        """Give everything back."""


class OpenPlatform(Protocol):
    """A platform that runs."""

    def place(self, name: str, settings: Mapping[str, Any]) -> Place:
        """Make room for one measurement: a topic with its partitions."""

    def ends(self, place: Place) -> dict[int, int]:
        """Return, for each partition, one more than the offset of its last record."""

    def stored_bytes(self, place: Place) -> int | None:
        """Return what the records of a place take on disk; None where that cannot be said."""

    def pids(self) -> Mapping[str, int]:
        """Return the processes of the platform."""

    def check(self) -> None:
        """Raise ProcessDied when a process of the platform has ended."""

    def kill(self, index: int) -> None:
        """Kill a broker as a fault would, and begin to start it again; for a platform that has brokers."""

    def back(self, place: Place) -> bool:
        """Return whether a place can be used again after a kill; ProcessDied when its broker did not live."""

    def clear(self, place: Place) -> None:
        """Remove a place and what is in it."""


class Platform(ABC):
    """One row of `PLATFORMS`.

    Attributes:
        name: what `--platform` is.
        summary: one line.
        settings: fields of the options that it obeys beside those that all obey.
        clients: module with `sender(place, settings, index, report)` and `receiver(place, settings, partitions)`;
            clients are forked of a process that has imported it: it should hold little else, and start no thread.
        choosing: module with a `sender` that chooses its batches by a policy; None where `batching` is not obeyed.
        packages: whose versions a result depends on.
        seconds: what opening it takes.
        record_bytes: the largest record that it takes.
        has_brokers: it is processes of the measurement's own, as many as `brokers` says, that can be killed.
        durability: what `cache` and `synced` are there, in its own settings; empty where nothing can be chosen.
        partitioners: those that its clients have, where it obeys the setting.
        restarts_to_sync: a server has one durability as long as it runs; else each place has its own.
        tool: its own program that sends at full speed; None where there is none to be had.
        tuning: keys of TUNING that its clients obey, under `tuning` of their settings.
        defaults: what its client library has where nothing is said, options and TUNING alike; None where nobody has
            looked it up.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    settings: ClassVar[frozenset[str]]
    clients: ClassVar[str]
    choosing: ClassVar[str | None] = None
    packages: ClassVar[tuple[str, ...]] = ()
    seconds: ClassVar[float] = 0.0
    record_bytes: ClassVar[int]
    has_brokers: ClassVar[bool] = False
    durability: ClassVar[Mapping[str, str]] = MappingProxyType({})
    partitioners: ClassVar[tuple[str, ...]] = ("spread", "sticky", "key")
    restarts_to_sync: ClassVar[bool] = False
    tool: ClassVar[Tool | None] = None
    tuning: ClassVar[frozenset[str]] = frozenset()
    defaults: ClassVar[Mapping[str, Any] | None] = None

    def missing(self) -> str | None:
        """Return what this machine lacks for it, and how to get it; None where nothing is known to."""
        return None

    def room_bytes(self) -> int | None:
        """Return the payload that it has room for where it keeps all records in memory; None where it does not."""
        return None

    def install(self) -> None:
        """Fetch what is missing; Refusal where set-up is what fetches it, or where it cannot be fetched."""
        raise Refusal(f"{self.name} is fetched by `{set_up()}`: {self.missing()}")

    def refuses(self, settings: Mapping[str, Any]) -> tuple[str, str] | None:
        """Return the setting that it cannot obey, and what it allows; None where it can obey all."""
        if "partitioner" in self.settings and settings["partitioner"] not in self.partitioners:
            return "partitioner", f"it is one of {', '.join(self.partitioners)}"
        return None

    @abstractmethod
    def acknowledges(self, settings: Mapping[str, Any]) -> bool:
        """Return whether, with these settings, a delivery report means that the platform has the record."""

    @abstractmethod
    def open(
        self, record: RunRecord, work: Path, brokers: int = 1, host: Host = LOOPBACK
    ) -> AbstractContextManager[OpenPlatform]:
        """Start it, and end it with the context; everything is noted in `record`.

        `host` is another than LOOPBACK where `link` is among the settings that it obeys, or `power` says so.
        """
