"""A Pulsar of the run's own on loopback: broker, bookie and RocksDB metadata in one process; makes no topic."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Final

from ivsim.testbed.jars import fetch
from ivsim.testbed.kafka import java_command
from ivsim.testbed.owned_server import OwnedServer
from ivsim.testbed.paths import compose_dir, jars_dir
from ivsim.testbed.process import NotReady
from ivsim.testbed.registry import RunRecord
from ivsim.testbed.server import ServerKind
from schemas.errors import Refusal
from schemas.namespace import inside

NAME: Final = "pulsar"
# What `ivsim platform install pulsar` gets; the jars' version is in compose/pulsar/pom.xml.
CLIENT, CLIENT_VERSION = "pulsar-client", "3.13.0"
REMEDY: Final = "ivsim platform install pulsar"
LOCAL: Final = "127.0.0.1"
# Where nobody else listens: of broker, administration and bookie.
ALONE: Final = (6_650, 8_080, 3_181)
STOP_TIMEOUT_S: Final = 20.0
ANSWER_S: Final = 30.0
# maxMessageSize in compose/pulsar/standalone.conf
MESSAGE_BYTES: Final = 5_242_880
_OPENED: Final = (
    "java.base/java.io",
    "java.base/java.util.zip",
    "java.base/java.nio",
    "java.base/jdk.internal.misc",
    "java.base/sun.net",
    "java.management/sun.management",
)
_PROPERTIES: Final = (
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dlog4j.shutdownHookEnabled=false",
    "-Dbookkeeper.metadata.bookie.drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadataBookieDriver",
    "-Dbookkeeper.metadata.client.drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadataClientDriver",
)


class PulsarServer(OwnedServer):
    """One standalone Pulsar with its data in the run's directory.

    Args:
        heap_mb: largest heap; as much again is direct memory.
        synced: whether the journal is flushed before a message is acknowledged.
        host: address of its listeners.
        namespace: in which it stands, and nobody else listens; None: this host's own.
    """

    START_TIMEOUT_S = 120.0

    def __init__(
        self,
        record: RunRecord,
        *,
        heap_mb: int = 512,
        synced: bool = False,
        host: str = LOCAL,
        namespace: str | None = None,
        name: str = NAME,
    ) -> None:
        super().__init__(record, name, namespace)
        self._host = host
        self._heap_mb = heap_mb
        self._argv: list[str] = []
        self.synced = synced
        self.port = self._web_port = self._bookie_port = 0

    @property
    def url(self) -> str:
        return f"pulsar://{self._host}:{self.port}"

    def sync(self, synced: bool) -> None:
        """Restart with the journal flushed before a message is acknowledged, or not; nothing where it is so already."""
        if synced != self.synced:
            self.synced = synced
            self._configure()
            self.restart()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return the answer of the administration's HTTP API below /admin/v2; NotReady for any but 2xx."""
        status, text = self._asked(method, path, body, ANSWER_S)
        if not 200 <= status < 300:
            raise NotReady(f"Pulsar answered {status} to {method} {path}: {text.strip()[:300]}")
        return json.loads(text) if text.strip() else None

    def _asked(self, method: str, path: str, body: Any, timeout_s: float) -> tuple[int, str]:
        headers = {"Content-Type": "application/json"}
        text = None if body is None else json.dumps(body)
        with (
            inside(self._namespace),
            closing(HTTPConnection(self._host, self._web_port, timeout=timeout_s)) as asked,
        ):
            asked.request(method, f"/admin/v2{path}", text, headers)
            answer = asked.getresponse()
            return answer.status, answer.read().decode()

    def relaunch(self) -> None:
        """Begin to start again after a kill, with the same address and data; `ready` says when it answers."""
        self._launch(self._argv, stop_timeout_s=STOP_TIMEOUT_S)

    def ready(self) -> bool:
        """Return whether it answers, and has the namespace of topics."""
        try:
            status, text = self._asked("GET", "/namespaces/public", None, 2.0)
        except (OSError, HTTPException):
            return False
        return status == 200 and "public/default" in text

    def _prepare(self) -> None:
        java, jars = java_command(), _jars()
        self._make_directory()
        self.port, self._web_port, self._bookie_port = self._ports()
        self._argv = self._command(java, jars)
        self._configure()

    def _ports(self) -> tuple[int, int, int]:
        if self._namespace is not None:
            return ALONE
        first, second, third = (self._held_port(self._host) for _ in range(3))
        return first, second, third

    def _configure(self) -> None:
        shared = (compose_dir() / NAME / "standalone.conf").read_text()
        own = {
            "bindAddress": self._host,
            "advertisedAddress": self._host,
            "brokerServicePort": self.port,
            "webServicePort": self._web_port,
            "journalSyncData": str(self.synced).lower(),
        }
        lines = "".join(f"{key}={value}\n" for key, value in own.items())
        (self._dir / "standalone.conf").write_text(shared + lines)

    def _command(self, java: str, jars: Path) -> list[str]:
        return [
            java,
            f"-Xms{self._heap_mb // 2}m",
            f"-Xmx{self._heap_mb}m",
            f"-XX:MaxDirectMemorySize={self._heap_mb}m",
            *(word for package in _OPENED for word in ("--add-opens", f"{package}=ALL-UNNAMED")),
            *_PROPERTIES,
            f"-Djava.io.tmpdir={self._dir}",
            f"-Dlog4j2.configurationFile={(compose_dir() / NAME / 'log4j2.xml').resolve()}",
            "-cp",
            f"{jars.resolve()}/*",
            "org.apache.pulsar.PulsarStandaloneStarter",
            "--config",
            str(self._dir / "standalone.conf"),
            "--no-functions-worker",
            "--no-stream-storage",
            "--metadata-dir",
            str(self._dir / "metadata"),
            "--bookkeeper-dir",
            str(self._dir / "bookkeeper"),
            "--bookkeeper-port",
            str(self._bookie_port),
        ]


def install() -> None:
    """Fetch the jars with Maven and the client with pip; Refusal when one of them cannot.

    Jars appear under their name all at once: a broken download leaves none.
    """
    fetch((NAME,))
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    done = subprocess.run([*pip, f"{CLIENT}=={CLIENT_VERSION}"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines() or ["(it said nothing)"]
        raise Refusal(f"pip ended with exit code {done.returncode}: {said[-1]}")


def _jars() -> Path:
    directory = jars_dir(NAME)
    if not any(directory.glob("pulsar-broker-*.jar")):
        raise Refusal(f"no Pulsar in {directory}: run `{REMEDY}`")
    return directory


def _found() -> str:
    directory = _jars()
    return f"{len(list(directory.glob('*.jar')))} in {directory}"


def _version() -> str | None:
    found = sorted(jars_dir(NAME).glob("pulsar-broker-[0-9]*.jar"))
    return found[-1].stem.rpartition("-")[2] if found else None


KIND = ServerKind(
    NAME,
    "jars of Pulsar",
    REMEDY,
    _found,
    _version,
    PulsarServer,
    needed_for="--platform pulsar",
)
