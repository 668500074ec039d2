"""Real brokers over a lossy wire: tshark is the referee, and every sum is exact."""

from __future__ import annotations

import contextlib
import fcntl
import socket
import struct
import termios
import time
from collections import Counter

import paho.mqtt.client as paho
import pika
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import referee
from capture_child import CaptureChild
from lossy_wire import LossyWire

from ivsim.testbed.mosquitto import MosquittoServer
from ivsim.testbed.rabbitmq import RabbitmqServer
from schemas.topics import CLOUD_ADDRESS, vehicle_address, vehicle_id
from simulator.capture.byte_totals import SHARES
from simulator.links import namespaces

pytestmark = [pytest.mark.netns, pytest.mark.broker]
VEHICLES = (1, 2, 300)
DEADLINE_S = 60
ALL = (*SHARES[:7], "unattributed_bytes")


def publish_mqtt(namespace, payloads, qos, *, ping=False):
    """Publish all payloads from every vehicle and return when the broker has acknowledged all.

    At QoS 0 there is only TCP's acknowledgement: what still waits in a socket would be sent when the
    capture has stopped.
    """
    with namespaces.inside(namespace), contextlib.ExitStack() as stack:
        clients = []
        for number in VEHICLES:
            client = paho.Client(
                paho.CallbackAPIVersion.VERSION2, client_id=f"v{number}", protocol=paho.MQTTv5
            )
            client.connect_timeout = DEADLINE_S  # a lost SYN comes again after 1, 3 and 7 s
            client.connect(CLOUD_ADDRESS, 1883, bind_address=vehicle_address(number))
            stack.callback(client.disconnect)
            clients.append(client)
        loop_until(clients, lambda: all(client.is_connected() for client in clients))
        sent = []
        for payload in payloads:
            sent += [client.publish(f"vehicles/{id(client)}/status", payload, qos) for client in clients]
            for client in clients:
                client.loop(0.005)
        loop_until(clients, lambda: all(info.is_published() for info in sent))
        loop_until(clients, lambda: not any(unacknowledged_bytes(client.socket()) for client in clients))
        if ping:
            exchange_pings(clients)


def exchange_pings(clients):
    """Return when every client has sent a PINGREQ and has the answer."""
    answered = set()
    for client in clients:
        client.on_log = lambda c, _u, _level, text: answered.add(c) if text == "Received PINGRESP" else None
        # Known to the client alone: the broker would end one that is half a second late.
        client._keepalive = 1
    loop_until(clients, lambda: len(answered) == len(clients))


def unacknowledged_bytes(sock):
    """What a TCP socket has not sent or the peer has not acknowledged (tcp(7), SIOCOUTQ)."""
    return struct.unpack("i", fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4)))[0]


def loop_until(clients, condition):
    until = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < until
        for client in clients:
            client.loop(0.005)


def check_sums(done, directory):
    """The parts of every table add up to what the ring delivered."""
    wire = pq.read_table(done["wire"])
    categories = pq.read_table(done["categories"])
    messages = pq.read_table(done["messages"])
    assert done["complete"]
    assert done["kernel_drops"] == 0
    assert done["uplink"]["super_frames"] == done["downlink"]["super_frames"] == 0
    keys = ["vehicle_id", "direction"]
    counted = {
        (row["vehicle_id"], row["direction"]): row["link_bytes_sum"]
        for row in wire.group_by(keys).aggregate([("link_bytes", "sum")]).to_pylist()
    }
    booked = {
        (row["vehicle_id"], row["direction"]): row["bytes_sum"]
        for row in categories.group_by(keys).aggregate([("bytes", "sum")]).to_pylist()
    }
    assert booked == counted
    run = wire.filter(pc.greater_equal(wire["second"], 0))
    for number in VEHICLES:
        own = messages.filter(pc.equal(messages["vehicle_id"], vehicle_id(number)))
        for way in ("uplink", "downlink"):
            here = run.filter(
                pc.and_(pc.equal(run["vehicle_id"], vehicle_id(number)), pc.equal(run["direction"], way))
            )
            shares = sum(pc.sum(own[f"{name}_{way}"]).as_py() or 0 for name in ALL)
            if len(own) and len(here):
                assert shares == pc.sum(here["link_bytes"]).as_py()
    return wire, messages


def check_with_tshark(wire, path):
    """The same frames, bytes and retransmissions, per vehicle and direction."""
    frames, sizes, again = Counter(), Counter(), Counter()
    for row in referee.rows(path):
        key = (row["ip.src"], "uplink") if row["ip.src"].startswith("198.18") else (row["ip.dst"], "downlink")
        frames[key] += 1
        sizes[key] += int(row["frame.len"])
        again[key] += referee.retransmitted(row)
    for number in VEHICLES:
        for way in ("uplink", "downlink"):
            here = wire.filter(
                pc.and_(pc.equal(wire["vehicle_id"], vehicle_id(number)), pc.equal(wire["direction"], way))
            )
            key = (vehicle_address(number), way)
            assert (pc.sum(here["packets"]).as_py() or 0) == frames[key]
            assert (pc.sum(here["link_bytes"]).as_py() or 0) == sizes[key]
            assert (pc.sum(here["tcp_retransmitted_packets"]).as_py() or 0) == again[key], key
    return sum(again.values())


