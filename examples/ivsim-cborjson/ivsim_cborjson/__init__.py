"""CurrentStatus in CBOR (RFC 8949) under the JSON names, by way of JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import cbor2
import msgspec

from schemas.errors import PayloadError
from schemas.formats.base import Peek
from schemas.formats.blocks import Blocks
from schemas.formats.json import Json
from schemas.messages import CurrentStatus

_JSON: Final = Json()


class CborJson:
    """Every payload is one CBOR map; what JSON has not, it has not either."""

    name = "cborjson"
    content_type = "application/cbor"
    sequence_modulus: int | None = None
    header_only = False
    blocks: Blocks | None = None

    def encode(self, status: CurrentStatus) -> bytes:
        return cbor2.dumps(msgspec.json.decode(_JSON.encode(status)))

    def decode(self, payload: bytes) -> CurrentStatus:
        return _read(_JSON.decode, payload)

    def peek(self, payload: bytes) -> Peek:
        return _read(_JSON.peek, payload)


def _read(read: Callable[[bytes], Any], payload: bytes) -> Any:
    try:
        return read(msgspec.json.encode(cbor2.loads(payload)))
    except PayloadError as error:
        raise PayloadError(CborJson.name, None, error.reason) from None
    except Exception as error:  # whatever the bytes are, and whatever the library says of them
        raise PayloadError(CborJson.name, None, f"no CBOR of ours: {error}") from None
