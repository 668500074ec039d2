"""Datagrams of DTLS beside CoAP's: handshakes and records are counted as what they are, and never taken for messages."""

from __future__ import annotations

import frame_factory as make
import pytest

from gateways.protocols.coap.dtls import OVERHEAD_BYTES
from simulator.capture.attribution import AttributionOptions, Attributor
from simulator.capture.byte_totals import CELL_SIZE, LAYERS, PURPOSES

HANDSHAKE, CHANGE_CIPHER_SPEC, ALERT, APPLICATION_DATA = 22, 20, 21, 23


def record(kind, epoch, content):
    number = bytes(6)
    return b"%c\xfe\xfd%b%b%b" % (
        kind,
        epoch.to_bytes(2, "big"),
        number,
        len(content).to_bytes(2, "big"),
    ) + bytes(content)


def protected(kind, size):
    """A record of AES-CCM-8 with so many bytes inside."""
    return record(kind, 1, bytes(size + OVERHEAD_BYTES - 13))


@pytest.mark.parametrize(
    ("datagram", "purpose", "inside"),
    [
        (record(HANDSHAKE, 0, bytes(60)), "handshake", 0),
        (record(CHANGE_CIPHER_SPEC, 0, b"\x01") + protected(HANDSHAKE, 24), "handshake", 0),
        (protected(HANDSHAKE, 24), "handshake", 0),
        (record(ALERT, 0, b"\x02\x33"), "handshake", 0),
        (protected(APPLICATION_DATA, 100), "secured", 100),
        (protected(APPLICATION_DATA, 0), "secured", 0),
        (protected(ALERT, 2), "secured", 2),
        (protected(APPLICATION_DATA, 0)[:20], "secured", 0),
    ],
)
def test_every_byte_is_booked_once_and_under_its_purpose(datagram, purpose, inside):
    frames = [make.udp_frame(5, up, datagram) for up in (True, False)]
    attributor = Attributor(AttributionOptions(datagram_ports={"coap": (5683,)}), start_at_ns=0)
    attributor.add(make.batch(frames))
    attributor.finish()
    totals = attributor.totals
    assert sum(sum(cell[:CELL_SIZE]) for cell in totals.cells.values()) == sum(map(len, frames))
    assert len(totals.messages) == 0
    for direction in (0, 1):

        def booked(layer, direction=direction):
            index = PURPOSES.index(purpose) * len(LAYERS) + LAYERS.index(layer)
            return totals.cells[1, 5, direction][index]

        assert (booked("protocol"), booked("opaque")) == (len(datagram) - inside, inside)
        assert (booked("payload"), booked("link")) == (0, 14)


def hello(random):
    """A ClientHello: type, length, number, fragment, version, random; the rest does not matter here."""
    return record(HANDSHAKE, 0, b"\x01" + bytes(11) + b"\xfe\xfd" + bytes([random]) * 32 + bytes(8))


FINISHED = record(CHANGE_CIPHER_SPEC, 0, b"\x01") + protected(HANDSHAKE, 24)


def handshakes_of(*steps):
    """Return what the capture tells of handshakes in (milliseconds, uplink, datagram) steps."""
    attributor = Attributor(AttributionOptions(datagram_ports={"coap": (5683,)}), start_at_ns=0)
    for at_ms, up, datagram in steps:
        attributor.add(make.batch([make.udp_frame(5, up, datagram)], [at_ms * 1_000_000]))
    attributor.finish()
    return [
        (row.vehicle, row.begun_at_ns // 1_000_000, row.ended_at_ns // 1_000_000, row.record_bytes)
        for row in attributor.totals.handshakes
    ]


def test_a_handshake_lasts_from_the_first_hello_to_the_servers_finished():
    verify = record(HANDSHAKE, 0, b"\x03" + bytes(30))
    whole = (
        (10, True, hello(1)), (40, False, verify), (50, True, hello(1)), (90, True, FINISHED), (130, False, FINISHED),
    )  # fmt: skip
    size = sum(len(datagram) for _, _, datagram in whole)
    assert handshakes_of(*whole) == [(5, 10, 130, size)]
    # What is sent again changes nothing, nor do records behind it.
    again = (*whole, (1_130, False, FINISHED), (1_200, True, protected(APPLICATION_DATA, 40)))
    assert handshakes_of((9, True, protected(APPLICATION_DATA, 4)), *again) == [(5, 10, 130, size)]
    # A vehicle that begins anew on its port; one that never came to its end; a hello cut short.
    second = ((5_000, True, hello(2)), (6_000, True, hello(3)), (6_200, False, FINISHED))
    own = len(hello(3)) + len(FINISHED)
    assert handshakes_of(*whole, *second) == [(5, 10, 130, size), (5, 6_000, 6_200, own)]
    assert handshakes_of((1, True, hello(1)), (2, True, hello(1)[:20])) == []
