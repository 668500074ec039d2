"""OSCORE (RFC 8613) around the messages of CoAP's ends, by aiocoap's public security contexts; it sends nothing.

A request's options and payload are encrypted one by one, so a payload in several blocks is several requests, each protected
by itself: the blocks are inner ones (4.1.3.4), and whoever reassembles them knows that each came from the same vehicle.

The server's replay window is empty when it starts, and it cannot know what came before: it has the first request of each
vehicle repeated with an Echo option of its choice (RFC 8613, B.1.2; RFC 9175, 2). That is one round trip more, once.
What the server cannot unprotect it answers in the open (8.2): such an answer proves nothing, and a client that meets one
takes it for a refusal, never for an acknowledgement.
"""

from __future__ import annotations

import logging
import secrets
import time
from typing import Any, Final

from aiocoap import Message
from aiocoap.error import Error
from aiocoap.message import Direction
from aiocoap.numbers.codes import BAD_OPTION, BAD_REQUEST, UNAUTHORIZED
from aiocoap.numbers.optionnumbers import OptionNumber
from aiocoap.oscore import (
    DEFAULT_ALGORITHM,
    DEFAULT_HASHFUNCTION,
    CanProtect,
    CanUnprotect,
    DecodeError,
    ReplayError,
    ReplayErrorWithEcho,
    ReplayWindow,
    SecurityContextUtils,
    algorithms,
    hashfunctions,
)

from gateways.protocols.coap.datagram import IGNORED_CRITICAL, READ, note_bad
from schemas.topics import vehicle_id

OSCORE: Final = int(OptionNumber.OSCORE)
_GATEWAY_ID: Final = b""
_VEHICLE_ID_BYTES: Final = 2
_WINDOW: Final = 32  # RFC 8613, 3.2.2
_ECHO_BYTES: Final = 8
# Numbers have 40 bits (7.2.1): in units of 2 ms the time since 1970 fits until 2043.
_NUMBER_SHIFT: Final = 21
# Requests of one vehicle that may await their answers: those that linger, and those that are asked again.
_AWAITED_MAX: Final = 64
# What protection may add to a request (6.1): the option with its header, the inner code, the tag, and an Echo.
OVERHEAD_BYTES: Final = 9 + 1 + 8 + 3 + _ECHO_BYTES
_LOG = logging.getLogger(__name__)
_NAMED_MAX: Final = 1_000


class Context(CanProtect, CanUnprotect, SecurityContextUtils):  # type: ignore[misc]
    """One end of a security context, in memory: its keys are of one run, and so are its numbers.

    Args:
        key: the master secret; no salt is needed, since it is random and used once (RFC 8613, 3.2).
        fresh: whether nothing can have been received under this key before.
    """

    alg_aead = algorithms[DEFAULT_ALGORITHM]
    hashfun = hashfunctions[DEFAULT_HASHFUNCTION]
    id_context = None

    def __init__(self, key: bytes, sender: bytes, recipient: bytes, *, fresh: bool) -> None:
        self.sender_id, self.recipient_id = sender, recipient
        # A server may start again under the same key, and no number may come twice (RFC 8613, 7.2.1): time does not.
        self.sender_sequence_number = 0 if fresh else time.time_ns() >> _NUMBER_SHIFT
        self.recipient_replay_window = ReplayWindow(_WINDOW, lambda: None)
        self.echo_recovery = None if fresh else secrets.token_bytes(_ECHO_BYTES)
        if fresh:
            self.recipient_replay_window.initialize_empty()
        self.derive_keys(b"", key)

    def post_seqnoincrease(self) -> None:
        """Nothing is written: a process that starts again has new keys, or begins by Echo."""


def sender_id(vehicle: int) -> bytes:
    """Return the Sender ID of a vehicle: its number, which the OSCORE option carries as kid."""
    return vehicle.to_bytes(_VEHICLE_ID_BYTES, "big")


class UnprotectedError(Exception):
    """A request that does not prove who sent it; `answer` goes out in the open (RFC 8613, 8.2), or protected.

    Attributes:
        count: under which counter it goes.
    """

    def __init__(self, count: str, answer: Message) -> None:
        super().__init__(count)
        self.count, self.answer = count, answer


