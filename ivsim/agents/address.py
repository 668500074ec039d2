"""HOST:PORT of an agent, as it is typed; it resolves no name."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_BRACKETED: Final = re.compile(r"\[(?P<host>[0-9A-Fa-f:.]+)\]:(?P<port>[0-9]{1,5})")
_PLAIN: Final = re.compile(r"(?P<host>[^\s:/\[\]]+):(?P<port>[0-9]{1,5})")


class Address(NamedTuple):
    """Where an agent listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def address_of(text: str, *, least_port: int = 1) -> Address:
    """Return an address; ValueError says how to write one."""
    match = _BRACKETED.fullmatch(text) or _PLAIN.fullmatch(text)
    if match is None or not least_port <= int(match["port"]) < 65_536:
        raise ValueError(f"{text!r}: write HOST:PORT, such as 192.0.2.7:7070 or [2001:db8::7]:7070")
    return Address(match["host"], int(match["port"]))