@pytest.fixture
def lossy(run_record):
    with LossyWire(run_record.run_id, loss_ratio=0.08, delay_s=0.01) as link:
        yield link


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_mqtt_over_loss(run_record, lossy, tmp_path, qos):
    directory = tmp_path / "capture"
    directory.mkdir()
    pcap = directory / "frames.pcap"
    payloads = [bytes([k]) * (10 + 97 * (k % 40)) for k in range(60)]
    namespace, cloud = lossy.vehicles_namespace, lossy.cloud_namespace
    with (
        MosquittoServer(run_record, host=CLOUD_ADDRESS, namespace=cloud),
        CaptureChild(lossy, directory, pcap=str(pcap)) as capture,
    ):
        capture.command(command="start", at_ns=time.time_ns())
        publish_mqtt(namespace, payloads, qos)
        done = capture.stop()
    wire, messages = check_sums(done, directory)
    assert check_with_tshark(wire, pcap) > 0
    assert len(messages) == len(VEHICLES) * len(payloads)
    for number in VEHICLES:
        own = messages.filter(pc.equal(messages["vehicle_id"], vehicle_id(number)))
        assert own["order"].to_pylist() == list(range(len(payloads)))
        assert own["payload_bytes_uplink"].to_pylist() == [len(payload) for payload in payloads]
        assert all(own["complete"].to_pylist())
        assert own["reached_cloud_at_ns"].null_count == 0
        if qos:
            assert own["acknowledged_at_ns"].null_count == 0
        assert pc.sum(own["retransmitted_bytes_uplink"]).as_py() > 0


@pytest.mark.full
@pytest.mark.timing
def test_amqp_over_loss(run_record, lossy, tmp_path):
    directory = tmp_path / "capture"
    directory.mkdir()
    pcap = directory / "frames.pcap"
    payloads = [bytes([k]) * (10 + 311 * (k % 20)) for k in range(40)]
    namespace, cloud = lossy.vehicles_namespace, lossy.cloud_namespace
    with (
        RabbitmqServer(run_record, host=CLOUD_ADDRESS, namespace=cloud) as server,
        CaptureChild(lossy, directory, pcap=str(pcap)) as capture,
    ):
        capture.command(command="start", at_ns=time.time_ns())
        with namespaces.inside(namespace):
            publish_amqp(server, payloads)
        done = capture.stop()
    wire, messages = check_sums(done, directory)
    assert check_with_tshark(wire, pcap) > 0
    assert set(messages["vehicle_id"].to_pylist()) == {vehicle_id(VEHICLES[0])}
    assert messages["payload_bytes_uplink"].to_pylist() == [len(payload) for payload in payloads]
    assert messages["acknowledged_at_ns"].null_count == 0
    assert messages["reached_cloud_at_ns"].null_count == 0


def publish_amqp(server, payloads):
    parameters = pika.ConnectionParameters(
        server.host, server.port, credentials=pika.PlainCredentials("guest", "guest")
    )
    with pytest.MonkeyPatch.context() as patch:
        # pika has no setting for the source address: the vehicle's is bound before it connects.
        connect = socket.socket.connect
        patch.setattr(
            socket.socket,
            "connect",
            lambda sock, to: (sock.bind((vehicle_address(VEHICLES[0]), 0)), connect(sock, to))[1],
            raising=False,
        )
        connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("wire")
    for payload in payloads:
        channel.basic_publish("", "wire", payload)
    connection.close()


def coap_request(kind, identifier, payload, block=None):
    head = struct.pack(">BBHB", 0x41 | kind << 4, 2, identifier, identifier & 255)
    options = b"\xb1v"
    if block is not None:
        options += b"\xd1\x03" + bytes([block])
    return head + options + b"\xff" + payload


