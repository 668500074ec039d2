"""The gateway as a CoAP server: POST to a vehicle's path; 2.04 only once the bridge says Kafka has it."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from aiocoap import Message
from aiocoap.numbers.codes import (
    BAD_OPTION,
    BAD_REQUEST,
    CHANGED,
    CONTINUE,
    FORBIDDEN,
    GET,
    METHOD_NOT_ALLOWED,
    NOT_FOUND,
    POST,
    PROXYING_NOT_SUPPORTED,
    SERVICE_UNAVAILABLE,
    UNSUPPORTED_CONTENT_FORMAT,
)
from aiocoap.numbers.optionnumbers import OptionNumber
from aiocoap.numbers.types import NON

from gateways.protocols.base import Endpoint, IntakeSettings, SharedKeys
from gateways.protocols.coap import discovery
from gateways.protocols.coap.address import coap_addresses, coap_path
from gateways.protocols.coap.blocks import Assemblies, BlockError
from gateways.protocols.coap.content_formats import content_formats
from gateways.protocols.coap.datagram import Remote, resolved
from gateways.protocols.coap.dtls_server import DtlsServer
from gateways.protocols.coap.message_layer import Upper
from gateways.protocols.coap.oscore import ServerGuard, UnprotectedError
from gateways.protocols.coap.udp import UdpEndpoint
from gateways.protocols.ends import Receipt, Sink
from gateways.protocols.shared_keys import shared_keys
from schemas.topics import vehicle_of_address

_CACHE_PATHS = 100_000
_OF_PROXIES = frozenset({OptionNumber.PROXY_URI, OptionNumber.PROXY_SCHEME})


class CoapServer(Upper, ABC):
    """What every CoAP server here shares: the socket, refusals, block-wise requests, discovery.

    `_serve` answers what is wrong and passes whole POSTs to `_post`, other methods to `_other`. A request
    from a vehicle's address speaks for that vehicle alone.

    Args:
        types: Content-Formats that a payload may have; one that says none is taken for what is asked (RFC 7252, 5.5.1).
            What has another is not taken, unless `_post` does.
        observable: its resources may be observed.
        guard: has the vehicles' keys; what it cannot unprotect is answered and goes no further.
        address: scheme of the vehicles' paths; "" is ours.
    """

    _refuses_types = True

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        shared: bool,
        types: tuple[int, ...] = (discovery.OCTET_STREAM,),
        observable: bool = False,
        guard: ServerGuard | DtlsServer | None = None,
        address: str = "",
    ) -> None:
        self._endpoint = endpoint
        self._addresses = coap_addresses(address)
        self._ours = not address
        self._shared = shared
        self._udp: UdpEndpoint | None = None
        self._bound = (endpoint.host, endpoint.port)
        self._blocks = Assemblies()
        self._types = types
        self._observable = observable
        self._vehicles: dict[tuple[str, ...], str] = {}
        # The paths that discovery lists.
        self._resources: dict[tuple[str, ...], None] = {}
        self._owners: dict[str, str | None] = {}
        self._counts = dict.fromkeys(
            (
                "requests",
                "blocks",
                "rejected",
                "impersonations",
                "unavailable",
                "separate",
                "responses_unacknowledged",
            ),
            0,
        )
        self._guard = guard
        self._dtls = guard if isinstance(guard, DtlsServer) else None
        if guard is not None:
            self._counts.update(dict.fromkeys(guard.COUNTS, 0))

    async def open(self) -> None:
        """Bind the socket; with several processes on one port each vehicle stays with one (SO_REUSEPORT)."""
        udp = UdpEndpoint(self, server=True, dtls=self._dtls)
        address = await resolved(self._endpoint.host, self._endpoint.port)
        self._bound = udp.open(address[0], address[1], reuse_port=self._shared)
        self._udp = udp

    async def close(self) -> None:
        if self._udp is not None:
            self._udp.close()

    def endpoint(self) -> tuple[str, int]:
        return self._bound

    def counters(self) -> Mapping[str, int]:
        if self._udp is None:
            return dict(self._counts)
        layer = self._udp.layer
        return {
            **self._counts,
            **({} if self._dtls is None else self._dtls.counts),
            "coap_same_message_id": layer.duplicates,
            "malformed": layer.malformed,
            "datagrams_unsent": self._udp.unsent,
            "datagrams_dropped": self._udp.dropped(),
            "responses_over_limit": layer.over_limit,
            "message_ids_remembered": layer.remembered(),
        }

    # The layer below calls these.

    def process_request(self, request: Message) -> None:
        self._counts["requests"] += 1
        if self._guard is not None:
            try:
                request = self._guard.unprotect(request)
            except UnprotectedError as refused:
                self._counts[refused.count] += 1
                if self._udp is not None:
                    self._udp.respond(request, refused.answer)
                return
        self._serve(request)

    def _serve(self, request: Message) -> None:
        path = request.opt.uri_path
        if request.code == GET and path == discovery.WELL_KNOWN_CORE:
            self._discover(request)
        elif request.bad_option is not None:
            self._refuse_option(request)
        elif request.code != POST:
            if not self._impersonates(request, path):
                self._other(request)
        elif self._refuses_types and not self._of_a_type(request):
            self._reject(request, UNSUPPORTED_CONTENT_FORMAT)
        elif self._impersonates(request, path):
            return
        elif request.opt.block1 is None:
            self._post(request, path, request.payload)
        else:
            self._block(request, path, request.opt.block1)

    def _refuse_option(self, request: Message) -> None:
        """Answer what this server does not do: 5.05 to a request for a proxy (RFC 7252, 5.10.2), else 4.02 (5.4.1).

        In a NON an unknown critical option is rejected without a word (4.3).
        """
        if request.bad_option in _OF_PROXIES:
            self._reject(request, PROXYING_NOT_SUPPORTED)
        elif request.mtype is NON:
            self._counts["rejected"] += 1
        else:
            self._reject(request, BAD_OPTION)

    def _of_a_type(self, request: Message) -> bool:
        return request.content_format is None or request.content_format in self._types

    def timed_out(self, remote: Remote, messages: int) -> None:
        del remote
        self._counts["responses_unacknowledged"] += messages

    def acknowledged_empty(self, remote: Remote, message_id: int) -> None:
        del remote, message_id
        self._counts["separate"] += 1

    def _block(self, request: Message, path: tuple[str, ...], block: Any) -> None:
        self._counts["blocks"] += 1
        if not block.block_number and self._turned_away(request):
            return
        try:
            number, more, exponent = block
            key = (request.remote, path, request.opt.request_tag)
            payload = self._blocks.add(key, number, more, exponent, request.payload)
        except BlockError as error:
            self._reject(request, error.code)
            return
        if payload is None:
            self._respond(request, CONTINUE)
        else:
            self._post(request, path, payload)

    def _impersonates(self, request: Message, path: tuple[str, ...]) -> bool:
        """Answer 4.03 to a vehicle that speaks for another, and say so; a path without a vehicle is nobody's.

        Who it is, its address says, and with keys its key besides.
        """
        host = request.remote[0]
        owner = self._owners.get(host, "")
        if owner == "":
            if len(self._owners) >= _CACHE_PATHS:
                self._owners.clear()
            owner = self._owners[host] = vehicle_of_address(host)
        at = self._addresses.at
        if self._guard is not None and path[at : at + 1] != (request.identity,):
            owner = request.identity
        if owner is None or path[at : at + 1] == (owner,):
            return False
        try:
            self._vehicle(path)
        except ValueError:
            return False
        self._counts["impersonations"] += 1
        self._reject(request, FORBIDDEN)
        return True

    def _discover(self, request: Message) -> None:
        """Answer /.well-known/core (RFC 6690, 4): a vehicle is shown its own resource, others all that were taken.

        A query is no filter here (4.1 allows that): the whole list comes.
        """
        if request.bad_option not in (None, OptionNumber.URI_QUERY):
            self._refuse_option(request)
            return
        owner = vehicle_of_address(request.remote[0])
        paths: Iterable[tuple[str, ...]] = self._resources
        if owner is not None:
            # What another scheme has for any one level is not known before a message is taken.
            at = self._addresses.at
            paths = [coap_path(owner)] if self._ours else [p for p in paths if p[at] == owner]
        self._send(
            request,
            discovery.answer(request, discovery.links(paths, self._types, observable=self._observable)),
        )

    def _list(self, path: tuple[str, ...]) -> None:
        """Have discovery list the path of a message that was taken."""
        if len(self._resources) < _CACHE_PATHS:
            self._resources[path] = None

    def _vehicle(self, path: tuple[str, ...]) -> str:
        """Return the vehicle id in a path; ValueError when it names none."""
        identity = self._vehicles.get(path)
        if identity is None:
            # A segment may hold a slash of its own (RFC 7252, 6.5), which is no separator.
            identity = self._addresses.vehicle_of("/".join(segment.replace("/", "%2F") for segment in path))
            if len(self._vehicles) >= _CACHE_PATHS:
                self._vehicles.clear()
            self._vehicles[path] = identity
        return identity

    def _respond(self, request: Message, code: int, max_age_s: int | None = None) -> None:
        message = Message(code=code)
        if request.opt.block1 is not None:
            message.opt.block1 = request.opt.block1
        if max_age_s is not None:
            message.opt.max_age = max_age_s
        self._send(request, message)

    def _send(self, request: Message, message: Message) -> None:
        if self._udp is not None:
            if self._guard is not None:
                message = self._guard.protect(request, message)
            self._udp.respond(request, message)

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


def _guard(keys: SharedKeys) -> ServerGuard | DtlsServer:
    known = shared_keys(keys.file)
    return ServerGuard(known) if keys.use == "oscore" else DtlsServer(known)


class CoapIntake(CoapServer):
    """Requests in, one receipt each; never more of them unanswered than `receive_max`."""

    # They go to the dead letters, and their 4.15 comes then.
    _refuses_types = False

    def __init__(self, endpoint: Endpoint, sink: Sink, settings: IntakeSettings) -> None:
        self._media_types = content_formats(settings.format)
        super().__init__(
            endpoint,
            shared=settings.shared,
            types=(discovery.OCTET_STREAM, *self._media_types),
            guard=None if endpoint.keys is None else _guard(endpoint.keys),
            address=settings.address,
        )
        self._sink = sink
        self._settings = settings
        self._unanswered: dict[Message, int] = {}
        self._paused = False

    async def open(self) -> None:
        await super().open()
        self._sink.link(up=True, reason="listening")

    def invalid(self, receipt: Receipt) -> None:
        # 2.04 means that the message is kept; a dead letter is none.
        code = self._unanswered.get(receipt)
        self._counts["rejected"] += code in {CHANGED, UNSUPPORTED_CONTENT_FORMAT}
        if code == CHANGED:
            self._unanswered[receipt] = BAD_REQUEST

    def left_behind(self) -> str | None:
        return None

    def acknowledge(self, receipt: Receipt) -> None:
        code = self._unanswered.pop(receipt, None)
        if code == CHANGED:
            self._list(receipt.opt.uri_path)
        if code is not None:
            self._respond(receipt, code)

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
        # A duplicate under the same Message ID never comes this far: the message layer answers it.
        self._unanswered[request] = CHANGED if self._of_a_type(request) else UNSUPPORTED_CONTENT_FORMAT
        number = request.content_format
        if number in {None, discovery.OCTET_STREAM}:
            self._sink.take(identity, payload, received_at_ns, False, request)
        else:
            said = self._media_types.get(number, f"CoAP Content-Format {number}")
            self._sink.take(identity, payload, received_at_ns, False, request, said)
