"""What libraries do not promise, and gateways/protocols/*/private_names.py need."""

from __future__ import annotations

import ast
import socket
from pathlib import Path

import paho.mqtt.client as mqtt
import pika
import pika.connection
import pytest
from pika import frame, spec
from pika.exceptions import StreamLostError

from gateways import protocols
from gateways.protocols.amqp.private_names import PRIVATE as OF_PIKA
from gateways.protocols.amqp.private_names import CarriedConnection
from gateways.protocols.mqtt.private_names import PRIVATE as OF_PAHO
from gateways.protocols.mqtt.private_names import AdoptingClient

PROTOCOLS = Path(protocols.__file__).parent


def client() -> AdoptingClient:
    made = AdoptingClient(mqtt.CallbackAPIVersion.VERSION2, "c", protocol=mqtt.MQTTv5)
    made.connect_async("192.0.2.1", 1883, 60)
    return made


@pytest.mark.parametrize("name", OF_PAHO)
def test_paho_still_has_the_name(name: str) -> None:
    assert callable(getattr(mqtt.Client, name))


def test_paho_takes_the_socket_it_is_given_and_gives_it_back() -> None:
    one, events = client(), []
    one.on_socket_open = lambda _client, _data, sock: events.append(("open", sock))
    one.on_socket_close = lambda _client, _data, sock: events.append(("close", sock))
    one.on_disconnect = lambda *_: events.append(("disconnect", None))
    ours, theirs = socket.socketpair()
    with theirs:
        one.adopt(ours)
        assert one.socket() is ours
        while one.want_write():
            one.loop_write()
        assert theirs.recv(100)[:9] == b"\x10\x0e\x00\x04MQTT\x05"
        one.drop_socket()
        assert theirs.recv(100) == b""
        assert events == [("open", ours), ("close", ours)]
        assert one.socket() is None
        one.drop_socket()


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"\x40\x02\x00\x01", [(1, 0, False)]),
        (b"\x40\x03\x00\x01\x10", [(1, 0x10, False)]),  # no matching subscribers
        (b"\x40\x04\x00\x01\x97\x00", [(1, 0x97, True)]),  # quota exceeded
        (b"\x40\x02\x00\x09", []),
        (b"\x40\x02\x00\x01\x40\x02\x00\x01", [(1, 0, False)]),
    ],
)
def test_paho_takes_an_acknowledgement_of_two_bytes_as_any_other(
    answer: bytes, told: list[tuple[int, int, bool]]
) -> None:
    one, found = client(), []
    one.on_publish = lambda _client, _data, mid, reason, properties: found.append(
        (mid, reason.value, reason.is_failure, properties.isEmpty())
    )
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with theirs:
        one.adopt(ours)
        theirs.send(b"\x20\x03\x00\x00\x00")
        one.loop_read()
        sent = one.publish("a", b"b", 1)
        theirs.send(answer)
        one.loop_read()
        one.loop_read()
        assert found == [(*row, True) for row in told]
        assert sent.is_published() == bool(told)
        one.drop_socket()


def test_paho_makes_no_socket_of_its_own() -> None:
    with pytest.raises(RuntimeError, match="none was adopted"):
        client().reconnect()


@pytest.mark.parametrize("name", OF_PIKA)
def test_pika_still_has_the_name(name: str) -> None:
    assert callable(getattr(pika.connection.Connection, name))


def test_pika_asks_its_adapters_for_these_methods_and_no_other() -> None:
    asked = {name for name in OF_PIKA if name.startswith("_adapter_")}
    assert pika.connection.Connection.__abstractmethods__ == asked


class Carrier:
    """A stream for pika that the test reads and feeds."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.disconnects = 0
        self.opened: list[object] = []
        self.ended: list[BaseException] = []
        self.connection = CarriedConnection(
            pika.ConnectionParameters("broker", heartbeat=600),
            self.written.append,
            self.disconnect,
            opened=self.opened.append,
            ended=lambda _connection, error: self.ended.append(error),
        )

    def disconnect(self) -> None:
        self.disconnects += 1

    def say(self, method: object) -> None:
        self.connection.feed(frame.Method(0, method).marshal())

    def open(self) -> None:
        self.connection.begin()
        self.say(spec.Connection.Start(server_properties={}))
        self.say(spec.Connection.Tune(2047, 131_072, 60))
        self.say(spec.Connection.OpenOk())


async def test_pika_speaks_on_a_carried_stream() -> None:
    carrier = Carrier()
    carrier.connection.begin()
    assert carrier.written == [b"AMQP\x00\x00\x09\x01"]
    carrier.open()
    assert carrier.opened == [carrier.connection]
    heard = carrier.connection.bytes_received
    carrier.connection.heard()
    assert carrier.connection.bytes_received == heard + 1
    carrier.connection.close()
    assert carrier.disconnects == 0
    carrier.say(spec.Connection.CloseOk())
    assert carrier.disconnects == 1
    carrier.connection.end(None)
    assert [type(error).__name__ for error in carrier.ended] == ["ConnectionClosedByClient"]


async def test_pika_tells_of_a_stream_that_ends_by_itself() -> None:
    carrier = Carrier()
    carrier.open()
    carrier.connection.end(StreamLostError("gone", ConnectionResetError("reset")))
    assert [type(error) for error in carrier.ended] == [StreamLostError]
    assert carrier.connection.is_closed
    early = Carrier()
    early.connection.begin()
    early.connection.end(StreamLostError("gone", ConnectionResetError("reset")))
    assert len(early.ended) == 1
    assert early.opened == []


def test_no_other_file_reaches_into_paho() -> None:
    """Our own classes have private names too: only those that paho itself defines are looked for."""
    library = {name for name in vars(mqtt.Client) if name.startswith("_") and not name.startswith("__")}
    library |= {name for name in vars(mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)) if name.startswith("_")}
    found = []
    for path in (PROTOCOLS / "mqtt").glob("*.py"):
        if "paho" not in path.read_text() or path.name == "private_names.py":
            continue
        tree = ast.parse(path.read_text())
        used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        used |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        found += [f"{path.name}: {name}" for name in sorted(used & library)]
    assert found == []