class ServerGuard:
    """The gateway's end: who sent a request, by its key; answers only that vehicle can read.

    Args:
        keys: of each vehicle.
    """

    COUNTS: Final = (
        "oscore_missing",
        "oscore_unknown",
        "oscore_failed",
        "oscore_replayed",
        "oscore_malformed",
        "oscore_echoed",
    )

    def __init__(self, keys: dict[str, bytes]) -> None:
        self._keys = keys
        self._contexts: dict[bytes, tuple[str, Context]] = {}
        self._named: set[tuple[str, str]] = set()

    def unprotect(self, request: Message) -> Message:
        """Return the request as the vehicle meant it; `identity` on it is who that is. Raises UnprotectedError."""
        option = request.opt.oscore
        if option is None:
            raise self._refused("oscore_missing", request, "an unprotected request", UNAUTHORIZED)
        identity, context = self._context(request, _kid(option))
        request.direction = Direction.INCOMING
        try:
            inner, request_id = context.unprotect(request)
        except ReplayErrorWithEcho as error:
            raise UnprotectedError("oscore_echoed", error.to_message()) from None
        except ReplayError:
            raise self._refused(
                "oscore_replayed", request, f"{identity}: Replay detected", UNAUTHORIZED
            ) from None
        except DecodeError:
            raise self._refused("oscore_malformed", request, f"{identity}: no COSE", BAD_OPTION) from None
        except (Error, ValueError, IndexError):
            # A wrong key, or bytes changed on the way; or a plaintext that is no CoAP.
            raise self._refused(
                "oscore_failed", request, f"{identity}: Decryption failed", BAD_REQUEST
            ) from None
        inner.remote, inner.token, inner.mid, inner.mtype = (
            request.remote,
            request.token,
            request.mid,
            request.mtype,
        )
        _read_options(inner)
        inner.identity, inner.oscore = identity, (context, request_id)
        return inner

    def protect(self, request: Message, response: Message) -> Message:
        """Return the response to an unprotected request as it goes out."""
        context, request_id = request.oscore
        outer: Message = context.protect(response, request_id)[0]
        return outer

    def _context(self, request: Message, kid: bytes | None) -> tuple[str, Context]:
        found = self._contexts.get(kid or b"")
        if found is None:
            number = int.from_bytes(kid, "big") if kid is not None and len(kid) == _VEHICLE_ID_BYTES else 0
            try:
                identity = vehicle_id(number)
                key = self._keys[identity]
            except (ValueError, KeyError):
                name = "none" if kid is None else kid[:8].hex()
                raise self._refused(
                    "oscore_unknown", request, f"kid {name}: Security context not found", UNAUTHORIZED
                ) from None
            assert kid is not None
            found = self._contexts[kid] = identity, Context(key, _GATEWAY_ID, kid, fresh=False)
        return found

    def _refused(self, count: str, request: Message, why: str, code: int) -> UnprotectedError:
        """Say it once of each sender, and count it each time."""
        address = request.remote[0]
        if (address, why) not in self._named and len(self._named) < _NAMED_MAX:
            self._named.add((address, why))
            _LOG.warning("OSCORE: %s is refused: %s", address, why)
        return UnprotectedError(count, Message(code=code))


class ClientGuard:
    """A vehicle's end: its requests, and the responses that only its gateway can have made."""

    def __init__(self, vehicle: int, key: bytes) -> None:
        self._context = Context(key, sender_id(vehicle), _GATEWAY_ID, fresh=True)
        self._echo: bytes | None = None
        self._requests: dict[bytes, Any] = {}

    def protect(self, request: Message) -> Message:
        """Return the request as it goes out, its answer expected under the request's token."""
        request.opt.echo, self._echo = self._echo, None
        self._requests.pop(request.token, None)
        outer: Message
        outer, self._requests[request.token] = self._context.protect(request)
        outer.remote, outer.token = request.remote, request.token
        if len(self._requests) > _AWAITED_MAX:
            del self._requests[next(iter(self._requests))]
        return outer

    def unprotect(self, response: Message) -> Message | None:
        """Return the response as the gateway meant it; None for one that it cannot have made.

        An error in the open comes back as it is; `proven` says False of it.
        """
        request_id = self._requests.get(response.token)
        if request_id is None:
            return None
        if response.opt.oscore is None:
            response.proven = False
            return None if response.code.is_successful() else response
        response.direction = Direction.INCOMING
        try:
            inner, _ = self._context.unprotect(response, request_id)
        except (Error, ValueError, IndexError):
            return None
        inner.remote, inner.token, inner.mid, inner.mtype = (
            response.remote,
            response.token,
            response.mid,
            response.mtype,
        )
        _read_options(inner)
        inner.proven = True
        self._echo = inner.opt.echo if inner.code == UNAUTHORIZED else None
        return inner

    def challenged(self) -> bool:
        """Say whether the gateway has asked for the request once more, with its Echo."""
        return self._echo is not None


def _kid(option: bytes) -> bytes | None:
    """Return the kid in the option's value (RFC 8613, 6.1), None without one."""
    if not option or not option[0] & 0x08:
        return None
    at = 1 + (option[0] & 0x07)
    if option[0] & 0x10:
        at += 1 + (option[at] if at < len(option) else 0)
    return option[at:]


def _read_options(message: Message) -> None:
    """Set what `datagram.decoded` sets of a message that came in the open."""
    message.bad_option = message.content_format = message.accept = None
    for option in message.opt.option_list():
        number = int(option.number)
        if number == OptionNumber.CONTENT_FORMAT:
            message.content_format = int(message.opt.content_format)
        elif number == OptionNumber.ACCEPT:
            message.accept = int(message.opt.accept)
        elif number & 1 and number not in READ and number not in IGNORED_CRITICAL:
            note_bad(message, number)
