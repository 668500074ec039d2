"""TLS connections that OpenSSL really made, as frames: the handshake's bytes, the records', and nothing guessed."""

from __future__ import annotations

import ssl

import frame_factory as make
import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from simulator.capture.attribution import Attributor
from simulator.capture.byte_totals import CELL_SIZE, LAYERS, PURPOSES, Messages
from simulator.capture.tables import handshakes_table
from simulator.capture.tls import TlsScanner
from simulator.capture.units import Payloads, Publications, Session

SYN, ACK, PSH = 2, 16, 8
HOST = "127.0.0.1"
RECORD_OVERHEAD = 5 + 1 + 16
# Ethernet, IPv4, and TCP with its stamps: the headers of a frame here.
HEADERS = 14 + 20 + 32


class Ends:
    """OpenSSL's client and server, with nothing but frames between them; True is the client."""

    def __init__(self, *, mutual=True, newest=ssl.TLSVersion.TLSv1_3):
        authority = trustme.CA()
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        authority.issue_cert(HOST).configure_cert(server)
        authority.configure_trust(client)
        server.maximum_version = newest
        if mutual:
            authority.configure_trust(server)
            server.verify_mode = ssl.CERT_REQUIRED
            authority.issue_cert("vehicle.invalid", common_name="vehicle").configure_cert(client)
        self.contexts = {True: client, False: server}
        self.frames = []
        self.bytes = {True: 0, False: 0}
        self.port = 40_000

    def connect(self, session=None):
        self.port += 1
        self.sent = {True: 1, False: 1}
        self.into = {True: ssl.MemoryBIO(), False: ssl.MemoryBIO()}
        self.out = {True: ssl.MemoryBIO(), False: ssl.MemoryBIO()}
        wrap = {up: self.contexts[up].wrap_bio for up in (True, False)}
        self.ends = {
            True: wrap[True](self.into[True], self.out[True], server_hostname=HOST, session=session),
            False: wrap[False](self.into[False], self.out[False], server_side=True),
        }
        for up, flags, sequence in ((True, SYN, 0), (False, SYN | ACK, 0), (True, ACK, 1)):
            self.frame(up, flags, sequence)
        shaking = {True, False}
        while shaking:
            for up in (True, False):
                if up in shaking:
                    try:
                        self.ends[up].do_handshake()
                        shaking.discard(up)
                    except ssl.SSLWantReadError:
                        pass
                self.carry(up)

    def frame(self, up, flags, sequence, payload=b""):
        reached = 0 if flags == SYN else self.sent[not up]
        self.frames.append(make.tcp_frame(5, up, sequence, reached, flags, payload, port=self.port))

    def carry(self, up, segment=1400):
        data = self.out[up].read()
        self.into[not up].write(data)
        self.bytes[up] += len(data)
        for start in range(0, len(data), segment):
            part = data[start : start + segment]
            self.frame(up, ACK | PSH, self.sent[up], part)
            self.sent[up] += len(part)

    def say(self, up, data):
        self.ends[up].write(data)
        self.carry(up)
        return self.ends[not up].read(1 << 16)


def attributed(frames):
    attributor = Attributor(start_at_ns=0)
    attributor.add(make.batch(frames))
    notes = attributor.finish()
    booked = sum(sum(cell[:CELL_SIZE]) for cell in attributor.totals.cells.values())
    assert booked == sum(map(len, frames))
    return attributor.totals, notes


def application_bytes(totals, purpose, layer, direction):
    cell = totals.cells[1, 5, direction]
    return cell[PURPOSES.index(purpose) * len(LAYERS) + LAYERS.index(layer)]


