"""The peer of somebody else's that a run's vehicles speak to: what its URL says, whose load it is, who logs in as whom."""

from __future__ import annotations

import ipaddress
import json
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from gateways.protocols import PROTOCOLS
from gateways.protocols.base import Scheme, Tls
from gateways.protocols.tls import blocking_context
from schemas.errors import Refusal

EVERYBODY: Final = "*"
ANSWER_S: Final = 5.0


SCHEMES: Final[Mapping[str, tuple[str, Scheme]]] = {
    scheme: (protocol.name, said)
    for protocol in PROTOCOLS.values()
    for scheme, said in protocol.schemes.items()
}
"""Scheme to the protocol that it is of and what it says besides."""


@dataclass(frozen=True)
class Target:
    """A broker, or a server where the protocol has none, that is there.

    Attributes:
        scheme: a key of SCHEMES.
        host: its name or address, as it was written; the name that its certificate must have.
        port: of TCP or UDP.
    """

    scheme: str
    host: str
    port: int

    @property
    def protocol(self) -> str:
        return SCHEMES[self.scheme][0]

    @property
    def security(self) -> str:
        """Return how its connections are protected: `plain`, `tls`, `dtls-psk`."""
        return SCHEMES[self.scheme][1].security

    def addresses(self) -> list[str]:
        """Return its addresses; OSError for a name that has none."""
        found = socket.getaddrinfo(self.host, self.port)
        return list(dict.fromkeys(str(one[4][0]) for one in found))

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def parse(url: str) -> Target:
    """Return what a URL names; ValueError says what it may be."""
    if "@" in url:
        # What is typed is in the shell's history, in the list of processes and in the manifest; at least it is not printed.
        raise ValueError("no user and no password in the URL: name a file of them")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"{url!r}: {error}") from None
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise ValueError(
            f"{url!r}: expected SCHEME://HOST or SCHEME://HOST:PORT, SCHEME one of {', '.join(SCHEMES)}"
        )
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ValueError(f"{url!r}: nothing may stand behind host and port")
    if port == 0:
        raise ValueError(f"{url!r}: port 0 is none")
    return Target(parts.scheme, parts.hostname, port or SCHEMES[parts.scheme][1].port)


def check_consent(target: Target, consent: str | None, load: str) -> None:
    """Refuse to load a machine that is not this one, unless its name was typed once more for that.

    Args:
        target: the broker.
        consent: the name that was typed; None: none was.
        load: how much, in words.
    """
    try:
        addresses = target.addresses()
    except OSError as error:
        raise Refusal(f"--target {target}: {target.host}: {error.strerror or error}") from None
    if consent != target.host and not _is_here(addresses):
        raise Refusal(
            f"--target {target}: {load} would go to {target.host} ({addresses[0]}), which is not this machine: if it is"
            f" yours to load, add --target-consent {target.host}"
        )


def needs_consent(target: Target) -> bool:
    """Say whether somebody has to agree; a name without an address is refused elsewhere."""
    try:
        return not _is_here(target.addresses())
    except OSError:
        return False


def _is_here(addresses: list[str]) -> bool:
    return all(ipaddress.ip_address(one.partition("%")[0]).is_loopback for one in addresses)


def check_answers(target: Target, tls: Tls | None) -> None:
    """Refuse a peer that takes no connection, or is not the one its name says, before anything is started.

    Args:
        target: the peer.
        tls: how clients meet it; None in the clear.
    """
    context = None
    if tls is not None:
        try:
            context = blocking_context(tls)
        except Refusal as refusal:
            raise Refusal(f"--target {target}: {refusal}") from None
    if target.security == "dtls-psk":
        return  # nobody answers a client without its key: who cannot connect says so
    try:
        PROTOCOLS[target.protocol].reach(target.host, target.port, ANSWER_S)
    except OSError as error:
        raise Refusal(f"--target {target}: no answer: {error.strerror or error}") from None
    if context is None:
        return
    try:
        with socket.create_connection((target.host, target.port), timeout=ANSWER_S) as connection:
            context.wrap_socket(connection, server_hostname=target.host).close()
    except ssl.SSLCertVerificationError as error:
        raise Refusal(f"--target {target}: its certificate: {error.verify_message}") from None
    except OSError as error:  # ssl.SSLError too
        raise Refusal(f"--target {target}: no TLS: {error.strerror or error}") from None


class Account(NamedTuple):
    """By which name and password a client logs in."""

    username: str
    password: str


@dataclass(frozen=True)
class Accounts:
    """Who logs in as whom: by the id of a vehicle, by `gateway`, or `*` for whoever has none of their own."""

    known: Mapping[str, Account]

    @classmethod
    def read(cls, path: Path) -> Accounts:
        """Return the accounts of a JSON file: name -> {"username": ..., "password": ...}; Refusal names file and key."""
        try:
            found: Any = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise Refusal(f"--target-accounts {path}: {error.strerror}") from None
        except ValueError as error:
            raise Refusal(f"--target-accounts {path}: no JSON: {error}") from None
        if not isinstance(found, dict) or not found:
            raise Refusal(f"--target-accounts {path}: expected an object, name -> username and password")
        known = {}
        for name, account in found.items():
            texts = isinstance(account, dict) and all(isinstance(one, str) for one in account.values())
            if not texts or set(account) != {"username", "password"}:
                raise Refusal(f"--target-accounts {path}: {name}: expected username and password, both texts")
            known[name] = Account(**account)
        return cls(known)

    def of(self, name: str) -> Account | None:
        """Return the account of a client; None connects without."""
        return self.known.get(name, self.known.get(EVERYBODY))
