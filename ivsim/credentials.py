"""Keys and passwords of one run: made at its start in a place only its owner reads, gone at its end."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

import trustme

from ivsim.testbed.mosquitto import write_secret
from ivsim.testbed.security import OPEN, Account, Security, TlsFiles
from schemas.topics import CLOUD_ADDRESS, vehicle_id

GATEWAY = "gateway"


@dataclass(frozen=True)
class Credentials:
    """What the broker checks and what its clients show.

    Attributes:
        security: the broker's side.
        authority: PEM file against which clients check the broker; None means no TLS.
        passwords: of each vehicle by its id, and of the gateway; empty means no accounts.
    """

    security: Security
    authority: Path | None
    passwords: dict[str, str]


PLAIN = Credentials(OPEN, None, {})


def make_credentials(directory: Path, vehicles: int) -> Credentials:
    """Make a test authority, a certificate for the cloud's address, and an account for each client."""
    directory.mkdir(mode=0o700)
    authority = trustme.CA(organization_name="ivsim test authority")
    certificate = authority.issue_cert(CLOUD_ADDRESS)
    paths = {name: directory / f"{name}.pem" for name in ("authority", "certificate", "key")}
    authority.cert_pem.write_to_path(paths["authority"])
    write_secret(paths["key"], certificate.private_key_pem.bytes().decode())
    paths["certificate"].write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
    names = [vehicle_id(number) for number in range(1, vehicles + 1)]
    passwords = {name: secrets.token_urlsafe(18) for name in (*names, GATEWAY)}
    accounts = [Account(name, passwords[name]) for name in names]
    files = TlsFiles(paths["authority"], paths["certificate"], paths["key"])
    accounts.append(Account(GATEWAY, passwords[GATEWAY], "gateway"))
    return Credentials(Security(files, tuple(accounts)), paths["authority"], passwords)
