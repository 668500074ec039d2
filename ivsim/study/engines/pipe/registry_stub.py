"""A schema registry of the measurement's own.

Of Confluent's REST API a serialiser needs two calls (`schema_registry`), and the stub speaks these two alone. It judges
no schema and forgets all with its end.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self
from urllib.parse import unquote, urlsplit

from ivsim.study.engines.pipe.schema_registry import (
    ANSWER_S,
    CONTENT_TYPE,
    MOST_BYTES,
    NO_SUCH_SCHEMA,
    Schema,
)

NOT_FOUND: Final = 404
NOT_VALID: Final = 42201
_REGISTER: Final = re.compile(r"/subjects/([^/]+)/versions")
_SCHEMA: Final = re.compile(r"/schemas/ids/([0-9]{1,10})")


class Schemas:
    """Schemas by id, from 1; the same schema has the same id under every subject."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids: dict[Schema, int] = {}
        self.subjects: dict[str, list[int]] = {}

    def register(self, subject: str, schema: Schema) -> int:
        """Keep a schema under a subject; return its id."""
        with self._lock:
            found = self._ids.setdefault(schema, len(self._ids) + 1)
            versions = self.subjects.setdefault(subject, [])
            if found not in versions:
                versions.append(found)
            return found

    def of(self, number: int) -> Schema | None:
        """Return the schema of an id; None when there is none."""
        with self._lock:
            return next((schema for schema, own in self._ids.items() if own == number), None)


class RegistryStub:
    """The two calls over HTTP on loopback; a context manager.

    Attributes:
        schemas: what was registered.
        url: where it answers, once it is open.
    """

    def __init__(self) -> None:
        self.schemas = Schemas()
        self.url = ""

    def __enter__(self) -> Self:
        schemas = self.schemas

        class Handler(_Handler):
            kept = schemas

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), name="schema registry"
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    """One request, one connection."""

    kept: Schemas
    timeout = ANSWER_S

    def do_POST(self) -> None:
        match = _REGISTER.fullmatch(urlsplit(self.path).path)
        if match is None:
            self._say(HTTPStatus.NOT_FOUND, {"error_code": NOT_FOUND, "message": "not one of the two calls"})
            return
        schema = self._schema()
        if schema is None:
            self._say(
                HTTPStatus.UNPROCESSABLE_ENTITY, {"error_code": NOT_VALID, "message": "no schema in the body"}
            )
            return
        self._say(HTTPStatus.OK, {"id": self.kept.register(unquote(match[1]), schema)})

    def do_GET(self) -> None:
        match = _SCHEMA.fullmatch(urlsplit(self.path).path)
        if match is None:
            self._say(HTTPStatus.NOT_FOUND, {"error_code": NOT_FOUND, "message": "not one of the two calls"})
        elif (found := self.kept.of(int(match[1]))) is None:
            self._say(
                HTTPStatus.NOT_FOUND, {"error_code": NO_SUCH_SCHEMA, "message": f"no schema {match[1]}"}
            )
        else:
            self._say(HTTPStatus.OK, {"schema": found.text, "schemaType": found.kind})

    def _schema(self) -> Schema | None:
        size = self.headers.get("Content-Length", "")
        if not size.isdecimal() or int(size) > MOST_BYTES:
            return None
        try:
            body = json.loads(self.rfile.read(int(size)))
        except ValueError:
            return None
        text = body.get("schema") if isinstance(body, dict) else None
        # Avro is what a schema without a type is.
        kind = body.get("schemaType", "AVRO") if isinstance(body, dict) else None
        return Schema(kind, text) if isinstance(text, str) and isinstance(kind, str) else None

    def _say(self, status: HTTPStatus, found: dict[str, Any]) -> None:
        body = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing: the measurement has its own log."""


@contextmanager
def registry_if(needed: bool, url: str | None = None) -> Iterator[str | None]:
    """Open a registry where one is needed and none runs already; its address, or None.

    Args:
        needed: whether payloads name their schema.
        url: of one that runs.
    """
    if not needed or url is not None:
        yield url.rstrip("/") if url is not None else None
        return
    with RegistryStub() as stub:
        yield stub.url