@pytest.mark.parametrize("mutual", [False, True])
def test_a_handshake_ends_with_the_clients_finished(mutual):
    ends = Ends(mutual=mutual)
    ends.connect()
    # OpenSSL's server sends two tickets behind the client's Finished (RFC 8446, 4.6.1): records, no handshake.
    shaken = dict(ends.bytes)
    for up, size in ((True, 100), (False, 7), (True, 5_000)):
        assert ends.say(up, bytes(size)) == bytes(size)
    totals, notes = attributed(ends.frames)
    assert notes == {"connections": 1, "unreadable_connections": 1, "missed_bytes": 0}
    (one,) = totals.handshakes
    assert (one.vehicle, one.resumed) == (5, False)
    assert 0 < one.begun_at_ns < one.ended_at_ns
    assert application_bytes(totals, "handshake", "protocol", 0) == shaken[True]
    assert application_bytes(totals, "secured", "opaque", 0) == 5_100
    assert application_bytes(totals, "secured", "protocol", 0) == 2 * RECORD_OVERHEAD
    handshake_down = application_bytes(totals, "handshake", "protocol", 1)
    assert one.record_bytes == shaken[True] + handshake_down
    tickets = shaken[False] - handshake_down
    assert 2 * 150 < tickets < 2 * 2_000
    down = sum(application_bytes(totals, "secured", layer, 1) for layer in ("opaque", "protocol"))
    assert down == tickets + 7 + RECORD_OVERHEAD
    assert len(totals.messages) == 0


def test_a_certificate_of_the_vehicle_is_seen_in_the_bytes_and_resumption_saves_it():
    one_way, mutual = Ends(mutual=False), Ends()
    costs = {}
    for name, ends in (("tls", one_way), ("mtls", mutual)):
        ends.connect()
        costs[name] = ends.bytes[True]
    assert costs["mtls"] > costs["tls"] + 500
    assert mutual.say(False, b"x") == b"x"  # with it the client reads the tickets
    before = dict(mutual.bytes)
    mutual.connect(mutual.ends[True].session)
    mutual.say(True, b"y")
    assert mutual.ends[True].session_reused
    totals, _ = attributed(mutual.frames)
    assert handshakes_table(totals).column("resumed").to_pylist() == [False, True]
    full, short = handshakes_table(totals).column("record_bytes").to_pylist()
    assert short < full - 1_000
    resumed = mutual.bytes[True] - before[True] - RECORD_OVERHEAD - 1
    assert application_bytes(totals, "handshake", "protocol", 0) == costs["mtls"] + resumed


def test_the_headers_of_its_frames_belong_to_the_handshake():
    ends = Ends()
    ends.connect()
    totals, _ = attributed(ends.frames)
    for direction in (0, 1):
        handshake = {layer: application_bytes(totals, "handshake", layer, direction) for layer in LAYERS}
        headers = handshake["transport"] + handshake["ip"] + handshake["link"]
        assert headers > 0
        assert headers % HEADERS == 0 or direction == 1, (
            "the tickets share a frame with nothing of the client's"
        )
        assert handshake["payload"] == handshake["opaque"] == 0


def test_an_older_tls_is_opaque_and_not_guessed_at():
    ends = Ends(newest=ssl.TLSVersion.TLSv1_2)
    ends.connect()
    ends.say(True, bytes(69 - 24))
    totals, notes = attributed(ends.frames)
    assert notes["unreadable_connections"] == 1
    assert totals.handshakes == []
    assert application_bytes(totals, "secured", "opaque", 0) == 0
    assert application_bytes(totals, "opaque", "opaque", 1) > 500


def test_a_handshake_that_the_server_ends_has_no_row():
    ends = Ends()
    ends.contexts[True] = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts nobody
    with pytest.raises(ssl.SSLCertVerificationError):
        ends.connect()
    totals, _ = attributed(ends.frames)
    assert totals.handshakes == []
    assert application_bytes(totals, "handshake", "protocol", 0) > 200


@given(st.binary(max_size=400), st.integers(0, 1))
def test_whatever_comes_is_a_record_or_refused(data, direction):
    scanner = TlsScanner(Publications(Messages(), Session(1), "tls", Payloads(enabled=False)))
    try:
        units, taken = scanner.scan(direction, bytearray(data), 0, 5)
    except (ValueError, IndexError):
        return
    assert taken == sum(unit.end - unit.start for unit in units) <= len(data)
    assert len(data) - taken < 5 or int.from_bytes(data[taken + 3 : taken + 5], "big") + 5 > len(data) - taken
