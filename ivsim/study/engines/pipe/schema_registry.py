"""The frame that names a schema in front of a payload, and the two calls to a registry that it takes.

`POST /subjects/SUBJECT/versions` keeps a schema and says its id, `GET /schemas/ids/ID` gives it back. Each process asks
once and remembers: the registry is no part of what is measured.

The frame (Confluent's "wire format"): a byte of 0, and the schema's id in 4 bytes, big-endian. In front of Protobuf the
path of the message in its file follows, as variable-length integers, zigzag: their number and each of them; the first
message of a file, the path [0], is one byte of 0.
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from schemas import direct_http

MAGIC: Final = 0
CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
ANSWER_S: Final = 30.0
MOST_BYTES: Final = 1_000_000
# An error code of Confluent's API.
NO_SUCH_SCHEMA: Final = 40403


class Schema(NamedTuple):
    """A schema as a registry has it.

    Attributes:
        kind: AVRO, JSON or PROTOBUF.
        text: the schema; of Protobuf a file's descriptor in base64, as Confluent's serialiser registers it.
    """

    kind: str
    text: str


def is_registry(url: str) -> bool:
    """Return whether a schema registry answers there: it says in its own words that it has no schema 0."""
    try:
        schema_of(url, 0)
    except urllib.error.HTTPError as error:
        with error:
            return error.code == HTTPStatus.NOT_FOUND and _says_no_schema(error.read(MOST_BYTES))
    except (OSError, ValueError, KeyError, http.client.HTTPException):
        return False
    return True


def _says_no_schema(body: bytes) -> bool:
    try:
        found = json.loads(body)
    except ValueError:
        return False
    return isinstance(found, dict) and found.get("error_code") == NO_SUCH_SCHEMA


def frame(schema_id: int, path: Sequence[int] | None = None) -> bytes:
    """Return what stands in front of a payload: 5 bytes, and the path of a Protobuf message where there is one."""
    head = bytes([MAGIC]) + schema_id.to_bytes(4, "big")
    if path is None:
        return head
    if list(path) == [0]:
        return head + b"\0"
    return head + b"".join(_zigzag(number) for number in (len(path), *path))


def _zigzag(number: int) -> bytes:
    """Return a number from 0 as a variable-length integer, zigzag: 7 bits a byte, the lowest first."""
    left, found = number << 1, bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    found.append(left)
    return bytes(found)


def register(url: str, subject: str, schema: Schema) -> int:
    """Register a schema; return its id. OSError when the registry does not answer, or refuses."""
    body = json.dumps({"schema": schema.text, "schemaType": schema.kind}).encode()
    request = urllib.request.Request(  # noqa: S310 - the address is the measurement's own
        f"{url}/subjects/{quote(subject, safe='')}/versions",
        body,
        {"Content-Type": CONTENT_TYPE},
        method="POST",
    )
    return int(_answer(request)["id"])


def schema_of(url: str, schema_id: int) -> Schema:
    """Return the schema of an id. OSError when the registry has none, or does not answer."""
    found = _answer(urllib.request.Request(f"{url}/schemas/ids/{schema_id}"))  # noqa: S310
    return Schema(found.get("schemaType", "AVRO"), found["schema"])


def _answer(request: urllib.request.Request) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(direct_http.answer(request, ANSWER_S))
    return found
