"""Echo topology's CoAP receiver: observes its vehicle's resource (RFC 7641) from an endpoint of its own."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from aiocoap import Message
from aiocoap.numbers.codes import CONTENT, GET

from gateways.protocols.backoff import Backoff
from gateways.protocols.base import Endpoint, VehicleSettings
from gateways.protocols.coap.address import coap_path
from gateways.protocols.coap.datagram import Remote, resolved
from gateways.protocols.coap.message_layer import Upper
from gateways.protocols.coap.udp import UdpEndpoint
from gateways.protocols.coap.vehicle import MAX_AGE_DEFAULT_S
from gateways.protocols.ends import ConnectError, SubscriberEvents
from schemas.topics import vehicle_id

_ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - the system chooses among its own addresses
_NUMBERS_REMEMBERED: Final = 64
_TOKEN_BYTES: Final = 2


class CoapObserver(Upper):
    """One observation; renewed when nothing has come for Max-Age (RFC 7641, 3.3.1)."""

    def __init__(
        self,
        endpoint: Endpoint,
        vehicle: int,
        *,
        con: bool,
        events: SubscriberEvents,
        settings: VehicleSettings,
    ) -> None:
        self._endpoint = endpoint
        self._path = coap_path(vehicle_id(vehicle))
        self._con = con
        self._events = events
        self._settings = settings
        self._udp: UdpEndpoint | None = None
        self._remote = Remote((endpoint.host, endpoint.port))
        self._token = random.randbytes(_TOKEN_BYTES)
        self._numbers: deque[int] = deque(maxlen=_NUMBERS_REMEMBERED)
        self._registered: asyncio.Future[None] | None = None
        self._known = False
        self._renewal: asyncio.TimerHandle | None = None
        self._backoff = Backoff()
        self._fetch: Fetch | None = None

    async def open(self) -> None:
        """Register; ConnectError when the server does not answer in time or has nothing to observe."""
        self.loop = asyncio.get_running_loop()
        self._remote = await resolved(self._endpoint.host, self._endpoint.port)
        if self._udp is None:
            udp = UdpEndpoint(self)
            udp.open(self._settings.source_address or _ANY_ADDRESS, 0)
            self._udp = udp
        self._registered = self.loop.create_future()
        self._register()
        try:
            await asyncio.wait_for(self._registered, self._settings.connect_timeout_s)
        except TimeoutError as error:
            await self.close()
            raise ConnectError(f"CoAP observe at {self._remote.hostinfo}: no answer") from error
        except ConnectError:
            await self.close()
            raise
        finally:
            self._registered = None

    async def close(self) -> None:
        self._stop_renewal()
        if self._fetch is not None:
            self._fetch.stop()
        if self._udp is not None:
            self._udp.layer.forget(self._remote)
            self._udp.send(self._request(observe=1), confirmable=False)
            self._udp.close()
            self._udp = None

    def _register(self) -> None:
        if self._udp is not None:
            self._udp.send(self._request(observe=0), confirmable=True)

    def _request(self, *, observe: int) -> Message:
        request = Message(code=GET)
        request.remote, request.token = self._remote, self._token
        request.opt.uri_path = self._path
        request.opt.observe = observe
        return request

    # The layer below calls these.

    def process_response(self, response: Message) -> bool:
        received_at_ns = time.time_ns()
        if response.remote != self._remote:
            return False
        if response.token != self._token:
            return self._fetch is not None and self._fetch.answered(response)
        if response.code != CONTENT or response.opt.observe is None:
            self._declined(response)
            return True
        self._renew_in(MAX_AGE_DEFAULT_S if response.opt.max_age is None else response.opt.max_age)
        if self._registered is not None and not self._registered.done():
            self._registered.set_result(None)
        known, self._known = self._known, True
        self._notified(response, received_at_ns, report=known)
        return True

    def _notified(self, response: Message, received_at_ns: int, *, report: bool) -> None:
        number = response.opt.observe
        duplicate = number in self._numbers
        self._numbers.append(number)
        block = response.opt.block2
        if not report:
            return  # the state before the first registration is nobody's message of this run
        if block is None or not block.more:
            if response.payload:
                self._events.received(response.payload, received_at_ns, duplicate)
        elif not duplicate:
            self._fetch_rest(response)

    def _fetch_rest(self, response: Message) -> None:
        if self._fetch is not None:
            self._fetch.stop()
        assert self._udp is not None
        token = bytes((self._token[0] ^ 1, *random.randbytes(_TOKEN_BYTES - 1)))
        self._fetch = Fetch(
            self._udp, self._path, con=self._con, token=token, first=response, done=self._fetched
        )

    def _fetched(self, payload: bytes) -> None:
        self._events.received(payload, time.time_ns(), False)

    def _declined(self, response: Message) -> None:
        if self._registered is not None and not self._registered.done():
            self._registered.set_exception(ConnectError(f"CoAP observe: {response.code.dotted}"))
        else:
            self._renew_in(self._backoff.next_s())

    def timed_out(self, remote: Remote, messages: int) -> None:
        del remote, messages
        if self._fetch is not None:
            self._fetch.stop()
        self._renew_in(self._backoff.next_s())

    def _renew_in(self, seconds: float) -> None:
        self._stop_renewal()
        # 5 to 15 s of grace, so that a late notification is not taken for silence (RFC 7641, 3.3.1).
        self._renewal = self.loop.call_later(seconds + random.uniform(5, 15), self._register)

    def _stop_renewal(self) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
            self._renewal = None


class Fetch:
    """The rest of a block-wise notification (RFC 7959, 2.6); given up once the state has changed."""

    def __init__(
        self,
        udp: UdpEndpoint,
        path: tuple[str, ...],
        *,
        con: bool,
        token: bytes,
        first: Message,
        done: Callable[[bytes], None],
    ) -> None:
        self._udp = udp
        self._path = path
        self._con = con
        self._token = token
        self._etag = first.opt.etag
        self._remote = first.remote
        self._body = bytearray(first.payload)
        self._exponent = first.opt.block2.size_exponent
        self._done = done
        self._over = False
        self._ask()

    def stop(self) -> None:
        """Give up; idempotent."""
        if not self._over and self._con:
            self._udp.layer.forget(self._remote)
        self._over = True

    def answered(self, response: Message) -> bool:
        """Take the next block; False when the response is not for this transfer."""
        if self._over or response.token != self._token:
            return False
        block = response.opt.block2
        fits = block is not None and block.block_number << (block.size_exponent + 4) == len(self._body)
        if response.code != CONTENT or response.opt.etag != self._etag or not fits:
            self._over = True
            return True
        self._body += response.payload
        if block.more:
            self._ask()
        else:
            self._over = True
            self._done(bytes(self._body))
        return True

    def _ask(self) -> None:
        request = Message(code=GET)
        request.remote, request.token = self._remote, self._token
        request.opt.uri_path = self._path
        request.opt.block2 = (len(self._body) >> (self._exponent + 4), False, self._exponent)
        self._udp.send(request, confirmable=self._con, reset=self.stop)
