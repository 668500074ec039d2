"""Echo topology's CoAP server: a POST becomes the state of an observable resource (RFC 7641); no Kafka.

Observe carries states, not messages: a notification that is still being retransmitted when the next state
comes is superseded by it (RFC 7641, 4.5.2), and that message is lost to the observer. A state goes back as it
came: whole, or in blocks of the same size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from aiocoap import Message
from aiocoap.numbers.codes import BAD_REQUEST, CHANGED, CONTENT, GET, METHOD_NOT_ALLOWED, NOT_FOUND

from gateways.protocols.base import Endpoint
from gateways.protocols.coap.datagram import Remote
from gateways.protocols.coap.intake import CoapServer

_LARGEST_SIZE_EXPONENT: Final = 6  # 1,024 bytes (RFC 7959, 2.2)
_OBSERVE_MODULUS: Final = 1 << 24  # RFC 7641, 3.4
MAX_OBSERVERS: Final = 100_000
# Of states: how many are kept, and their payloads.
MAX_STATES: Final = 100_000
MAX_STATE_BYTES: Final = 256 << 20


@dataclass(slots=True)
class State:
    """A resource's newest message; `number` is its Observe value and its ETag.

    Attributes:
        size_exponent: of the blocks in which the payload came and goes out again; None when it came whole.
    """

    number: int = 0
    payload: bytes = b""
    size_exponent: int | None = None


@dataclass(slots=True, eq=False)
class Observer:
    """One entry of the list of observers (RFC 7641, 4.1)."""

    remote: Remote
    token: bytes
    vehicle: str
    waiting: bool = False


class CoapEcho(CoapServer):
    """POST and GET with Observe on `/vehicles/<id>/status`; of one address the newest observation of a vehicle is kept.

    Args:
        endpoint: address and port to bind.
        con: notifications are confirmable.
    """

    def __init__(self, endpoint: Endpoint, *, con: bool, shared: bool = False) -> None:
        super().__init__(endpoint, shared=shared, observable=True)
        self._con = con
        # By vehicle, the one that was posted longest ago first.
        self._states: dict[str, State] = {}
        self._state_bytes = 0
        # One for all resources, so that one that was forgotten goes on behind what its observers have had.
        self._number = 0
        self._registered = 0
        self._observers: dict[Remote, dict[bytes, Observer]] = {}
        self._of_vehicle: dict[str, dict[Observer, None]] = {}
        self._counts.update(
            notifications=0, superseded=0, observers_gone=0, observers_replaced=0, states_forgotten=0
        )

    def observers(self) -> int:
        """Return how many observations are registered."""
        return self._registered

    def _post(self, request: Message, path: tuple[str, ...], payload: bytes) -> None:
        try:
            identity = self._vehicle(path)
        except ValueError:
            self._reject(request, NOT_FOUND)
            return
        self._list(path)
        block = request.opt.block1
        exponent = None if block is None else min(block.size_exponent, _LARGEST_SIZE_EXPONENT)
        self._keep(identity, payload, exponent)
        self._respond(request, CHANGED)
        for observer in list(self._of_vehicle.get(identity, ())):
            self._notify(observer)

    def _keep(self, identity: str, payload: bytes, exponent: int | None) -> None:
        """Make a payload the vehicle's state; beyond the limits the oldest state is forgotten."""
        states = self._states
        older = states.pop(identity, None)
        if older is not None:
            self._state_bytes -= len(older.payload)
        self._number = (self._number + 1) % _OBSERVE_MODULUS
        states[identity] = State(self._number, payload, exponent)
        self._state_bytes += len(payload)
        while len(states) > MAX_STATES or self._state_bytes > MAX_STATE_BYTES:
            oldest = next(iter(states))
            self._state_bytes -= len(states.pop(oldest).payload)
            self._counts["states_forgotten"] += 1
            for observer in self._of_vehicle.get(oldest, ()):
                self._counts["superseded"] += int(observer.waiting)
                observer.waiting = False

    def _other(self, request: Message) -> None:
        if request.code != GET:
            self._reject(request, METHOD_NOT_ALLOWED)
            return
        try:
            identity = self._vehicle(request.opt.uri_path)
        except ValueError:
            self._reject(request, NOT_FOUND)
            return
        block = request.opt.block2
        # Nothing posted, or forgotten: it is empty, and the next one is newer.
        state = self._states.get(identity) or State(self._number)
        number, exponent = 0, state.size_exponent
        if block is not None:
            number, exponent = block.block_number, min(block.size_exponent, _LARGEST_SIZE_EXPONENT)
            if number and number << (exponent + 4) >= len(state.payload):
                self._reject(request, BAD_REQUEST)
                return
        answer = Message(code=CONTENT)
        _fill(answer, state, number, exponent)
        if number == 0 and self._registration(request, identity):
            answer.opt.observe = state.number
        self._send(request, answer)

    def _registration(self, request: Message, identity: str) -> bool:
        """Register or deregister (RFC 7641, 4.1); say whether the answer is a notification."""
        if request.opt.observe is None:
            return False
        if request.opt.observe != 0:
            self._remove(request.remote, request.token)
            return False
        known = self._observers.get(request.remote, {}).get(request.token)
        if known is not None and known.vehicle == identity:
            return True
        if self.observers() >= MAX_OBSERVERS:
            return False  # a server may decline: then the answer is an ordinary one
        self._remove(request.remote, request.token)
        self._replace(request.remote, identity)
        observer = Observer(request.remote, request.token, identity)
        self._observers.setdefault(request.remote, {})[request.token] = observer
        self._of_vehicle.setdefault(identity, {})[observer] = None
        self._registered += 1
        return True

    def _replace(self, remote: Remote, identity: str) -> None:
        """Remove what the same address observes of this vehicle: a vehicle observes itself once.

        The farewell of a process that ended may be lost, and the ICMP messages that nobody listens any more are limited:
        every message would go back twice, to the new process and to the port of the one that is gone.
        """
        for observer in list(self._of_vehicle.get(identity, ())):
            if observer.remote[0] == remote[0]:
                self._counts["observers_replaced"] += 1
                self._remove(observer.remote, observer.token)

    def _remove(self, remote: Remote, token: bytes) -> None:
        tokens = self._observers.get(remote, {})
        observer = tokens.pop(token, None)
        if observer is not None:
            self._registered -= 1
            others = self._of_vehicle[observer.vehicle]
            del others[observer]
            if not others:
                del self._of_vehicle[observer.vehicle]
        if not tokens:
            self._observers.pop(remote, None)

    def _notify(self, observer: Observer) -> None:
        assert self._udp is not None
        if self._con and self._udp.layer.busy(observer.remote):
            self._counts["superseded"] += int(observer.waiting)
            observer.waiting = True
            return
        message = self._notification(observer)
        self._udp.send(message, confirmable=self._con, reset=lambda: self._gone(observer))

    def _notification(self, observer: Observer) -> Message:
        observer.waiting = False
        self._counts["notifications"] += 1
        message = Message(code=CONTENT)
        message.remote, message.token = observer.remote, observer.token
        state = self._states[observer.vehicle]
        message.opt.observe = state.number
        _fill(message, state, 0, state.size_exponent)
        return message

    def _gone(self, observer: Observer) -> None:
        """The observer has answered with RST: it is no longer interested (RFC 7641, 3.6)."""
        self._counts["observers_gone"] += 1
        self._remove(observer.remote, observer.token)

    # The layer below calls these.

    def timed_out(self, remote: Remote, messages: int) -> None:
        super().timed_out(remote, messages)
        for token in list(self._observers.get(remote, ())):
            self._counts["observers_gone"] += 1
            self._remove(remote, token)

    def exchange_over(self, remote: Remote) -> None:
        for observer in self._waiting(remote):
            self._notify(observer)

    def newer(self, message: Message) -> Message | None:
        observer = self._observers.get(message.remote, {}).get(message.token)
        if observer is None or not observer.waiting or message.code != CONTENT:
            return None
        self._counts["superseded"] += 1
        return self._notification(observer)

    def _waiting(self, remote: Remote) -> Iterator[Observer]:
        return (o for o in list(self._observers.get(remote, {}).values()) if o.waiting)


def _fill(message: Message, state: State, number: int, exponent: int | None) -> None:
    """Put block `number` of the state into `message` (RFC 7959, 2.4); Block2 and ETag only where needed."""
    if exponent is None:
        message.payload = state.payload
        return
    size = 1 << (exponent + 4)
    start = number * size
    message.payload = state.payload[start : start + size]
    if len(state.payload) > size or number:
        message.opt.block2 = (number, start + size < len(state.payload), exponent)
        message.opt.etag = state.number.to_bytes(3, "big")
