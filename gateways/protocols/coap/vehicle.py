"""A vehicle's CoAP end: POSTs one message at a time to the gateway (NSTART = 1); it buffers nothing.

CON follows RFC 7252, 4.2, with the default transmission parameters. After an empty acknowledgement the vehicle
waits, and asks again under the same Message ID: a gateway that waits for Kafka takes no second copy, one that
was started anew takes its first. A NON request holds the next one back no longer than an estimate of the round
trip (RFC 7252, 4.7 leaves it open when a response is no longer expected), so that a lost one costs no other; its
response still counts when it comes late, and its blocks go on. A gateway that does not respond is probed by
Empty CONs at PROBING_RATE, and messages wait meanwhile. Above `coap_block_bytes` the payload goes block-wise
(RFC 7959, Block1).
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import Final

from aiocoap import Message
from aiocoap.numbers.codes import (
    CONTINUE,
    POST,
    REQUEST_ENTITY_INCOMPLETE,
    REQUEST_ENTITY_TOO_LARGE,
    SERVICE_UNAVAILABLE,
    UNAUTHORIZED,
    Code,
)
from aiocoap.numbers.optionnumbers import OptionNumber
from aiocoap.numbers.types import ACK, CON

from gateways.protocols.base import Endpoint, VehicleSettings
from gateways.protocols.coap import dtls
from gateways.protocols.coap.address import coap_path
from gateways.protocols.coap.datagram import Remote, resolved
from gateways.protocols.coap.dtls_client import DtlsClient
from gateways.protocols.coap.message_layer import Upper
from gateways.protocols.coap.oscore import OVERHEAD_BYTES, ClientGuard
from gateways.protocols.coap.parameters import PARAMETERS
from gateways.protocols.coap.transfer import Responsiveness, RoundTrip, Transfer
from gateways.protocols.coap.udp import UdpEndpoint, path_mtu_bytes
from gateways.protocols.ends import VehicleEvents
from gateways.protocols.shared_keys import shared_key
from schemas.topics import vehicle_id

ATTEMPTS: Final = 4
# After an empty ACK the response is due; beyond this, then twice that and so on, the vehicle asks again.
SEPARATE_RESPONSE_S: Final = 10.0
# How long a NON request may go unanswered beside those after it, and how many of them.
LINGER_S: Final = 15.0
_LINGERING_MAX: Final = 16
MAX_AGE_DEFAULT_S: Final = 60  # RFC 7252, 5.10.5
_LARGEST_SIZE_EXPONENT: Final = 6  # 1,024 bytes (RFC 7959, 2.2)
_IP_AND_UDP_HEADER_BYTES: Final = 28
_UDP_PAYLOAD_MAX_BYTES: Final = 65_507
_TOKEN_BYTES: Final = 2
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
        self._source = settings.source_address or _ANY_ADDRESS
        block_bytes = settings.coap_block_bytes
        self._size_exponent = _LARGEST_SIZE_EXPONENT if block_bytes is None else block_bytes.bit_length() - 5
        # None: not known before the path's MTU is.
        self._whole_bytes = block_bytes
        self._udp: UdpEndpoint | None = None
        self._remote = Remote((endpoint.host, endpoint.port))
        self._transfer: Transfer | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._round_trip = RoundTrip()
        self._responsiveness = Responsiveness(PARAMETERS)
        self._probe_timer: asyncio.TimerHandle | None = None
        self._request_token = random.randrange(1 << 8 * _TOKEN_BYTES)
        self._lingering: dict[bytes, Transfer] = {}
        self._guard: ClientGuard | None = None
        self._dtls: DtlsClient | None = None
        self._connect_timeout_s = settings.connect_timeout_s
        if endpoint.keys is not None:
            key = shared_key(endpoint.keys.file, vehicle_id(vehicle))
            if endpoint.keys.use == "oscore":
                self._guard = ClientGuard(vehicle, key)
            else:
                self._dtls = DtlsClient(vehicle_id(vehicle), key)

    async def connect(self) -> None:
        """Open the socket; CoAP over UDP has no handshake, so without DTLS this says nothing about the gateway."""
        self._loop = asyncio.get_running_loop()
        self._remote = await resolved(self._endpoint.host, self._endpoint.port)
        if self._whole_bytes is None:
            self._whole_bytes = self._one_datagram_bytes()
        if self._udp is None:
            udp = UdpEndpoint(self, dtls=self._dtls)
            udp.open(self._source, 0)
            if self._dtls is not None:
                try:
                    await self._dtls.connect(self._remote, self._connect_timeout_s)
                except BaseException:
                    udp.close()
                    raise
            self._udp = udp
        self._events.connected(time.time_ns(), session_present=False)

    async def close(self) -> None:
        self._stop_timer()
        if self._probe_timer is not None:
            self._probe_timer.cancel()
            self._probe_timer = None
        for transfer in self._lingering.values():
            assert transfer.lingering is not None
            transfer.lingering.cancel()
        self._lingering.clear()
        if self._udp is not None:
            self._udp.close()
            self._udp = None

    def ready(self) -> bool:
        return self._udp is not None and self._transfer is None and not self._responsiveness.silent

    def in_flight(self) -> int:
        return len(self._lingering) + (self._transfer is not None)

    def send(self, token: int, payload: bytes) -> None:
        assert self._whole_bytes is not None
        exponent = None if len(payload) <= self._whole_bytes else self._size_exponent
        self._transfer = Transfer(token, payload, exponent, tag=self._free_tag())
        self._send_next(self._transfer)

    def _one_datagram_bytes(self) -> int:
        """Return how much payload fits into one packet of the path's MTU (RFC 7252, 4.6)."""
        head = self._request(bytes(_TOKEN_BYTES))
        head.mid, head.mtype = 0, CON
        packet_bytes = min(
            path_mtu_bytes(self._source, self._remote), _UDP_PAYLOAD_MAX_BYTES + _IP_AND_UDP_HEADER_BYTES
        )
        protection_bytes = 0 if self._guard is None else OVERHEAD_BYTES
        if self._dtls is not None:
            packet_bytes = min(packet_bytes, dtls.RECORD_MAX_BYTES)
            protection_bytes = dtls.OVERHEAD_BYTES
        return (
            packet_bytes - _IP_AND_UDP_HEADER_BYTES - len(head.encode()) - 1 - protection_bytes
        )  # 1: the marker

    def _request(self, token: bytes) -> Message:
        request = Message(code=POST)
        request.opt.uri_path = self._path
        request.token, request.remote = token, self._remote
        return request

    def _send_next(self, transfer: Transfer) -> None:
        """Send the next block, or the whole message where it goes whole."""
        assert self._udp is not None
        self._request_token = (self._request_token + 1) & 0xFFFF
        request = self._request(self._request_token.to_bytes(_TOKEN_BYTES, "big"))
        request.payload = transfer.part()
        block = transfer.block()
        if block is not None:
            request.opt.block1 = block
            request.opt.request_tag = () if transfer.tag is None else (transfer.tag,)
        transfer.request = request.token
        if not transfer.more():
            transfer.asked.append(request.token)
        transfer.first_sent_at_s = transfer.sent_at_s = self._loop.time()
        transfer.patience_s = SEPARATE_RESPONSE_S
        transfer.exchange = self._udp.send(
            request if self._guard is None else self._guard.protect(request),
            confirmable=self._con,
            reset=lambda: self._reset(transfer),
        )
        self._responsiveness.sent()
        if transfer is not self._transfer:
            self._lingering[transfer.request] = transfer
        elif not self._con:
            self._wait(self._round_trip.timeout_s(), lambda: self._unanswered(transfer))

    # The layer below calls these.

    def datagram_unsent(self) -> None:
        self._events.datagram_unsent()

    def rejects(self, response: Message) -> bool:
        known = (None,) if self._guard is None else (None, OptionNumber.OSCORE)
        return response.bad_option not in known

    def process_response(self, response: Message) -> bool:
        if self._guard is not None and (response := self._proven(response)) is None:
            return False
        transfer = self._awaiting(response)
        if transfer is None or response.remote != self._remote:
            return False
        assert self._udp is not None
        if transfer is self._transfer:
            self._stop_timer()
        if not self._con:
            self._round_trip.sample(self._loop.time() - transfer.sent_at_s)
        elif self._udp.layer.busy(self._remote):
            # The response overtook its own acknowledgement, which is then superfluous (RFC 7252, 5.2.2).
            self._udp.layer.forget(self._remote)
        transfer.request = b""  # spent: a second answer to it is nobody's
        self._answered(transfer, response)
        return True

    def _proven(self, response: Message) -> Message | None:
        """Return the response without its protection; None where the gateway cannot have made it."""
        assert self._guard is not None
        found = self._guard.unprotect(response)
        if found is not None and found.proven and found.bad_option is not None:
            found = None  # RFC 7252, 5.4.1, of an option inside
        if found is None and response.mtype is ACK and self._transfer is not None:
            # Whoever sent it has ended the retransmissions: the answer of the gateway may still come.
            self._await_response(self._transfer)
        return found

    def _awaiting(self, response: Message) -> Transfer | None:
        transfer, token = self._transfer, response.token
        if transfer is not None and token and token == transfer.request:
            return transfer
        if transfer is not None and token in transfer.asked and _taken(response.code):
            return transfer
        return self._lingering.pop(token, None)

    def _answered(self, transfer: Transfer, response: Message) -> None:
        code, block = response.code, response.opt.block1
        if transfer.more() and code.is_successful():
            # 2.31, or 2.04 of a server that takes each block by itself (RFC 7959, 2.3: M is 0 then): the rest is still to come.
            if block is None:
                self._refuse(transfer, f"{_words(code)} to a part of the message, without Block1")
                return
            assert transfer.size_exponent is not None
            transfer.offset += transfer.block_bytes
            # The server may ask for smaller blocks (RFC 7959, 2.3); the offset is a multiple of them.
            transfer.size_exponent = min(transfer.size_exponent, block.size_exponent)
            self._send_next(transfer)
        elif _taken(code):
            self._end(transfer)
            self._events.acknowledged(transfer.token, time.time_ns())
        elif code == SERVICE_UNAVAILABLE and self._con:
            max_age_s = MAX_AGE_DEFAULT_S if response.opt.max_age is None else response.opt.max_age
            self._events.postponed(transfer.token, _words(code))
            # Spread, or every vehicle comes back in the same instant.
            self._wait(max_age_s * random.uniform(1.0, 1.5), lambda: self._start_again(transfer))
        elif code == UNAUTHORIZED and self._guard is not None and self._guard.challenged():
            # The gateway wants the message once more, with its Echo (RFC 9175, 2.3).
            self._try_again(transfer, "4.01 again and again: the gateway does not take its own Echo")
        elif (
            code == REQUEST_ENTITY_TOO_LARGE
            and block is not None
            and self._smaller(transfer, block.size_exponent)
        ):
            self._start_again(transfer)
        elif code == REQUEST_ENTITY_INCOMPLETE and self._con:
            self._try_again(transfer, "4.08 again and again: the gateway lost its blocks")
        else:
            self._refuse(transfer, _words(code))

    def timed_out(self, remote: Remote, messages: int) -> None:
        del remote, messages
        self._responsiveness.gave_up()
        self._give_up(self._transfer, f"CON time-out: {PARAMETERS.max_retransmit} retransmissions")
        self._probe()

    def acknowledged_empty(self, remote: Remote, message_id: int) -> None:
        del remote, message_id
        if self._transfer is not None and self._transfer.exchange is not None:
            self._await_response(self._transfer)

    def heard(self, remote: Remote) -> None:
        if remote != self._remote:
            return
        was_silent = self._responsiveness.silent
        self._responsiveness.heard()
        if was_silent:
            if self._probe_timer is not None:
                self._probe_timer.cancel()
                self._probe_timer = None
            self._loop.call_soon(self._events.writable)

    def _reset(self, transfer: Transfer) -> None:
        self._lingering.pop(transfer.request, None)
        self._refuse(transfer, "RST from the gateway")

    def _probe(self) -> None:
        """Ping a gateway that does not respond, at PROBING_RATE (RFC 7252, 4.7), until it does."""
        if self._udp is not None and self._responsiveness.silent:
            self._udp.layer.ping(self._remote)
            self._probe_timer = self._loop.call_later(self._responsiveness.probe_interval_s, self._probe)

    def _await_response(self, transfer: Transfer) -> None:
        """Wait for a separate response; ask again after 10, 20, 40 and 80 s, and give up in the end."""
        left_s = transfer.first_sent_at_s + PARAMETERS.exchange_lifetime_s - self._loop.time()
        if left_s <= 0:
            self._give_up(transfer, f"acknowledged, but no response in {PARAMETERS.exchange_lifetime_s:g} s")
            return
        # A repetition may itself be retransmitted, and every copy must come within the Message ID's lifetime.
        if transfer.patience_s + PARAMETERS.max_transmit_span_s <= left_s:
            self._wait(transfer.patience_s, lambda: self._ask_again(transfer))
            transfer.patience_s *= 2
        else:
            self._wait(left_s, lambda: self._await_response(transfer))

    def _ask_again(self, transfer: Transfer) -> None:
        assert self._udp is not None
        assert transfer.exchange is not None
        transfer.exchange = self._udp.repeat(transfer.exchange)

    def _unanswered(self, transfer: Transfer) -> None:
        """Let the next NON request go; the answer to this one may still come."""
        self._transfer = None
        self._responsiveness.unanswered()
        if len(self._lingering) >= _LINGERING_MAX:
            self._forget(next(iter(self._lingering.values())))
        self._lingering[transfer.request] = transfer
        transfer.lingering = self._loop.call_later(LINGER_S, self._forget, transfer)
        if self._responsiveness.silent:
            self._probe()
        else:
            self._events.writable()

    def _forget(self, transfer: Transfer) -> None:
        self._lingering.pop(transfer.request, None)
        self._give_up(transfer, f"NON without a response in {LINGER_S:g} s")

    def _free_tag(self) -> bytes | None:
        """Return no Request-Tag while no other upload is open: the option costs three bytes."""
        used = {transfer.tag for transfer in self._lingering.values()}
        tags = (None, *(bytes((number,)) for number in range(_LINGERING_MAX)))
        return next(tag for tag in tags if tag not in used)

    def _try_again(self, transfer: Transfer, reason: str) -> None:
        transfer.attempts += 1
        if transfer.attempts >= ATTEMPTS:
            self._refuse(transfer, reason)
        else:
            self._start_again(transfer)

    def _smaller(self, transfer: Transfer, size_exponent: int) -> bool:
        """Take the size of blocks that a server names with its 4.13 (RFC 7959, 2.9.3); False where it is none below."""
        tried = _LARGEST_SIZE_EXPONENT + 1 if transfer.size_exponent is None else transfer.size_exponent
        if size_exponent >= tried:
            return False
        # Of the messages after this one, too.
        self._size_exponent = min(self._size_exponent, size_exponent)
        assert self._whole_bytes is not None
        self._whole_bytes = min(self._whole_bytes, 1 << (size_exponent + 4))
        if transfer.size_exponent is None:
            transfer.size_exponent = self._size_exponent
        return True

    def _start_again(self, transfer: Transfer) -> None:
        transfer.offset = 0
        if transfer.size_exponent is not None:
            transfer.size_exponent = self._size_exponent
        self._send_next(transfer)

    def _refuse(self, transfer: Transfer, reason: str) -> None:
        """The gateway will not keep the message and says so: 4.xx, 5.03 to a NON request, RST."""
        self._end(transfer)
        self._events.refused(transfer.token, reason)

    def _give_up(self, transfer: Transfer | None, reason: str) -> None:
        """No answer: whether the message has arrived is not known."""
        if transfer is not None:
            self._end(transfer)
            self._events.unanswered(transfer.token, reason)

    def _end(self, transfer: Transfer) -> None:
        # It names the transfer in what a Reset calls: a circle, which Python's collector alone would take apart.
        transfer.exchange = None
        if transfer.lingering is not None:
            transfer.lingering.cancel()
        if transfer is self._transfer:
            self._stop_timer()
            self._transfer = None

    def _wait(self, seconds: float, then: Callable[[], None]) -> None:
        self._stop_timer()
        self._timer = self._loop.call_later(seconds, then)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _taken(code: Code) -> bool:
    """Say whether a response means that the peer keeps the message: 2.04 of ours, 2.01 of one that makes a resource of it."""
    return bool(code.is_successful()) and code != CONTINUE


def _words(code: Code) -> str:
    return f"{code.dotted} {Code(code).name_printable}"
