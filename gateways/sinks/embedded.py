"""The Java virtual machine inside this process, by JPype: one for a process, from its first use to its end."""

from __future__ import annotations

from functools import cache
from typing import Any

import jpype

from gateways.sinks.java import OPTIONS


class Embedded:
    """JPype's bridge.

    Args:
        library: path of libjvm.
        class_path: jars.

    Attributes:
        failed: what an exception of Java is here.
    """

    failed: type[BaseException] = jpype.JException

    def __init__(self, library: str, class_path: tuple[str, ...]) -> None:
        jpype.startJVM(library, *OPTIONS, classpath=list(class_path), convertStrings=False)
        self._bytes = jpype.JArray(jpype.JByte)

    @cache  # noqa: B019 - there is one, and it lives as long as the process
    def type(self, name: str) -> Any:
        return jpype.JClass(name)

    def array(self, value: bytes | None) -> Any:
        return None if value is None else self._bytes(value)

    @cache  # noqa: B019 - as above: partitions
    def integer(self, value: int | None) -> Any:
        return None if value is None else self.type("java.lang.Integer")(value)

    def long(self, value: int) -> Any:
        return jpype.JLong(value)

    def cause(self, error: Any) -> str:
        return str((error.getCause() or error).toString())


@cache
def embedded(library: str, class_path: tuple[str, ...]) -> Embedded:
    """Return the process's own, started when it is first asked for; a second one, of other jars, there cannot be."""
    return Embedded(library, class_path)
