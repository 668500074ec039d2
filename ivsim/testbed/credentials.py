"""Keys and passwords of one run: made at its start in a place only its owner reads, gone at its end."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from gateways.protocols.base import SharedKeys, Tls
from gateways.protocols.shared_keys import KEY_BYTES
from ivsim.testbed.security import OPEN, Account, Security, TlsFiles, write_secret
from schemas.topics import CLOUD_ADDRESS, vehicle_id

GATEWAY = "gateway"
_ORGANIZATION = "ivsim"


@dataclass(frozen=True)
class Credentials:
    """What the server checks and what its clients show.

    Attributes:
        security: the broker's side.
        authority: PEM file against which clients check the broker; None means no TLS.
        passwords: of each vehicle by its id, and of the gateway; empty means none.
        certificates: directory of what clients show, `<name>.pem` with certificate and key; None: they show none.
        keys: what each vehicle shares with the gateway; None: nothing.
        usernames: of those who log in by another name than their own.
        server_name: that the broker's certificate must have, where it is not the host that clients connect to.
    """

    security: Security
    authority: Path | None
    passwords: dict[str, str]
    certificates: Path | None = None
    keys: SharedKeys | None = None
    usernames: Mapping[str, str] = field(default_factory=dict)
    server_name: str | None = None

    def tls(self, name: str | None = None) -> Tls | None:
        """Return what the encrypted connections of that client use; without a name, what all have in common."""
        if self.authority is None:
            return None
        if name is None or self.certificates is None:
            return Tls(ca_file=str(self.authority), server_name=self.server_name)
        own = str(self.certificates / f"{name}.pem")
        return Tls(str(self.authority), own, own, self.server_name)


PLAIN = Credentials(OPEN, None, {})


def make_credentials(
    directory: Path,
    vehicles: int,
    security: str = "tls",
    address: str = CLOUD_ADDRESS,
    authority: trustme.CA | None = None,
    *,
    further: Sequence[str] = (),
) -> Credentials:
    """Make an authority, the broker's certificate, and an account for each client.

    Args:
        directory: made here; only its owner can read it.
        vehicles: how many, from number 1 on.
        security: `tls` gives each client a password, `mtls` a certificate whose subject is its name.
        address: the broker's.
        authority: who signs; None makes one, whose key is never written.
        further: addresses of brokers that have the same certificate.
    """
    directory.mkdir(mode=0o700)
    if authority is None:
        authority = trustme.CA(organization_name=_ORGANIZATION, organization_unit_name="authority of one run")
    certificate = authority.issue_cert(
        address, *further, organization_name=_ORGANIZATION, organization_unit_name="broker"
    )
    paths = {name: directory / f"{name}.pem" for name in ("authority", "certificate", "key")}
    authority.cert_pem.write_to_path(paths["authority"])
    write_secret(paths["key"], certificate.private_key_pem.bytes().decode())
    paths["certificate"].write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
    mutual = security == "mtls"
    files = TlsFiles(paths["authority"], paths["certificate"], paths["key"], mutual)
    names = [*(vehicle_id(number) for number in range(1, vehicles + 1)), GATEWAY]
    passwords = {} if mutual else {name: secrets.token_urlsafe(18) for name in names}
    certificates = None
    if mutual:
        certificates = directory / "clients"
        certificates.mkdir()
        for name in names:
            write_client_certificate(certificates / f"{name}.pem", authority, name)
    accounts = tuple(
        Account(name, passwords.get(name), "gateway" if name == GATEWAY else "vehicle") for name in names
    )
    return Credentials(Security(files, accounts), paths["authority"], passwords, certificates)


def make_keystore(directory: Path, *addresses: str) -> tuple[Path, Path]:
    """Make an authority and a server's key and certificate in one PEM file, as Kafka's brokers read them.

    Args:
        directory: made here; only its owner can read it.
        addresses: the server's.

    Returns:
        The server's file, and the authority's, against which clients check it.
    """
    directory.mkdir(mode=0o700)
    authority = trustme.CA(organization_name=_ORGANIZATION, organization_unit_name="authority of one run")
    certificate = authority.issue_cert(
        *addresses, organization_name=_ORGANIZATION, organization_unit_name="broker"
    )
    # Java reads a key in PKCS #8 alone.
    key = load_pem_private_key(certificate.private_key_pem.bytes(), None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    store, authority_file = directory / "keystore.pem", directory / "authority.pem"
    write_secret(store, b"".join([key, *(blob.bytes() for blob in certificate.cert_chain_pems)]).decode())
    authority.cert_pem.write_to_path(authority_file)
    return store, authority_file


def make_shared_keys(
    directory: Path, vehicles: int, use: Literal["oscore", "dtls-psk"] = "oscore"
) -> Credentials:
    """Make a key for each vehicle, which it shares with the gateway alone; there is no broker.

    Args:
        directory: made here; only its owner can read it.
        vehicles: how many, from number 1 on.
        use: what the keys are for.
    """
    directory.mkdir(mode=0o700)
    keys = {vehicle_id(number): secrets.token_hex(KEY_BYTES) for number in range(1, vehicles + 1)}
    file = directory / "keys.json"
    write_secret(file, json.dumps(keys))
    return Credentials(OPEN, None, {}, keys=SharedKeys(str(file), use))


def write_client_certificate(
    path: Path, authority: trustme.CA, name: str, *, not_after: datetime | None = None
) -> None:
    """Write a client's certificate (its name is the subject's common name) and its key (P-256) into one file."""
    certificate = authority.issue_cert(
        f"{name.lower()}.ivsim.invalid",
        common_name=name,
        organization_name=_ORGANIZATION,
        organization_unit_name="client",
        not_after=not_after,
    )
    write_secret(path, certificate.private_key_and_cert_chain_pem.bytes().decode())
