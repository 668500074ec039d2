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
