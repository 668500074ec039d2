"""The official Java client as all ways to it need it: its class path and its properties.

The class path is the broker's, and our own few classes.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import Any, Final

from gateways.sinks.java import BUFFER_BYTES
from ivsim.study.engines.pipe.platforms.base import Place
from ivsim.study.engines.pipe.platforms.kafka_libraries.ends import library_settings
from ivsim.study.engines.pipe.platforms.kafka_libraries.jar import frames_jar
from ivsim.testbed.java_client import client_jars, libjvm
from ivsim.testbed.kafka import java_command

_BYTES: Final = "org.apache.kafka.common.serialization.ByteArray"
_SOCKETS: Final = ("send.buffer.bytes", "receive.buffer.bytes")
PRODUCER_TUNING: Final[Mapping[str, tuple[str, ...]]] = {
    "in_flight": ("max.in.flight.requests.per.connection",),
    "socket_buffer_bytes": _SOCKETS,
    "retries": ("retries",),
}
CONSUMER_TUNING: Final[Mapping[str, tuple[str, ...]]] = {
    "fetch_min_bytes": ("fetch.min.bytes",),
    "socket_buffer_bytes": _SOCKETS,
}


def class_path() -> list[str]:
    """Return the jars; Refusal when they are not there."""
    return [*client_jars(), str(frames_jar())]


def check_java() -> None:
    """Refuse a machine without Java, its library or the jars."""
    libjvm()
    class_path()


def java_path() -> str:
    """Return the path of `java`; Refusal when there is none."""
    return shutil.which("java") or java_command()


def producer_properties(place: Place, settings: Mapping[str, Any]) -> dict[str, str]:
    """Return a producer's properties; what is not here is the library's own."""
    return {
        "bootstrap.servers": place["bootstrap"],
        **library_settings(settings).for_java(),
        "buffer.memory": str(BUFFER_BYTES),
        **_tuned(settings, PRODUCER_TUNING),
    }


def consumer_properties(place: Place, settings: Mapping[str, Any]) -> dict[str, str]:
    """Return a consumer's properties."""
    return {
        "bootstrap.servers": place["bootstrap"],
        "key.deserializer": f"{_BYTES}Deserializer",
        "value.deserializer": f"{_BYTES}Deserializer",
        "group.id": place["topic"],
        "enable.auto.commit": "false",
        "auto.offset.reset": "none",
        "fetch.max.wait.ms": "500",
        "fetch.min.bytes": "1",
        "max.poll.records": str(settings["take_records"]),
        "enable.metrics.push": "false",
        **_tuned(settings, CONSUMER_TUNING),
    }


def _tuned(settings: Mapping[str, Any], names: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    tuning = settings.get("tuning", {})
    return {name: str(tuning[key]) for key, found in names.items() if key in tuning for name in found}


def lines(properties: Mapping[str, str]) -> str:
    """Return properties as a file of them has them; none of the values needs an escape."""
    return "".join(f"{name}={value}\n" for name, value in properties.items())
