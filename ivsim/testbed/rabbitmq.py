"""A RabbitMQ of the run's own, beside any that the machine runs; declares neither exchange nor queue."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path

import pika

from gateways.protocols.amqp.address import amqp_routing_key
from ivsim.testbed.owned_server import OwnedServer
from ivsim.testbed.paths import compose_dir, how_to_get
from ivsim.testbed.process import OwnedProcess, has_listener
from ivsim.testbed.programs import program
from ivsim.testbed.rabbitmq_home import make_home
from ivsim.testbed.registry import RunRecord
from ivsim.testbed.security import OPEN, Account, Security, write_secret
from ivsim.testbed.server import ServerKind
from schemas.errors import Refusal
from schemas.namespace import inside

STOP_TIMEOUT_S = 20.0
DEFAULT_PORT = 5672
DEFAULT_TLS_PORT = 5671
LOCAL = "127.0.0.1"
ANY = "0.0.0.0"  # noqa: S104 - held, never listened on
# The wrapper in PATH changes to the user rabbitmq; this one runs as whoever starts it.
SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
# An address in place of a host name: the node comes up where nothing resolves names.
NODE_NAME = f"ivsim@{LOCAL}"
EXCHANGE = "amq.topic"


class RabbitmqServer(OwnedServer):
    """One node with its own name, ports, data and `epmd`.

    Without accounts everyone is `guest`. `exchange` is the topic exchange the permissions speak of.
    """

    START_TIMEOUT_S = 90.0

    def __init__(
        self,
        record: RunRecord,
        *,
        host: str = LOCAL,
        port: int | None = None,
        namespace: str | None = None,
        security: Security = OPEN,
        exchange: str = EXCHANGE,
        name: str = "rabbitmq",
    ) -> None:
        super().__init__(record, name, namespace)
        self._security = security
        self._exchange = exchange
        # Erlang takes seconds until it listens: others must not be given the ports meanwhile. A node refuses to start
        # while anybody has the one for nodes, at whatever address: a client that chose its source address is enough.
        self._epmd_port, self._nodes_port = self._held_port(), self._held_port(ANY)
        self._epmd: OwnedProcess | None = None
        self._scripts: Path | None = None
        self.host = host
        self.port = port or self._own_port()

    def close(self) -> None:
        """End node and `epmd`, and remove what they kept; idempotent."""
        try:
            super().close()
        finally:
            if self._epmd is not None:
                self._epmd.stop()

    def last_save_s(self) -> None:
        """Return None: it confirms a persistent message once that is saved."""

    def save(self) -> None:
        """Do nothing: it has saved a durable queue once it has confirmed it."""

    def forget(self, queues: Iterable[str]) -> None:
        """Delete these queues; one that is not there is no error."""
        # Plain brokers alone are kept, and there everyone is `guest`.
        parameters = pika.ConnectionParameters(self.host, self.port)
        with nullcontext() if self._namespace is None else inside(self._namespace):
            connection = pika.BlockingConnection(parameters)
        with connection, connection.channel() as channel:
            for queue in queues:
                channel.queue_delete(queue)

    def _prepare(self) -> None:
        self._make_directory()
        self._configure()
        self._start_epmd()

    def _start_epmd(self) -> None:
        # A node would start one that stays behind for good: this one is ours, and ends with us.
        argv = [program("epmd", "rabbitmq-server"), "-port", str(self._epmd_port), "-address", LOCAL]
        epmd = OwnedProcess(f"{self._name}-epmd", argv, self._record, namespace=self._namespace)
        self._epmd = epmd
        epmd.wait_ready(lambda: has_listener(epmd.pid, LOCAL, self._epmd_port), self.START_TIMEOUT_S)

    def relaunch(self) -> None:
        """Begin to start again after a kill, with the same address and data."""
        self._launch(
            [server_program()],
            environment=self.environment(),
            stop_timeout_s=STOP_TIMEOUT_S,
        )

    def ready(self) -> bool:
        return has_listener(self.process.pid, self.host, self.port)

    def environment(self) -> dict[str, str]:
        """Return the variables that a node takes its name, ports and files from."""
        scripts = {} if self._scripts is None else {"RABBITMQ_SCRIPTS_DIR": str(self._scripts)}
        return scripts | {
            # The server then replaces its shell, as under systemd: our process is the node itself.
            "RUNNING_UNDER_SYSTEMD": "true",
            "HOME": str(self._dir),
            "RABBITMQ_NODENAME": NODE_NAME,
            "RABBITMQ_USE_LONGNAME": "true",
            "ERL_CRASH_DUMP": os.devnull,
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_NODE_IP_ADDRESS": self.host,
            "RABBITMQ_DIST_PORT": str(self._nodes_port),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_MNESIA_BASE": str(self._dir / "data"),
            "RABBITMQ_LOG_BASE": str(self._dir / "log"),
            "RABBITMQ_PID_FILE": str(self._dir / "pid"),
            "RABBITMQ_CONFIG_FILE": str(self._dir / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._dir / "enabled_plugins"),
            "RABBITMQ_CONF_ENV_FILE": os.devnull,
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_EPMD_ADDRESS": LOCAL,
        }

    def _own_port(self) -> int:
        if self._namespace is None:
            return self._held_port(self.host)
        return DEFAULT_PORT if self._security.tls is None else DEFAULT_TLS_PORT

    def _configure(self) -> None:
        shared = compose_dir() / "rabbitmq"
        plugins = re.findall(r"\w+", (shared / "enabled_plugins").read_text())
        if self._security.by_certificate:
            plugins.append("rabbitmq_auth_mechanism_ssl")
        (self._dir / "enabled_plugins").write_text(f"[{','.join(plugins)}].\n")
        self._scripts = make_home(self._dir / "home", Path(server_program()), plugins)
        lines = self._listener_lines()
        if self._security.accounts:
            definitions = self._dir / "definitions.json"
            write_secret(definitions, json.dumps(definitions_of(self._security.accounts, self._exchange)))
            lines.append(f"load_definitions = {definitions}")
        text = (shared / "rabbitmq.conf").read_text() + "\n".join(lines) + "\n"
        (self._dir / "rabbitmq.conf").write_text(text)

    def _listener_lines(self) -> list[str]:
        tls = self._security.tls
        if tls is None:
            return [f"listeners.tcp.1 = {self.host}:{self.port}"]
        mutual = str(tls.require_client_certificate).lower()
        lines = [
            "listeners.tcp = none",
            f"listeners.ssl.1 = {self.host}:{self.port}",
            f"ssl_options.cacertfile = {tls.authority}",
            f"ssl_options.certfile = {tls.certificate}",
            f"ssl_options.keyfile = {tls.key}",
            f"ssl_options.verify = {'verify_peer' if tls.require_client_certificate else 'verify_none'}",
            f"ssl_options.fail_if_no_peer_cert = {mutual}",
            "ssl_options.versions.1 = tlsv1.3",
        ]
        if tls.require_client_certificate:
            lines += ["auth_mechanisms.1 = EXTERNAL", "ssl_cert_login_from = common_name"]
        return lines


def definitions_of(accounts: tuple[Account, ...], exchange: str) -> dict[str, object]:
    """Return RabbitMQ's definitions: a vehicle may use its own routing key, for an echo its own queue too."""
    return {
        "vhosts": [{"name": "/"}],
        "users": [_user(a) for a in accounts],
        "permissions": [_permission(a, exchange) for a in accounts],
        "topic_permissions": [_topic_permission(a, exchange) for a in accounts if a.role == "vehicle"],
    }


