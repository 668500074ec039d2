"""The gateway as a CoAP server: POST to a vehicle's path; 2.04 only once the bridge says Kafka has it."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from aiocoap import Message
from aiocoap.numbers.codes import (
    BAD_OPTION,
    CHANGED,
    CONTINUE,
    METHOD_NOT_ALLOWED,
    NOT_FOUND,
    POST,
    SERVICE_UNAVAILABLE,
)

from gateways.protocols.base import Endpoint, IntakeSettings, Receipt, Sink
from gateways.protocols.coap_blocks import Assemblies, BlockError
from gateways.protocols.coap_layer import MessageLayer, Upper
from gateways.protocols.coap_wire import Remote, resolve, response
from schemas.topics import vehicle_of_coap_path

_CACHE_PATHS = 100_000


class CoapServer(Upper, ABC):
    """What every CoAP server here shares: the socket, refusals, block-wise requests.

    `process_request` answers what is wrong and passes whole POSTs to `_post`, other methods to `_other`.
    """

    def __init__(self, endpoint: Endpoint, *, shared: bool) -> None:
        self._endpoint = endpoint
        self._shared = shared
        self._layer: MessageLayer | None = None
        self._bound = (endpoint.host, endpoint.port)
        self._blocks = Assemblies()
        self._vehicles: dict[tuple[str, ...], str] = {}
        self._counts = dict.fromkeys(
            ("requests", "blocks", "rejected", "unavailable", "separate", "responses_unacknowledged"), 0
        )

    async def open(self) -> None:
        """Bind the socket; with several processes on one port each vehicle stays with one (SO_REUSEPORT)."""
        self.loop = asyncio.get_running_loop()
        layer = MessageLayer(self)
        address = resolve(self._endpoint.host, self._endpoint.port)
        self._bound = layer.open(address[0], address[1], reuse_port=self._shared, server=True)
        self._layer = layer

    async def close(self) -> None:
        if self._layer is not None:
            self._layer.close()

    def endpoint(self) -> tuple[str, int]:
        return self._bound

    def counters(self) -> Mapping[str, int]:
        layer = self._layer
        if layer is None:
            return dict(self._counts)
        return {
            **self._counts,
            "coap_same_message_id": layer.duplicates,
            "malformed": layer.malformed,
            "datagrams_unsent": layer.unsent,
            "message_ids_remembered": layer.remembered(),
        }

    # The layer below calls these.

    def process_request(self, request: Message) -> None:
        self._counts["requests"] += 1
        if request.bad_option is not None:
            self._reject(request, BAD_OPTION)
        elif request.code != POST:
            self._other(request)
        elif request.opt.block1 is None:
            self._post(request, request.opt.uri_path, request.payload)
        else:
            self._block(request, request.opt.uri_path, request.opt.block1)

    def dispatch_error(self, error: Exception, remote: Remote) -> None:
        del error, remote
        self._counts["responses_unacknowledged"] += 1

    def acknowledged_empty(self, remote: Remote, message_id: int) -> None:
        del remote, message_id
        self._counts["separate"] += 1

    def _block(self, request: Message, path: tuple[str, ...], block: Any) -> None:
        self._counts["blocks"] += 1
        if not block.block_number and self._turned_away(request):
            return
        try:
            number, more, exponent = block
            key = (request.remote, "/".join(path), request.opt.request_tag)
            payload = self._blocks.add(key, number, more, exponent, request.payload)
        except BlockError as error:
            self._reject(request, error.code)
            return
        if payload is None:
            self._respond(request, CONTINUE)
        else:
            self._post(request, path, payload)

    def _vehicle(self, path: tuple[str, ...]) -> str:
        """Return the vehicle id in a path; ValueError when it names none."""
        identity = self._vehicles.get(path)
        if identity is None:
            identity = vehicle_of_coap_path(path)
            if len(self._vehicles) >= _CACHE_PATHS:
                self._vehicles.clear()
            self._vehicles[path] = identity
        return identity

    def _respond(self, request: Message, code: int, max_age_s: int | None = None) -> None:
        message = response(request, code)
        if request.opt.block1 is not None:
            message.opt.block1 = request.opt.block1
        if max_age_s is not None:
            message.opt.max_age = max_age_s
        self._send(message)

    def _send(self, message: Message) -> None:
        if self._layer is not None:
            self._layer.send_message(message, _no_reset_wanted)

    def _reject(self, request: Message, code: int) -> None:
        self._counts["rejected"] += 1
        self._respond(request, code)

    def _turned_away(self, request: Message) -> bool:
        """Answer a request that there is no room for, and say so; a server without a limit takes all."""
        del request
        return False

    @abstractmethod
    def _post(self, request: Message, path: tuple[str, ...], payload: bytes) -> None:
        """Take a whole request; answer it now or later."""

    def _other(self, request: Message) -> None:
        self._reject(request, METHOD_NOT_ALLOWED)


class CoapIntake(CoapServer):
    """Requests in, one receipt each; never more of them unanswered than `receive_max`."""

    def __init__(self, endpoint: Endpoint, sink: Sink, settings: IntakeSettings) -> None:
        super().__init__(endpoint, shared=settings.shared)
        self._sink = sink
        self._settings = settings
        self._unanswered: dict[Message, int] = {}
        self._paused = False

    async def open(self) -> None:
        await super().open()
        self._sink.link(up=True, reason="listening")

    def acknowledge(self, receipt: Receipt) -> None:
        code = self._unanswered.pop(receipt, None)
        if code is not None:
            self._respond(receipt, code)

    def refuse(self, receipt: Receipt, reason: str) -> None:
        del reason
        if self._unanswered.pop(receipt, None) is not None:
            self._unavailable(receipt)

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False

    def flush(self) -> None:
        """Every response has left already: one datagram each."""

    def _turned_away(self, request: Message) -> bool:
        if not self._paused and len(self._unanswered) < self._settings.receive_max:
            return False
        self._unavailable(request)
        return True

    def _unavailable(self, request: Message) -> None:
        """Ask the vehicle to come back after Max-Age (RFC 7252, 5.9.3.4)."""
        self._counts["unavailable"] += 1
        self._respond(request, SERVICE_UNAVAILABLE, self._settings.max_age_s)

    def _post(self, request: Message, path: tuple[str, ...], payload: bytes) -> None:
        received_at_ns = time.time_ns()
        if self._turned_away(request):
            return
        try:
            identity = self._vehicle(path)
        except ValueError as error:
            self._unanswered[request] = NOT_FOUND
            address = "/".join(path)[:200]
            self._sink.misaddressed(address, payload, received_at_ns, request, str(error))
            return
        self._unanswered[request] = CHANGED
        # A duplicate under the same Message ID never comes this far: the message layer answers it.
        self._sink.take(identity, payload, received_at_ns, False, request)


def _no_reset_wanted() -> None:
    """A vehicle that resets a separate response does not want it; nothing follows from that."""
