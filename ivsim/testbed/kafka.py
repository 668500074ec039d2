"""A Kafka broker of the run's own; makes no topic, writes no record."""

from __future__ import annotations

import base64
import shutil
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from ivsim.testbed.kafka_admin import answers
from ivsim.testbed.kafka_listener import IN_THE_CLEAR, PLAINTEXT, Listener, SaslSsl, format_arguments
from ivsim.testbed.owned_server import OwnedServer
from ivsim.testbed.paths import compose_dir, how_to_get, installed_jars, jars_dir, set_up
from ivsim.testbed.registry import RunRecord
from ivsim.testbed.security import write_secret
from ivsim.testbed.server import ServerKind
from schemas.errors import Refusal
from schemas.java import JIT, QUICK_JAVA, Jit
from schemas.namespace import inside
from twin import class_archive

# The formatting tool lives for a second: most of that is the start of Java itself.
SHORT_LIVED_JAVA = ("-XX:+UseSerialGC", *QUICK_JAVA, "-Xshare:auto")

# Where nobody else listens, before the node's number is added.
CLIENT_PORT, CONTROLLER_PORT, SECURE_PORT = 9_091, 9_191, 9_291


class KafkaServer(OwnedServer):
    """One KRaft node, with its log in the run's directory; alone, or one of a cluster (`kafka_cluster`).

    Args:
        java_options: further options of Java; None for those that make it start sooner.
        jit: how far its Java compiles.
        node: its id, from 1.
        keystore: PEM file of key and certificates; with it, a listener of TLS beside the plain one.
        host: address of its listeners.
        namespace: in which it stands, and nobody else listens; None: this host's own.
        security: `plaintext`, or `sasl-ssl`: all clients log in, over TLS, with keys of this server's own.
        listener: of its cluster, whose nodes have keys and account in common; None: as `security` says.
        relayed: further addresses, HOST:PORT, at which clients find it by a relay each.
        storage: the `log` that a node of this id has left, which stays when this one is closed; None: a new one.

    Attributes:
        bootstrap: address of the clients' listener, once it is reserved.
        login: path of the file by which they log in; "" without.
        secure: address of the listener of TLS; "" without.
        behind: of each of those further addresses, where its relay has to lead.
    """

    START_TIMEOUT_S = 60.0

    def __init__(
        self,
        record: RunRecord,
        *,
        heap_mb: int = 512,
        name: str = "kafka",
        java_options: Sequence[str] | None = None,
        jit: Jit = "quick",
        node: int = 1,
        keystore: Path | None = None,
        host: str = "127.0.0.1",
        namespace: str | None = None,
        security: str = PLAINTEXT,
        listener: Listener | None = None,
        relayed: Sequence[str] = (),
        storage: Path | None = None,
    ) -> None:
        super().__init__(record, name, namespace)
        self._host = host
        self._node = node
        self._keystore = keystore
        self._archive = class_archive.java_options("kafka")
        found = self._archive if java_options is None else java_options
        self._java_options = [*JIT[jit], *found]
        self._heap_mb = heap_mb
        self._listener: Listener = listener or IN_THE_CLEAR
        own = listener is None and security != PLAINTEXT
        hosts = [address.rpartition(":")[0] for address in relayed]
        self._keys = SaslSsl(record.directory / f"{name}-keys", hosts) if own else None
        self.behind = dict.fromkeys(relayed, "")
        self._storage = storage
        self._argv: list[str] = []
        self.bootstrap = self._controller = ""
        self.secure = ""

    def _prepare(self) -> None:
        self.reserve()
        self.prepare([self.voter], cluster_id())

    def reserve(self) -> None:
        """Hold the ports of its listeners."""
        self.bootstrap, self._controller = self._address(CLIENT_PORT), self._address(CONTROLLER_PORT)
        if self._keystore is not None:
            self.secure = self._address(SECURE_PORT)
        for advertised in self.behind:
            self.behind[advertised] = f"{self._host}:{self._held_port(self._host)}"

    def _address(self, alone: int) -> str:
        """Return a free address; in a namespace of its own that is node by node from the port `alone` on."""
        if self._namespace is not None:
            return f"{self._host}:{alone + self._node}"
        return f"{self._host}:{self._held_port(self._host)}"

    @property
    def voter(self) -> str:
        """How the others of its cluster find it."""
        return f"{self._node}@{self._controller}"

    def prepare(self, voters: Sequence[str], cluster: str, more: Mapping[str, str] | None = None) -> None:
        """Write its configuration and format its storage.

        Args:
            voters: of the cluster, itself among them.
            cluster: its id.
            more: properties beside those that each node has.
        """
        java = java_command()
        class_path = f"{installed_jars('kafka').resolve()}/*"
        self._make_directory()
        if self._keys is not None:
            self._record.scratch(self._keys.directory)
            self._listener = self._keys.make()
        properties = self._configure(voters, more or {})
        if self._storage is None:
            self._format(java, class_path, properties, cluster)
        # Killed, it would leave its native libraries in the machine's temporary directory.
        own = (f"-Xmx{self._heap_mb}m", f"-Djava.io.tmpdir={self._dir}")
        options = [*own, *self._java_options, "-cp", class_path]
        self._argv = [java, *options, "kafka.Kafka", str(properties)]

    @property
    def login(self) -> str:
        return self._listener.login

    def relaunch(self) -> None:
        """Begin to start again after a kill, with the same address and log."""
        self._launch(self._argv)

    def ready(self) -> bool:
        with inside(self._namespace):
            return answers(self.bootstrap, timeout_s=1.0, login=self.login)

    def close(self) -> None:
        """End it, and remove its log and keys; idempotent."""
        super().close()
        if self._keys is not None:
            self._keys.remove()

    @property
    def log(self) -> Path:
        """Where its records lie."""
        return self._dir / "log" if self._storage is None else self._storage

    def _configure(self, voters: Sequence[str], more: Mapping[str, str]) -> Path:
        properties = self._dir / "server.properties"
        listeners = advertised = f"{self._listener.protocol}://{self.bootstrap}"
        # A client is told the address that belongs to the listener that it has asked: each relay needs its own.
        names = [f"RELAYED{number}" for number in range(len(self.behind))]
        for name, (address, behind) in zip(names, self.behind.items(), strict=True):
            listeners += f",{name}://{behind}"
            advertised += f",{name}://{address}"
        secured: dict[str, str] = {}
        if self._keystore is not None:
            listeners += f",SECURE://{self.secure}"
            advertised += f",SECURE://{self.secure}"
            secured = {
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SSL",
                "listener.name.secure.ssl.keystore.type": "PEM",
                "listener.name.secure.ssl.keystore.location": str(self._keystore),
            }
        # A later line of a file of properties takes the place of an earlier one.
        own = {
            "node.id": str(self._node),
            "listeners": f"{listeners},CONTROLLER://{self._controller}",
            "advertised.listeners": advertised,
            "controller.quorum.voters": ",".join(voters),
            "log.dirs": str(self.log),
            **self._listener.named(names),
            **secured,
            **more,
        }
        shared = (compose_dir() / "kafka" / "server.properties").read_text()
        write_secret(properties, shared + "".join(f"{key}={value}\n" for key, value in own.items()))
        return properties

    def _format(self, java: str, class_path: str, properties: Path, cluster: str) -> None:
        done = subprocess.run(
            [java, "-Xmx128m", *SHORT_LIVED_JAVA, *self._archive, "-cp", class_path, "kafka.tools.StorageTool", "format",
             "-t", cluster, "-c", str(properties), *format_arguments(self._listener, self._dir)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise Refusal(
                f"Kafka's storage could not be formatted: {(done.stderr or done.stdout).strip()[-400:]}"
            )


def cluster_id() -> str:
    """Return a new cluster id: 16 bytes in URL-safe base64 that never begin with "-", like an option."""
    first, *others = uuid.uuid4().bytes
    return base64.urlsafe_b64encode(bytes([first & 0x7F, *others])).decode().rstrip("=")


def java_command() -> str:
    """Return the path of `java`; Refusal when there is none."""
    java = shutil.which("java")
    if java is None:
        raise Refusal(f"no Java found: {how_to_get('default-jre-headless')}, version 17 or newer")
    return java


def _found() -> str:
    directory = installed_jars("kafka")
    return f"{len(list(directory.glob('*.jar')))} in {directory}"


def _version() -> str | None:
    found = sorted(jars_dir("kafka").glob("kafka-server-[0-9]*.jar"))
    return found[-1].stem.rpartition("-")[2] if found else None


KIND = ServerKind(
    "kafka",
    "jars of Kafka",
    f"{set_up()} (one Maven run)",
    _found,
    _version,
    KafkaServer,
    needed_for="every run without --kafka",
)
