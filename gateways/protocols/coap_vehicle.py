"""A vehicle's CoAP end: POSTs one message at a time to the gateway (NSTART = 1); it buffers nothing.

CON follows RFC 7252, 4.2, with the default transmission parameters. A NON request stops waiting for its
response after an estimate of the round trip (RFC 7252, 4.7 leaves the way open), so that a lost one does not
hold up the next. Above 1,024 bytes the payload goes block-wise (RFC 7959, Block1).
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field
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
from gateways.protocols.coap_wire import Remote, resolve
from schemas.topics import coap_path, vehicle_id

BLOCK_SIZE_EXPONENT: Final = 6  # 2 ** (6 + 4) = 1,024 bytes, the largest (RFC 7959, 2.2)
ATTEMPTS: Final = 4
# After an empty ACK the response is due; beyond this the request is sent anew under a new Message ID.
SEPARATE_RESPONSE_S: Final = 10.0
MAX_AGE_DEFAULT_S: Final = 60  # RFC 7252, 5.10.5
_ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - the system chooses among its own addresses


class RoundTrip:
    """How long a NON exchange may take: RFC 6298's estimate, without its back-off.

    A late answer raises the estimate; a lost one does not, for loss is what a NON message is meant to meet.
    """

    first_s: Final = 1.0
    least_s: Final = 0.2
    most_s: Final = 10.0

    def __init__(self) -> None:
        self._smoothed_s: float | None = None
        self._variation_s = 0.0

    def sample(self, seconds: float) -> None:
        """Take one measured round trip."""
        if self._smoothed_s is None:
            self._smoothed_s, self._variation_s = seconds, seconds / 2
            return
        self._variation_s += (abs(self._smoothed_s - seconds) - self._variation_s) / 4
        self._smoothed_s += (seconds - self._smoothed_s) / 8

    def timeout_s(self) -> float:
        """Return how long to wait for an answer."""
        if self._smoothed_s is None:
            return self.first_s
        return min(self.most_s, max(self.least_s, self._smoothed_s + 4 * self._variation_s))


@dataclass(slots=True)
class Transfer:
    """One message on its way, with where its next block starts.

    Attributes:
        asked: tokens of the requests that carried its last block; a late answer to any of them counts.
    """

    token: int
    payload: bytes
    size_exponent: int = BLOCK_SIZE_EXPONENT
    offset: int = 0
    attempts: int = 0
    asked: list[bytes] = field(default_factory=list)

    @property
    def block_bytes(self) -> int:
        return 1 << (self.size_exponent + 4)

    def blockwise(self) -> bool:
        return len(self.payload) > self.block_bytes

    def block(self) -> tuple[int, bool, int]:
        """Return the Block1 option's value: number, more, size exponent (RFC 7959, 2.1)."""
        more = self.offset + self.block_bytes < len(self.payload)
        return self.offset // self.block_bytes, more, self.size_exponent


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
        self._sent_at = 0.0
        self._given_up: dict[bytes, float] = {}

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
        if self._layer is not None:
            self._layer.close()
            self._layer = None

    def ready(self) -> bool:
        return self._layer is not None and self._transfer is None

    def in_flight(self) -> int:
        return 0 if self._transfer is None else 1

    def send(self, token: int, payload: bytes) -> None:
        self._transfer = Transfer(token, payload)
        self._send_block(self._transfer)

    def _send_block(self, transfer: Transfer) -> None:
        assert self._layer is not None
        request = Message(code=POST, transport_tuning=Reliable() if self._con else Unreliable())
        request.opt.uri_path = self._path
        request.payload = transfer.payload
        if transfer.blockwise() or transfer.offset:
            request.opt.block1 = transfer.block()
            request.payload = transfer.payload[transfer.offset : transfer.offset + transfer.block_bytes]
        self._request_token = (self._request_token + 1) & 0xFFFF
        request.token = self._request_token.to_bytes(2, "big")
        request.remote = self._remote
        if not transfer.block()[1]:
            transfer.asked.append(request.token)
        self._sent_at = self.loop.time()
        self._layer.send_message(request, self._reset)
        if not self._con:
            self._wait(self._round_trip.timeout_s(), self._unanswered)

    # The layer below calls these.

    def process_response(self, response: Message) -> bool:
        transfer = self._transfer
        if transfer is None or response.token != self._request_token.to_bytes(2, "big"):
            late = transfer is not None and response.token in transfer.asked and response.code == CHANGED
            if transfer is None or not late:
                return self._late(response.token)
        self._stop_timer()
        assert self._layer is not None
        if not self._con:
            self._round_trip.sample(self.loop.time() - self._sent_at)
        elif self._layer.busy(self._remote):
            # The response overtook its own acknowledgement, which is then superfluous (RFC 7252, 5.2.2).
            self._layer.forget(self._remote)
        self._answered(transfer, response)
        return True

    def _late(self, token: bytes) -> bool:
        """Learn the round trip from the answer to a NON request already given up; False for a stranger."""
        given_up_at = self._given_up.pop(token, None)
        if given_up_at is not None:
            self._round_trip.sample(self.loop.time() - given_up_at)
        return given_up_at is not None

    def _answered(self, transfer: Transfer, response: Message) -> None:
        code, block = response.code, response.opt.block1
        # The token of an answered request is spent: a second answer to it is nobody's.
        self._request_token = (self._request_token + 1) & 0xFFFF
        if code == CONTINUE and block is not None and transfer.block()[1]:
            transfer.offset += transfer.block_bytes
            # The server may ask for smaller blocks (RFC 7959, 2.3); the offset is a multiple of them.
            transfer.size_exponent = min(transfer.size_exponent, block.size_exponent)
            self._send_block(transfer)
        elif code.is_successful() and code != CONTINUE:
            self._transfer = None
            self._events.acknowledged(transfer.token, time.time_ns())
        elif code == SERVICE_UNAVAILABLE and self._con:
            max_age_s = MAX_AGE_DEFAULT_S if response.opt.max_age is None else response.opt.max_age
            # Spread, or every vehicle comes back in the same instant.
            self._wait(max_age_s * random.uniform(1.0, 1.5), self._start_again)
        elif code == REQUEST_ENTITY_INCOMPLETE and self._con:
            self._try_again("4.08 again and again: the gateway lost its blocks")
        else:
            self._refuse(f"{code.dotted} {Code(code).name_printable}")

    def dispatch_error(self, error: Exception, remote: Remote) -> None:
        del remote
        self._refuse(f"CON time-out: {error}")

    def acknowledged_empty(self, remote: Remote, message_id: int) -> None:
        del remote, message_id
        if self._transfer is not None:
            self._wait(SEPARATE_RESPONSE_S, self._no_separate_response)

    def _reset(self) -> None:
        # Called amid the message layer's own bookkeeping: a new send must wait until that is done.
        self.loop.call_soon(self._refuse, "RST from the gateway")

    def _unanswered(self) -> None:
        if len(self._given_up) >= 16:
            self._given_up.pop(next(iter(self._given_up)))
        self._given_up[self._request_token.to_bytes(2, "big")] = self._sent_at
        self._refuse("NON without a response in time")

    def _no_separate_response(self) -> None:
        self._try_again("acknowledged, but no response followed")

    def _try_again(self, reason: str) -> None:
        transfer = self._transfer
        assert transfer is not None
        transfer.attempts += 1
        if transfer.attempts >= ATTEMPTS:
            self._refuse(reason)
        else:
            self._start_again()

    def _start_again(self) -> None:
        assert self._transfer is not None
        self._transfer.offset = 0
        self._transfer.size_exponent = BLOCK_SIZE_EXPONENT
        self._send_block(self._transfer)

    def _refuse(self, reason: str) -> None:
        self._stop_timer()
        transfer, self._transfer = self._transfer, None
        if transfer is not None:
            self._events.refused(transfer.token, reason)

    def _wait(self, seconds: float, then: object) -> None:
        self._stop_timer()
        assert callable(then)
        self._timer = self.loop.call_later(seconds, then)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
