"""A vehicle's CoAP end: POSTs one message at a time to the gateway (NSTART = 1); it buffers nothing.

CON follows RFC 7252, 4.2, with the default transmission parameters. A NON request holds the next one back
no longer than an estimate of the round trip (RFC 7252, 4.7 leaves it open when a response is no longer
expected), so that a lost one costs no other; its response still counts when it comes late, and its blocks
go on. Above 1,024 bytes the payload goes block-wise (RFC 7959, Block1).
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import Final

from aiocoap import Message, Reliable, Unreliable
from aiocoap.numbers.codes import (
    CHANGED,
    CONTINUE,
    POST,
    REQUEST_ENTITY_INCOMPLETE,
    SERVICE_UNAVAILABLE,
    Code,
)

from gateways.protocols.base import Endpoint, VehicleEvents, VehicleSettings
from gateways.protocols.coap_layer import MessageLayer, Upper
from gateways.protocols.coap_transfer import BLOCK_SIZE_EXPONENT, RoundTrip, Transfer
from gateways.protocols.coap_wire import Remote, resolve
from schemas.topics import coap_path, vehicle_id

ATTEMPTS: Final = 4
# After an empty ACK the response is due; beyond this the request is sent anew under a new Message ID.
SEPARATE_RESPONSE_S: Final = 10.0
# How long a NON request may go unanswered beside those after it, and how many of them.
LINGER_S: Final = 15.0
_LINGERING_MAX: Final = 16
MAX_AGE_DEFAULT_S: Final = 60  # RFC 7252, 5.10.5
_ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - the system chooses among its own addresses


class CoapVehicle(Upper):
    """One vehicle's endpoint, bound to the vehicle's own address."""

    def __init__(
        self, endpoint: Endpoint, vehicle: int, *, con: bool, events: VehicleEvents, settings: VehicleSettings
    ) -> None:
        self._endpoint = endpoint
        self._path = coap_path(vehicle_id(vehicle))
        self._con = con
        self._events = events
        self._settings = settings
        self._layer: MessageLayer | None = None
        self._remote = Remote((endpoint.host, endpoint.port))
        self._transfer: Transfer | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._round_trip = RoundTrip()
        self._request_token = random.randrange(1 << 16)
        self._lingering: dict[bytes, Transfer] = {}

    async def connect(self) -> None:
        """Open the socket; CoAP over UDP has no handshake, so this says nothing about the gateway."""
        self.loop = asyncio.get_running_loop()
        self._remote = resolve(self._endpoint.host, self._endpoint.port)
        if self._layer is None:
            layer = MessageLayer(self)
            layer.open(self._settings.source_address or _ANY_ADDRESS, 0)
            self._layer = layer
        self._events.connected(time.time_ns(), session_present=False)

    async def close(self) -> None:
        self._stop_timer()
        for transfer in self._lingering.values():
            assert transfer.lingering is not None
            transfer.lingering.cancel()
        self._lingering.clear()
        if self._layer is not None:
            self._layer.close()
            self._layer = None

    def ready(self) -> bool:
        return self._layer is not None and self._transfer is None

    def in_flight(self) -> int:
        return len(self._lingering) + (self._transfer is not None)

    def send(self, token: int, payload: bytes) -> None:
        self._transfer = Transfer(token, payload, tag=self._free_tag())
        self._send_block(self._transfer)

    def _send_block(self, transfer: Transfer) -> None:
        assert self._layer is not None
        request = Message(code=POST, transport_tuning=Reliable() if self._con else Unreliable())
        request.opt.uri_path = self._path
        request.payload = transfer.payload
        if transfer.blockwise() or transfer.offset:
            request.opt.block1 = transfer.block()
            request.opt.request_tag = () if transfer.tag is None else (transfer.tag,)
            request.payload = transfer.payload[transfer.offset : transfer.offset + transfer.block_bytes]
        self._request_token = (self._request_token + 1) & 0xFFFF
        request.token = transfer.request = self._request_token.to_bytes(2, "big")
        request.remote = self._remote
        if not transfer.block()[1]:
            transfer.asked.append(request.token)
        transfer.sent_at_s = self.loop.time()
        self._layer.send_message(request, self._reset)
        if transfer is not self._transfer:
            self._lingering[transfer.request] = transfer
        elif not self._con:
            self._wait(self._round_trip.timeout_s(), self._unanswered)

    # The layer below calls these.

    def process_response(self, response: Message) -> bool:
        transfer = self._awaiting(response)
        if transfer is None:
            return False
        assert self._layer is not None
        if transfer is self._transfer:
            self._stop_timer()
        if not self._con:
            self._round_trip.sample(self.loop.time() - transfer.sent_at_s)
        elif self._layer.busy(self._remote):
            # The response overtook its own acknowledgement, which is then superfluous (RFC 7252, 5.2.2).
            self._layer.forget(self._remote)
        transfer.request = b""  # spent: a second answer to it is nobody's
        self._answered(transfer, response)
        return True

    def _awaiting(self, response: Message) -> Transfer | None:
        transfer, token = self._transfer, response.token
        if transfer is not None and token and token == transfer.request:
            return transfer
        if transfer is not None and token in transfer.asked and response.code == CHANGED:
            return transfer
        return self._lingering.pop(token, None)

    def _answered(self, transfer: Transfer, response: Message) -> None:
        code, block = response.code, response.opt.block1
        if code == CONTINUE and block is not None and transfer.block()[1]:
            transfer.offset += transfer.block_bytes
            # The server may ask for smaller blocks (RFC 7959, 2.3); the offset is a multiple of them.
            transfer.size_exponent = min(transfer.size_exponent, block.size_exponent)
            self._send_block(transfer)
        elif code.is_successful() and code != CONTINUE:
            self._end(transfer)
            self._events.acknowledged(transfer.token, time.time_ns())
        elif code == SERVICE_UNAVAILABLE and self._con:
            max_age_s = MAX_AGE_DEFAULT_S if response.opt.max_age is None else response.opt.max_age
            # Spread, or every vehicle comes back in the same instant.
            self._wait(max_age_s * random.uniform(1.0, 1.5), self._start_again)
        elif code == REQUEST_ENTITY_INCOMPLETE and self._con:
            self._try_again("4.08 again and again: the gateway lost its blocks")
        else:
            self._refuse(transfer, f"{code.dotted} {Code(code).name_printable}")

    def dispatch_error(self, error: Exception, remote: Remote) -> None:
        del remote
        self._refuse(self._transfer, f"CON time-out: {error}")

    def acknowledged_empty(self, remote: Remote, message_id: int) -> None:
        del remote, message_id
        if self._transfer is not None:
            self._wait(SEPARATE_RESPONSE_S, self._no_separate_response)

    def _reset(self) -> None:
        # Called amid the message layer's own bookkeeping: a new send must wait until that is done.
        self.loop.call_soon(self._refuse, self._transfer, "RST from the gateway")

    def _unanswered(self) -> None:
        """Let the next NON request go; the answer to this one may still come."""
        transfer, self._transfer = self._transfer, None
        assert transfer is not None
        if len(self._lingering) >= _LINGERING_MAX:
            self._forget(next(iter(self._lingering.values())))
        self._lingering[transfer.request] = transfer
        transfer.lingering = self.loop.call_later(LINGER_S, self._forget, transfer)
        self._events.writable()

    def _forget(self, transfer: Transfer) -> None:
        self._lingering.pop(transfer.request, None)
        self._refuse(transfer, f"NON without a response in {LINGER_S:g} s")

    def _free_tag(self) -> bytes | None:
        """Return no Request-Tag while no other upload is open: the option costs three bytes."""
        used = {transfer.tag for transfer in self._lingering.values()}
        tags = (None, *(bytes((number,)) for number in range(_LINGERING_MAX)))
        return next(tag for tag in tags if tag not in used)

    def _no_separate_response(self) -> None:
        self._try_again("acknowledged, but no response followed")

    def _try_again(self, reason: str) -> None:
        transfer = self._transfer
        assert transfer is not None
        transfer.attempts += 1
        if transfer.attempts >= ATTEMPTS:
            self._refuse(transfer, reason)
        else:
            self._start_again()

    def _start_again(self) -> None:
        assert self._transfer is not None
        self._transfer.offset = 0
        self._transfer.size_exponent = BLOCK_SIZE_EXPONENT
        self._send_block(self._transfer)

    def _refuse(self, transfer: Transfer | None, reason: str) -> None:
        if transfer is not None:
            self._end(transfer)
            self._events.refused(transfer.token, reason)

    def _end(self, transfer: Transfer) -> None:
        if transfer.lingering is not None:
            transfer.lingering.cancel()
        if transfer is self._transfer:
            self._stop_timer()
            self._transfer = None

    def _wait(self, seconds: float, then: object) -> None:
        self._stop_timer()
        assert callable(then)
        self._timer = self.loop.call_later(seconds, then)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
