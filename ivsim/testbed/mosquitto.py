"""A mosquitto of the run's own, on loopback or on the cloud side; knows nothing of what passes through."""

from __future__ import annotations

import os
import signal
import subprocess

from gateways.protocols.mqtt.address import TOPIC_FILTER, mqtt_topic
from gateways.protocols.mqtt.members import GROUP_TOPICS
from ivsim.testbed.owned_server import OwnedServer
from ivsim.testbed.paths import compose_dir
from ivsim.testbed.process import has_listener
from ivsim.testbed.programs import first_line, program, where
from ivsim.testbed.registry import RunRecord
from ivsim.testbed.security import OPEN, Security, write_secret
from ivsim.testbed.server import ServerKind

DEFAULT_PORT = 1883
DEFAULT_TLS_PORT = 8883

# Named one by one: a client whom the authority once knew and the run does not may do nothing.
VEHICLE_ACL = f"user {{name}}\ntopic write {mqtt_topic('{name}')}\n"
GATEWAY_ACL = (
    f"user {{name}}\ntopic read {TOPIC_FILTER}\ntopic readwrite {GROUP_TOPICS}#\ntopic read $SYS/#\n"
)


class MosquittoServer(OwnedServer):
    """One broker process; it has a listener when `__enter__` returns.

    Attributes:
        host: the address it listens on, the one of the cloud side inside a namespace.
        port: a free one on loopback, else the protocol's registered one (the namespace has no other server).
    """

    START_TIMEOUT_S = 15.0

    def __init__(
        self,
        record: RunRecord,
        *,
        host: str = "127.0.0.1",
        port: int | None = None,
        namespace: str | None = None,
        security: Security = OPEN,
        name: str = "mosquitto",
    ) -> None:
        super().__init__(record, name, namespace)
        self._security = security
        self.host = host
        self.port = port or self._own_port()

    def last_save_s(self) -> float:
        """Return when it last wrote its queues to disk, in s since 1970; 0.0 when it has not yet."""
        try:
            return (self._dir / "mosquitto.db").stat().st_mtime
        except FileNotFoundError:
            return 0.0

    def save(self) -> None:
        """Have it write its sessions and queues to disk; ProcessDied when it ends meanwhile, NotReady when it takes too long."""
        before_s = self.last_save_s()
        os.kill(self.process.pid, signal.SIGUSR1)  # mosquitto(8)
        self.process.wait_ready(lambda: self.last_save_s() != before_s, self.START_TIMEOUT_S)

    def relaunch(self) -> None:
        """Begin to start again after a kill, with the same address and what the last save had kept."""
        self._launch([_found(), "-c", str(self._dir / "mosquitto.conf")])

    def ready(self) -> bool:
        return has_listener(self.process.pid, self.host, self.port)

    def _prepare(self) -> None:
        self._make_directory()
        self._configure()

    def _own_port(self) -> int:
        if self._namespace is None:
            return self._held_port(self.host)
        return DEFAULT_PORT if self._security.tls is None else DEFAULT_TLS_PORT

    def _configure(self) -> None:
        shared = (compose_dir() / "mosquitto" / "mosquitto.conf").read_text()
        # As root mosquitto would change its user, and with that lose its parent-death signal.
        own = [f"listener {self.port} {self.host}", f"persistence_location {self._dir}/", "user root"]
        text = shared + "\n".join(own + self._tls_lines() + self._account_lines()) + "\n"
        (self._dir / "mosquitto.conf").write_text(text)

    def _tls_lines(self) -> list[str]:
        tls = self._security.tls
        if tls is None:
            return []
        mutual = str(tls.require_client_certificate).lower()
        return [
            "tls_version tlsv1.3",
            f"cafile {tls.authority}",
            f"certfile {tls.certificate}",
            f"keyfile {tls.key}",
            f"require_certificate {mutual}",
            f"use_identity_as_username {mutual}",
        ]

    def _account_lines(self) -> list[str]:
        if not self._security.accounts:
            return ["allow_anonymous true"]
        passwords, permissions = self._dir / "passwords", self._dir / "acl"
        roles = {"gateway": GATEWAY_ACL, "vehicle": VEHICLE_ACL}
        permissions.write_text("".join(roles[a.role].format(name=a.name) for a in self._security.accounts))
        lines = ["allow_anonymous false", f"acl_file {permissions}"]
        if self._security.by_certificate:
            return lines
        write_secret(passwords, "".join(f"{a.name}:{a.password}\n" for a in self._security.accounts))
        subprocess.run(["mosquitto_passwd", "-U", str(passwords)], check=True, capture_output=True)
        return [*lines, f"password_file {passwords}"]


def _found() -> str:
    return program("mosquitto", "mosquitto")


def _version() -> str | None:
    path = where("mosquitto")
    return path and first_line(path, "-h").rpartition(" ")[2]


KIND = ServerKind(
    "mosquitto",
    "mosquitto",
    "apt-get install mosquitto",
    _found,
    _version,
    MosquittoServer,
    saves_late=True,
    forgets_shares=True,
)
