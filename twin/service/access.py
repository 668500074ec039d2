"""Who may ask, and what: GET and HEAD alone, no foreign host name, a token where one is set; it only refuses."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Iterator
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from twin.service.config import is_loopback
from twin.service.errors import ApiError

# The page's own files hold nothing of the fleet; the page must load to ask for the token.
OPEN: Final = ("/", "/health")
METHODS: Final = ("GET", "HEAD")
OPEN_FOLDER: Final = "/page/"
SESSION_PATH: Final = "/api/session"
# It never ends, and so has no length that a HEAD could tell: GET alone.
STREAM_PATH: Final = "/api/events"
SESSION_S: Final = 43_200
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


class Gate:
    """ASGI middleware; `token` "" lets everyone in who asks by a loopback name.

    A HEAD is answered as the GET would be, without the body (RFC 9110, 9.3.2).
    Without the rule about names a web page of anyone could read the fleet through a name of its own that resolves
    to 127.0.0.1 (DNS rebinding).
    """

    def __init__(self, app: ASGIApp, token: str, port: int = 0) -> None:
        self._app, self._token = app, token
        # The cookie is not the token: who reads it learns nothing that outlives this process.
        key = secrets.token_bytes(32)
        self._session = hmac.new(key, token.encode(), hashlib.sha256).hexdigest()
        # Browsers share cookies between the ports of a host.
        self.cookie = f"ivsim_session_{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = _joined(scope["headers"])
        if scope["method"] == "HEAD":
            send = _without_body(send)
        try:
            self._check(scope, headers)
        except ApiError as error:
            await _refuse(send, error)
            return
        session = scope["path"] == SESSION_PATH

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_HEADERS]
                if session and self._token:
                    message["headers"].append((b"set-cookie", self._set_cookie()))
            await send(message)

        await self._app(_as_get(scope) if scope["method"] == "HEAD" else scope, receive, with_headers)

    def _check(self, scope: Scope, headers: dict[bytes, str]) -> None:
        path = scope["path"]
        methods = ("GET",) if path == STREAM_PATH else METHODS
        if scope["method"] not in methods:
            raise ApiError(
                405, "methodnotallowed", f"{scope['method']} is not allowed: the twin service is read-only.",
                headers={"allow": ", ".join(methods)},
            )  # fmt: skip
        if not scope["query_string"].isascii():
            raise ApiError(
                400, "parameter.invalid", "A query has ASCII characters alone: escape the others with %."
            )
        if not self._token:
            if not is_loopback(_host(headers.get(b"host", ""))):
                raise ApiError(421, "host.unknown", "Ask by a loopback name: localhost, 127.0.0.1 or [::1].")
        elif path not in OPEN and not path.startswith(OPEN_FOLDER) and not self._known(headers, path):
            raise ApiError(
                401, "gateway:authentication.failed", "The request needs the token of the service.",
                "Send the header Authorization: Bearer TOKEN.", {"www-authenticate": "Bearer"},
            )  # fmt: skip

    def _known(self, headers: dict[bytes, str], path: str) -> bool:
        scheme, _, token = headers.get(b"authorization", "").partition(" ")
        if scheme.lower() == "bearer" and _same(token.strip(), self._token):
            return True
        if path == SESSION_PATH:
            return False
        return any(_same(shown, self._session) for shown in _cookies(headers.get(b"cookie", ""), self.cookie))

    def _set_cookie(self) -> bytes:
        words = f"{self.cookie}={self._session}; Path=/; Max-Age={SESSION_S}; HttpOnly; SameSite=Strict"
        return words.encode()


def _joined(lines: list[tuple[bytes, bytes]]) -> dict[bytes, str]:
    """Return each header by its name; several lines are one (RFC 9110, 5.3), of cookies as well (RFC 6265, 5.4)."""
    found: dict[bytes, str] = {}
    for name, value in lines:
        said = value.decode("latin-1")
        between = "; " if name == b"cookie" else ", "
        found[name] = f"{found[name]}{between}{said}" if name in found else said
    return found


def _cookies(header: str, wanted: str) -> Iterator[str]:
    """Yield the values of one name (RFC 6265, 5.4); what another application has stored may be anything."""
    for pair in header.split(";"):
        name, _, value = pair.partition("=")
        if name.strip() == wanted:
            yield value.strip()


def _as_get(scope: Scope) -> Scope:
    """Return the request without what would be answered by a stream: a thing's changes have no length either."""
    headers = [(name, value) for name, value in scope["headers"] if name != b"accept"]
    return {**scope, "method": "GET", "headers": headers}


def _without_body(send: Send) -> Send:
    async def answer(message: Message) -> None:
        if message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await send(message)

    return answer


def _same(shown: str, wanted: str) -> bool:
    return hmac.compare_digest(shown.encode("utf-8", "replace"), wanted.encode())


def _host(text: str) -> str:
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.rpartition(":")[0] if ":" in text else text


async def _refuse(send: Send, error: ApiError) -> None:
    body = json.dumps(error.body).encode()
    headers: list[tuple[bytes, bytes]] = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *_HEADERS,
        *((name.encode(), value.encode()) for name, value in error.headers.items()),
    ]
    start: dict[str, Any] = {"type": "http.response.start", "status": error.status, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": body})
