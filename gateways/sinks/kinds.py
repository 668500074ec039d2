"""What a gateway must know of a client library before it loads it; loads none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from schemas.errors import Refusal
from schemas.kafka_login import read_login

if TYPE_CHECKING:
    from gateways.sinks.sink import Sink

# How long a record waits for others to go with, where nobody asks for more.
LINGER_MS: Final = 2
CLIENTS_EXTRA: Final = "ivsim[clients]"
# What only some libraries can do, by the gateway's key for it.
ABILITIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "kafka_producer": "takes settings of librdkafka",
        "batching": "sends a batch as one request",
        "in_flight_log": "tells whether a record without an answer was sent",
    }
)


@dataclass(frozen=True)
class Java:
    """The Java that a client runs on.

    Attributes:
        library: path of its libjvm.
        class_path: jars, the client's among them.
    """

    library: str
    class_path: tuple[str, ...]


@dataclass(frozen=True)
class SinkSettings:
    """What a gateway wants of its sink.

    Attributes:
        bootstrap: the platform's address.
        held_bytes_max: bytes of payload that are not confirmed at a time.
        login: file by which it logs in; "" goes there in the clear.
        batch_messages: records of a partition in one request at most; None: as many as the library takes.
        statistics: called in `poll` each second with librdkafka's statistics, as JSON; None wants none.
        linger_ms: how long a record waits for others of its partition to go with.
        more: settings of the library beside the gateway's own.
        java: what a client of Java needs.
    """

    bootstrap: str
    held_bytes_max: int
    login: str = ""
    batch_messages: int | None = None
    statistics: Callable[[str], None] | None = None
    linger_ms: int = LINGER_MS
    more: Mapping[str, str] = field(default_factory=dict)
    java: Java | None = None


@dataclass(frozen=True)
class SinkKind:
    """One row of `SINKS`.

    Attributes:
        name: what `--kafka-client` is.
        summary: one line.
        where: module:function, called with SinkSettings, which returns the sink.
        package: that has the library, as it is installed.
        module: that has to be importable.
        extra: what brings the package, in pip's words.
        remedy: the command that does, where pip alone does not; "" where it does.
        lingers: a record waits for others to go with, as `linger_ms` says.
        obeys: keys of ABILITIES.
        java: it needs SinkSettings.java.
        without: mechanisms of a login that it has not.
    """

    name: str
    summary: str
    where: str
    package: str
    module: str
    extra: str = CLIENTS_EXTRA
    obeys: frozenset[str] = frozenset()
    java: bool = False
    without: frozenset[str] = frozenset()
    remedy: str = ""
    lingers: bool = True

    def check_login(self, login: str) -> None:
        """Refuse a file by which it cannot log in at Kafka; "" is none."""
        if login and (mechanism := read_login(login).mechanism) in self.without:
            raise Refusal(f"kafka_login {login}: mechanism {mechanism}: kafka_client {self.name} has none")

    def lack(self) -> str | None:
        """Return what this Python lacks for it, and how to get it; None where it lacks nothing."""
        return package_lack(self.module, self.package, self.extra, self.remedy)

    def open(self, settings: SinkSettings) -> Sink:
        """Return a sink of its own; nothing is sent before its `require_topics`."""
        module, _, name = self.where.partition(":")
        sink: Sink = getattr(import_module(module), name)(settings)
        return sink


def package_lack(module: str, package: str, extra: str, remedy: str = "") -> str | None:
    """Return that a package is missing, and what has it, `remedy` or the extra; None where its module is found."""
    if find_spec(module) is not None:
        return None
    pip = f"pip install '{extra}'"
    return f"no Python package {package}: run `{remedy or pip}`"
