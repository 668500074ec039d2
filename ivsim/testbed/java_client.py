"""Where the official Kafka client and the Java that it runs on are: those of the broker; starts nothing.

With Spark's jars first the client would be an older one.
"""

from __future__ import annotations

import os
from pathlib import Path

from ivsim.testbed.kafka import java_command
from ivsim.testbed.paths import how_to_get, installed_jars
from schemas.errors import Refusal


def client_jars() -> list[str]:
    """Return the class path of the client; Refusal when it is not there."""
    return [*map(str, sorted(installed_jars("kafka").resolve().glob("*.jar")))]


def libjvm() -> Path:
    """Return the library of the same Java that a broker runs on; Refusal when it has none."""
    java = Path(os.path.realpath(java_command()))
    for home in java.parents[1:3]:  # bin/java, or jre/bin/java
        found = home / "lib" / "server" / "libjvm.so"
        if found.is_file():
            return found
    raise Refusal(f"{java}: its Java has no lib/server/libjvm.so: {how_to_get('default-jre-headless')}")
