"""TLS files and accounts as the brokers take them; makes no certificate and no password."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class TlsFiles:
    """A server's certificate chain, its key and the authority that clients are checked against; PEM.

    Attributes:
        require_client_certificate: who has none of the authority's cannot connect, and who has one is the account
            that its subject's common name says; passwords count for nothing then.
    """

    authority: Path
    certificate: Path
    key: Path
    require_client_certificate: bool = False


@dataclass(frozen=True)
class Account:
    """One user of a broker.

    A "vehicle" may publish its own topic alone, and its name is its vehicle id; a "gateway" reads what
    vehicles publish. Without a password it can only be known by its certificate.
    """

    name: str
    password: str | None = dataclasses.field(default=None, repr=False)
    role: Literal["vehicle", "gateway"] = "vehicle"


@dataclass(frozen=True)
class Security:
    """How a broker meets its clients; without any, everyone may do everything in the run's network."""

    tls: TlsFiles | None = None
    accounts: tuple[Account, ...] = ()

    @property
    def by_certificate(self) -> bool:
        """Say whether clients are known by their certificates alone."""
        return self.tls is not None and self.tls.require_client_certificate


OPEN = Security()


def write_secret(path: Path, text: str) -> None:
    """Write `text` where only the owner can read it."""
    path.touch(mode=0o600)
    path.chmod(0o600)  # one that was there
    path.write_text(text)
