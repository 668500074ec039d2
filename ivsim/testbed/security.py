"""TLS files and accounts as the brokers take them; makes no certificate and no password."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class TlsFiles:
    """A server's certificate chain, its key and the authority that clients are checked against; PEM."""

    authority: Path
    certificate: Path
    key: Path
    require_client_certificate: bool = False


@dataclass(frozen=True)
class Account:
    """One user of a broker.

    A "vehicle" may publish its own topic alone, and its name is its vehicle id; a "gateway" reads what
    vehicles publish.
    """

    name: str
    password: str = dataclasses.field(repr=False)
    role: Literal["vehicle", "gateway"] = "vehicle"


@dataclass(frozen=True)
class Security:
    """How a broker meets its clients; without any, everyone may do everything in the run's network."""

    tls: TlsFiles | None = None
    accounts: tuple[Account, ...] = ()


OPEN = Security()
