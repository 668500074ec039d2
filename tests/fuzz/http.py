"""The twin service's HTTP API: any path, query and header, over a fleet with broken payloads in it."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from schemas.formats import FORMATS
from schemas.topics import vehicle_id
from tests.fuzz.state import StateRecords
from tests.fuzz.surface import VEHICLES, Surface
from tests.fuzz.words import ODD, damaged, fields, option, rql, some
from twin.service.api import make_app
from twin.service.stream import Changed

_THING = f"ivsim:{vehicle_id(1)}"
_PATHS = (
    "/", "/page/main.js", "/health", "/metrics", "/openapi.json", "/api/session", "/api/fleet", "/api/columns",
    "/api/rejected", "/api/events", "/api/vehicles", f"/api/vehicles/{vehicle_id(1)}", f"/api/vehicles/{vehicle_id(2)}/payload",
    f"/api/vehicles/{vehicle_id(3)}/history", "/api/2/things", f"/api/2/things/{_THING}", f"/api/2/things/{_THING}/policyId",
    f"/api/2/things/{_THING}/definition",
    f"/api/2/things/{_THING}/attributes", f"/api/2/things/{_THING}/attributes/format", f"/api/2/things/{_THING}/features",
    f"/api/2/things/{_THING}/features/position", f"/api/2/things/{_THING}/features/motion/properties",
    f"/api/2/things/{_THING}/features/motion/properties/odometerM/value", "/api/2/search/things",
    "/api/2/search/things/count",
)  # fmt: skip
_PARAMETERS = {
    "filter": rql,
    "fields": fields,
    "option": option,
    "ids": lambda rng: ",".join(
        f"ivsim:{vehicle_id(rng.randrange(1, 9))}" for _ in range(rng.randrange(1, 5))
    ),
    "namespaces": lambda rng: rng.choice(("ivsim", "org", "ivsim,org")),
    "stale": lambda rng: rng.choice(("true", "false")),
    "sort": lambda rng: rng.choice(
        ("-speedKmh", "+age", "ageOfInformationMs", "-problem", "vehicleId", "gaps")
    ),
    "limit": lambda rng: str(rng.randrange(-5, 1_100)),
    "offset": lambda rng: str(rng.randrange(-1, 50)),
    "signals": lambda rng: rng.choice(("position/groundSpeedKmh", "motion/odometerM,x", "")),
}
_HEADERS = ((b"host", "127.0.0.1"), (b"accept", "text/event-stream"), (b"accept", "*/*"), (b"authorization", "Bearer x"),
            (b"cookie", "ivsim_session_8080=abc; a=b"), (b"content-length", "9"), (b"range", "bytes=0-1"),
            (b"if-none-match", 'W/"rev:1", "hash:0"'), (b"if-none-match", "*"), (b"if-match", '"rev:1"'))  # fmt: skip
_TOO_MANY = 503


class Http(Surface):
    """Requests at the ASGI application, as uvicorn gives them; a request that raises is a failure."""

    name, good_every = "http", 200

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._records = StateRecords(self.rng, history_bytes=200_000)
        changed = Changed()
        changed.open()
        self._records.fill()
        self._app = make_app(self._records.ask, changed)

    async def hostile(self) -> None:
        rng = self.rng
        if rng.random() < 0.02:
            self._records.hostile()
        path = rng.choice(_PATHS)
        if rng.random() < 0.3:
            path = damaged(rng, path)
        names = rng.sample(sorted(_PARAMETERS), rng.randrange(4))
        query = "&".join(
            f"{name if rng.random() < 0.95 else rng.choice(ODD)}={quote(some(rng, _PARAMETERS[name]), safe='(),*')}"
            for name in names
        ).encode("latin-1", "replace")
        if rng.random() < 0.05:
            query = bytes(rng.randrange(33, 256) for _ in range(rng.randrange(200)))
        headers = [(b"host", b"127.0.0.1")] if rng.random() < 0.97 else []
        for name, value in rng.sample(_HEADERS, rng.randrange(3)):
            text = value if rng.random() < 0.7 else damaged(rng, value)
            headers.append((name, text.encode("latin-1", "replace")))
        method = "GET" if rng.random() < 0.97 else rng.choice(("POST", "HEAD", "OPTIONS", "DELETE", "BREW"))
        self.last = (method, path, query, headers)
        status, kind, body = await self._ask(method, path, query, headers)
        self.outcomes[str(status)] += 1
        assert body == b"" or method != "HEAD"
        assert status < 500 or (status == _TOO_MANY and path == "/health"), (status, body[:500])
        if (
            body and kind == "application/json" and not path.endswith("/payload")
        ):  # that one is as the vehicle sent it
            assert json.loads(body) is not None or status == 200
        if status >= 400 and method != "HEAD" and path != "/health":
            assert json.loads(body)["status"] == status

    async def good(self) -> None:
        self._records.fill()
        name = vehicle_id(self.rng.randrange(1, VEHICLES + 1))
        host = [(b"host", b"127.0.0.1")]
        status, _, body = await self._ask("GET", f"/api/2/things/ivsim:{name}", b"fields=thingId", host)
        assert (status, json.loads(body)) == (200, {"thingId": f"ivsim:{name}"})
        query = b"filter=" + quote(f'eq(attributes/vehicleId,"{name}")').encode()
        status, _, body = await self._ask("GET", "/api/2/search/things/count", query, host)
        assert (status, body) == (200, b"1")
        assert self._records.fleet.get(name).state.format in FORMATS  # type: ignore[union-attr]

    async def _ask(
        self, method: str, path: str, query: bytes, headers: list[tuple[bytes, bytes]]
    ) -> tuple[int, str, bytes]:
        """Ask, hang up where the answer is a stream, and return status, content type and body."""
        scope = {
            "type": "http", "method": method, "path": path, "raw_path": quote(path).encode(), "query_string": query,
            "root_path": "", "headers": headers, "http_version": "1.1", "scheme": "http",
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8080), "asgi": {"version": "3.0"},
        }  # fmt: skip
        messages: list[Any] = [{"type": "http.request", "body": b"", "more_body": False}]
        status, kind, body = 0, "", bytearray()

        async def receive() -> Any:
            return messages.pop() if messages else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            nonlocal status, kind
            if message["type"] == "http.response.start":
                status = message["status"]
                kind = dict(message["headers"]).get(b"content-type", b"").decode()
            else:
                body.extend(message.get("body", b""))

        await self._app(scope, receive, send)
        return status, kind, bytes(body)