def _user(account: Account) -> dict[str, str]:
    # An empty hash is the hash of no password: such a user is known by its certificate alone.
    secret = {"password_hash": ""} if account.password is None else {"password": account.password}
    return {"name": account.name, "tags": "", **secret}


def _permission(account: Account, exchange: str) -> dict[str, str]:
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    # A queue is bound by whoever may write to it and read the exchange; the routing key is checked besides.
    queue = f".*echo[.]{re.escape(account.name)}"
    both = f"^({exchange.replace('.', '[.]')}|{queue})$"
    own = {"configure": f"^{queue}$", "write": both, "read": both}
    return {"user": account.name, "vhost": "/", **(everything if account.role == "gateway" else own)}


def _topic_permission(account: Account, exchange: str) -> dict[str, str]:
    own = f"^{amqp_routing_key('{username}').replace('.', '[.]')}$"
    return {"user": account.name, "vhost": "/", "exchange": exchange, "write": own, "read": own}


def server_program() -> str:
    """Return the path of RabbitMQ's server; Refusal when it is not installed."""
    if not SERVER.is_file():
        raise Refusal(f"no RabbitMQ found: {how_to_get('rabbitmq-server')}")
    return str(SERVER)


def _version() -> str | None:
    # `rabbitmqctl version` starts an Erlang node for it: its own folder says the same at once.
    found = sorted(SERVER.parents[1].glob("lib/rabbitmq_server-*"))
    return found[-1].name.partition("-")[2] if found else None


KIND = ServerKind(
    "rabbitmq",
    "rabbitmq-server",
    "apt-get install rabbitmq-server",
    server_program,
    _version,
    RabbitmqServer,
)
