"""The capture's own counts beside tshark's, on frames of every kind that a run has."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ivsim.audit import frames, logs
from ivsim.audit.result import BadResult
from simulator.capture import pcap
from simulator.capture.counting import Counter
from simulator.capture.second_log import SecondLog
from tests.simulator.capture.frame_factory import batch, ethernet, ipv4, tcp_frame, udp_frame, vehicle

START = 1_700_000_000_000_000_000
MS = 1_000_000
SYN, FIN, PUSH, ACK = 2, 1, 8, 16


@pytest.fixture(autouse=True)
def installed() -> None:
    assert frames.available(), "tshark is missing; make setup installs it"


def conversation(number: int) -> list[bytes]:
    publish = b"\x30\x0a\x00\x03a/b" + b"hello"
    datagram = b"\x50\x02\x00\x07\xb8vehicles\xffpayload"
    icmp = ethernet(
        ipv4(vehicle(number), 0xC6130001, 1, b"\x03\x03" + bytes(6) + udp_frame(number, False, datagram)[14:])
    )
    return [
        tcp_frame(number, True, 100, 0, SYN),
        tcp_frame(number, False, 500, 101, SYN | ACK),
        tcp_frame(number, True, 101, 501, ACK),
        tcp_frame(number, True, 101, 501, PUSH | ACK, publish),
        tcp_frame(number, True, 101, 501, PUSH | ACK, publish),  # sent again
        tcp_frame(number, False, 501, 101 + len(publish), ACK),
        tcp_frame(number, True, 101 + len(publish), 501, FIN | ACK),
        udp_frame(number, True, datagram),
        udp_frame(number, False, b"x" * 700),
        udp_frame(number, True, b"p" * 20, far=frames.PROBE_PORT),
        icmp,
    ]


def test_counts_by_second_vehicle_and_direction(tmp_path: Path) -> None:
    made = [frame for number in (1, 2, 300) for frame in conversation(number)]
    stamps = [START - 500 * MS + index * 150 * MS + 17 for index in range(len(made))]
    arp = ethernet(
        b"\x00\x01\x08\x00\x06\x04\x00\x01"
        + bytes(6)
        + vehicle(1).to_bytes(4, "big")
        + bytes(6)
        + b"\xc6\x13\x00\x01",
        0x0806,
    )
    taken = batch([*made, arp], [*stamps, stamps[-1] + MS])
    counter = Counter(START)
    counter.add(taken)
    with SecondLog(tmp_path / "wire.events") as log:
        log.append(counter.take())
    path = tmp_path / "frames.pcap"
    with path.open("wb") as file:
        pcap.write_header(file, 65_535)
        file.write(pcap.records(taken, 65_535))
    said = logs.read_wire(tmp_path / "wire.events")
    found = frames.wire_counts(path, START)
    assert said is not None
    assert {key: {name: cell[name] for name in frames.COUNTED} for key, cell in said.items()} == found
    assert sum(cell["tcp_retransmitted_packets"] for cell in found.values()) == 3
    probes = [index for index in range(len(made)) if index % 11 == 9 and stamps[index] >= START]
    assert frames.probe_bytes(path, START) == {"uplink": sum(len(made[i]) for i in probes), "downlink": 0}
    assert frames.message_counts(path, "mqtt") == {"198.18.0.1": 1, "198.18.0.2": 1, "198.18.1.44": 1}
    assert frames.message_counts(path, "coap") == {"198.18.0.1": 1, "198.18.0.2": 1, "198.18.1.44": 1}
    assert frames.message_counts(path, "amqp") == {}


def test_a_torn_pcap_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "frames.pcap"
    with path.open("wb") as file:
        pcap.write_header(file, 65_535)
        file.write(pcap.records(batch(conversation(1)), 65_535)[:-9])
    with pytest.raises(BadResult, match=r"frames\.pcap: tshark: "):
        frames.wire_counts(path, START)
    assert shutil.which(frames.PROGRAM)
