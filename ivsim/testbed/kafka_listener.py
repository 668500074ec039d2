"""The listeners at which a run's Kafka meets its clients: in the clear, or SASL_SSL with keys of its own."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ivsim.testbed.credentials import make_keystore
from ivsim.testbed.security import write_secret
from schemas.kafka_login import MECHANISM, PROTOCOL, SCRAM, jaas, read_login

PLAINTEXT: Final = "plaintext"
SASL_SSL: Final = "sasl-ssl"
_ADDRESS: Final = "127.0.0.1"
_USER: Final = "ivsim"


@dataclass(frozen=True)
class Listener:
    """What of a broker's configuration its clients' listeners decide.

    Attributes:
        protocol: Kafka's name of it, which is the first listener's too.
        login: path of the file by which clients log in; "" without.
        properties: the broker's, beside the listener's address.
    """

    protocol: str
    login: str
    properties: Mapping[str, str]

    def named(self, names: Sequence[str]) -> dict[str, str]:
        """Return the properties of a broker that has further listeners, alike but for their names."""
        if not names:
            return dict(self.properties)
        kinds = [self.protocol, *names]
        found = {
            **self.properties,
            "listener.security.protocol.map": ",".join(
                [*(f"{name}:{self.protocol}" for name in kinds), "CONTROLLER:PLAINTEXT"]
            ),
        }
        for name in names:
            own = f"listener.name.{name.lower()}."
            found[f"{own}num.network.threads"] = "1"
            of_first = f"listener.name.{self.protocol.lower()}."
            found |= {
                own + key.removeprefix(of_first): value
                for key, value in self.properties.items()
                if key.startswith(of_first)
            }
        return found


IN_THE_CLEAR: Final = Listener("PLAINTEXT", "", {})


class SaslSsl:
    """Keys and account of one broker, in a directory that only its owner reads; `remove` deletes it.

    There is one account: all of a run's processes are one user's.
    """

    def __init__(self, directory: Path, addresses: Sequence[str] = ()) -> None:
        """Take the directory, and at which addresses clients find it beside loopback."""
        self.directory = directory
        self._addresses = (_ADDRESS, *addresses)

    def make(self) -> Listener:
        """Make authority, certificate and account; for a broker that has storage already it would be too late."""
        store, authority = make_keystore(self.directory, *self._addresses)
        login = self.directory / "login.properties"
        password = secrets.token_urlsafe(24)
        write_secret(login, f"username={_USER}\npassword={password}\nauthority={authority}\n")
        trusted = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(authority),
        }
        return Listener(
            PROTOCOL,
            str(login),
            {
                **trusted,
                "listener.security.protocol.map": f"{PROTOCOL}:{PROTOCOL},CONTROLLER:PLAINTEXT",
                "inter.broker.listener.name": PROTOCOL,
                "sasl.enabled.mechanisms": MECHANISM,
                "sasl.mechanism.inter.broker.protocol": MECHANISM,
                f"listener.name.{PROTOCOL.lower()}.{MECHANISM.lower()}.sasl.jaas.config": jaas(
                    SCRAM, {"username": _USER, "password": password}
                ),
            },
        )

    def remove(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)


def format_arguments(listener: Listener, directory: Path) -> list[str]:
    """Return what Kafka's formatting tool is told beside id and configuration: the account, out of a file.

    A password among a process's arguments could be read by every user of the machine.
    """
    if not listener.login:
        return []
    words = read_login(listener.login)
    file = directory / "format.arguments"
    write_secret(file, f"--add-scram\n{MECHANISM}=[name={words.username},password={words.password}]\n")
    return [f"@{file}"]
