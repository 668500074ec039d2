"""Requests under OSCORE, made by aiocoap: counted as what they are, and never taken for messages."""

from __future__ import annotations

import frame_factory as make
from aiocoap import Message
from aiocoap.numbers.codes import CHANGED, POST
from aiocoap.numbers.types import ACK, CON

from gateways.protocols.coap.address import coap_path
from gateways.protocols.coap.datagram import Remote, decoded
from gateways.protocols.coap.oscore import ClientGuard, ServerGuard
from schemas.topics import vehicle_id
from simulator.capture.attribution import AttributionOptions, Attributor
from simulator.capture.byte_totals import CELL_SIZE, LAYERS, PURPOSES

KEY = bytes(16)


def test_what_oscore_protects_is_secured_and_its_repeats_are_repeats():
    client, server = ClientGuard(5, KEY), ServerGuard({vehicle_id(5): KEY})
    remote = Remote(("198.18.0.5", 50_000))
    frames, sizes = [], []
    for number in (1, 2):
        request = Message(code=POST, payload=bytes(100), _token=bytes([number]))
        request.opt.uri_path, request.remote = coap_path(vehicle_id(5)), remote
        outer = client.protect(request)
        outer.mtype, outer.mid = CON, number
        datagram = outer.encode()
        sizes.append((datagram, len(outer.payload)))
        frames.append(make.udp_frame(5, True, datagram))
        arrived = decoded(datagram, remote)
        try:
            answer = server.protect(inner := server.unprotect(arrived), Message(code=CHANGED))
        except Exception as challenge:  # noqa: BLE001 - the first is asked for its Echo
            answer, inner = challenge.answer, arrived
        answer.mtype, answer.mid, answer.token = ACK, inner.mid, inner.token
        client.unprotect(decoded(answer.encode(), remote))
        frames.append(make.udp_frame(5, False, answer.encode()))
    frames.append(make.udp_frame(5, True, sizes[1][0]))
    attributor = Attributor(AttributionOptions(datagram_ports={"coap": (5683,)}), start_at_ns=0)
    attributor.add(make.batch(frames))
    attributor.finish()
    totals = attributor.totals
    assert sum(sum(cell[:CELL_SIZE]) for cell in totals.cells.values()) == sum(map(len, frames))
    assert len(totals.messages) == 0

    def booked(purpose, layer, direction=0):
        index = PURPOSES.index(purpose) * len(LAYERS) + LAYERS.index(layer)
        return totals.cells[1, 5, direction][index]

    ciphertext = sum(size for _, size in sizes)
    assert booked("secured", "opaque") == ciphertext - 2 * 9
    assert booked("secured", "protocol") == sum(len(d) - size for d, size in sizes) + 2 * 9
    assert booked("secured", "payload") == booked("message", "payload") == 0
    assert booked("retransmission", "link") == 14
    assert booked("acknowledgement", "link", 1) == 2 * 14