def test_coap_with_repeats_and_blocks(run_record, lossy, tmp_path):
    """Two vehicles, stop and wait: each datagram goes until its ACK is there; tshark counts the same."""
    directory = tmp_path / "capture"
    directory.mkdir()
    pcap = directory / "frames.pcap"
    told = {"pcap": str(pcap), "datagram_ports": {"coap": [5683]}}
    with namespaces.inside(lossy.cloud_namespace):
        server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        server.bind((CLOUD_ADDRESS, 5683))
    with server, CaptureChild(lossy, directory, **told) as capture:
        capture.command(command="start", at_ns=time.time_ns())
        sent = Counter()
        for number in VEHICLES[:2]:
            with namespaces.inside(lossy.vehicles_namespace):
                client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                client.bind((vehicle_address(number), 0))
                client.connect((CLOUD_ADDRESS, 5683))
            with client:
                for k in range(30):
                    # Every third message takes two blocks of 64 bytes: more, then last.
                    blocks = [(0 << 4 | 8 | 2, b"a" * 64), (1 << 4 | 2, b"b" * 9)]
                    parts = blocks if k % 3 == 0 else [(None, b"%03d" % k)]
                    for index, (block, payload) in enumerate(parts):
                        sent[number] += exchange(client, server, 2 * k + index, payload, block)
                gone = client.getsockname()
        # Of a machine that stood still an ACK may come again when nobody listens: the kernel's refusal is a packet as well.
        server.connect(gone)
        until_refused(server, struct.pack(">BBHB", 0x61, 68, 58, 58))
        done = capture.stop()
    wire, messages = check_sums(done, directory)
    check_with_tshark(wire, pcap)
    assert len(messages) == 60
    assert messages["acknowledged_at_ns"].null_count == 0
    assert messages["reached_cloud_at_ns"].null_count == 0
    assert messages["payload_bytes_uplink"].to_pylist() == [73 if k % 3 == 0 else 3 for k in range(30)] * 2
    seen = [row for row in referee.rows(pcap) if row["coap.type"] == "0"]
    assert len(seen) == sum(sent.values())
    repeats = sum(sent.values()) - 80
    assert repeats > 0
    categories = pq.read_table(done["categories"])
    again = categories.filter(pc.equal(categories["purpose"], "retransmission"))
    assert pc.sum(again["bytes"]).as_py() == pc.sum(messages["retransmitted_bytes_uplink"]).as_py() > 0


def exchange(client, server, identifier, payload, block):
    """Send a CON until its ACK comes; return how often it was sent."""
    client.settimeout(0.05)
    server.settimeout(0.05)
    for attempt in range(1, 100):
        client.send(coap_request(0, identifier, payload, block))
        with contextlib.suppress(TimeoutError):
            data, source = server.recvfrom(2000)
            code = 95 if block is not None and block & 8 else 68
            server.sendto(struct.pack(">BBH", 0x61, code, data[2] << 8 | data[3]) + data[4:5], source)
            answer = client.recv(2000)
            while answer[2:4] != identifier.to_bytes(2, "big"):
                answer = client.recv(2000)
            return attempt
    raise AssertionError("never acknowledged")


def until_refused(sender, datagram):
    """Send again and again until an ICMP "port unreachable" has come back."""
    until = time.monotonic() + DEADLINE_S
    while time.monotonic() < until:
        try:
            sender.send(datagram)
            sender.recv(2000)
        except TimeoutError:
            continue
        except ConnectionRefusedError:
            return
    raise AssertionError("never refused")


def test_keep_alives_and_the_phase_before_the_start(run_record, lossy, tmp_path):
    """PINGREQ and PINGRESP are keep-alive; what passes before the start is kept apart."""
    directory = tmp_path / "capture"
    directory.mkdir()
    lossy.loss_ratio = 0.0
    with (
        MosquittoServer(run_record, host=CLOUD_ADDRESS, namespace=lossy.cloud_namespace),
        CaptureChild(lossy, directory) as capture,
    ):
        publish_mqtt(lossy.vehicles_namespace, [b"x"], 1, ping=True)
        done = capture.stop()
    wire, _ = check_sums(done, directory)
    assert set(wire["second"].to_pylist()) == {-1}
    categories = pq.read_table(done["categories"])
    assert set(categories["phase"].to_pylist()) == {"before_start"}
    found = {
        (row["purpose"], row["direction"])
        for row in categories.to_pylist()
        if row["layer"] == "protocol" and row["bytes"]
    }
    assert {("keep_alive", "uplink"), ("keep_alive", "downlink"), ("connection", "uplink")} <= found


def test_a_dead_owner_ends_the_capture_and_its_log_survives(run_record, lossy, tmp_path):
    directory = tmp_path / "capture"
    directory.mkdir()
    with CaptureChild(lossy, directory, attributed_ends=[]) as capture:
        capture.command(command="start", at_ns=time.time_ns())
        capture.process.stdin.close()
        assert capture.process.wait(10) == 0
    assert (directory / "wire.events").read_bytes().startswith(b"ivsim-wire-counts-1\n")


@pytest.mark.parametrize(
    ("config", "word"),
    [({"device": "nothere0"}, "nothere0"), ({"colour": 1}, "colour"), ({"ring_mib": 0}, "ring_mib")],
)
def test_bad_configuration_is_one_line_and_exit_code_2(lossy, tmp_path, config, word):
    child = CaptureChild(lossy, tmp_path, **config)
    event = child.wait("error")
    assert word in event["message"]
    assert "\n" not in event["message"]
    child.__exit__()
    assert child.process.returncode == 2
