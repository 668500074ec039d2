"""How a Java virtual machine with the official client is started, and its properties made, over whichever bridge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

# Signals stay those of the process that has it (-Xrs); no file of its own in the machine's temporary directory.
OPTIONS: Final = ("-Xmx512m", "-Xrs", "-XX:-UsePerfData", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off")

# Room in a producer for records that wait, well below that of the machine; it waits for more.
BUFFER_BYTES: Final = 128 << 20


def java_properties(bridge: Any, found: Mapping[str, str]) -> Any:
    """Return a java.util.Properties, made by calls of the bridge."""
    properties = bridge.type("java.util.Properties")()
    for name, value in found.items():
        properties.setProperty(name, value)
    return properties
