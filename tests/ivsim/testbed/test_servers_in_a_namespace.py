from __future__ import annotations

import socket
import struct
import subprocess
from collections.abc import Iterator

import pytest

from ivsim.testbed.mosquitto import DEFAULT_PORT as MQTT_PORT
from ivsim.testbed.mosquitto import MosquittoServer
from ivsim.testbed.process import TCP_LISTEN, has_listener
from ivsim.testbed.rabbitmq import DEFAULT_PORT as AMQP_PORT
from ivsim.testbed.rabbitmq import RabbitmqServer
from ivsim.testbed.registry import RunRecord
from schemas.namespace import inside

pytestmark = [pytest.mark.broker, pytest.mark.netns]

CLOUD = "198.19.0.1"


@pytest.fixture
def namespace(run_record: RunRecord) -> Iterator[str]:
    name = f"ivsim-{run_record.run_id}-c"
    run_record.namespace(name)
    subprocess.run(["ip", "netns", "add", name], check=True)
    for words in (("addr", "add", f"{CLOUD}/32", "dev", "lo"), ("link", "set", "lo", "up")):
        subprocess.run(["ip", "-n", name, *words], check=True)
    yield name
    subprocess.run(["ip", "netns", "delete", name], check=True)


@pytest.mark.parametrize(("make", "port"), [(MosquittoServer, MQTT_PORT), (RabbitmqServer, AMQP_PORT)])
def test_it_listens_on_the_clouds_address_and_nowhere_else(
    run_record: RunRecord, namespace: str, make: type[MosquittoServer | RabbitmqServer], port: int
) -> None:
    with make(run_record, host=CLOUD, namespace=namespace) as server:
        assert server.port == port
        assert has_listener(server.process.pid, CLOUD, port)
        assert listening_addresses(namespace) <= {CLOUD, "127.0.0.1", "::1"}
    inside = subprocess.run(
        ["ip", "netns", "pids", namespace], capture_output=True, text=True, check=True
    ).stdout
    assert inside.strip() == ""


@pytest.mark.parametrize("in_namespace", [True, False])
def test_nobody_is_given_a_port_of_rabbitmqs_meanwhile(
    run_record: RunRecord, namespace: str, in_namespace: bool
) -> None:
    """A node refuses to start while a client of any address has its port for nodes: one that chose its source, say."""
    where = namespace if in_namespace else None
    source = CLOUD if in_namespace else "127.0.0.2"
    server = RabbitmqServer(run_record, host=CLOUD if in_namespace else "127.0.0.1", namespace=where)
    try:
        environment = server.environment()
        with inside(where):
            for port, address in (
                (environment["RABBITMQ_DIST_PORT"], source),
                (environment["RABBITMQ_DIST_PORT"], "127.0.0.1"),
                (environment["ERL_EPMD_PORT"], "127.0.0.1"),
            ):
                with socket.socket() as client, pytest.raises(OSError, match="in use"):
                    client.bind((address, int(port)))
    finally:
        server.close()


def listening_addresses(namespace: str) -> set[str]:
    argv = ["ip", "netns", "exec", namespace, "cat", "/proc/net/tcp", "/proc/net/tcp6"]
    rows = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    return {_address(row.split()[1].split(":")[0]) for row in rows if row.split()[3] == TCP_LISTEN}


def _address(hexadecimal: str) -> str:
    words = struct.unpack(f"<{len(hexadecimal) // 8}I", bytes.fromhex(hexadecimal))
    packed = struct.pack(f">{len(words)}I", *words)
    return socket.inet_ntop(socket.AF_INET if len(words) == 1 else socket.AF_INET6, packed)
