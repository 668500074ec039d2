"""Entity-tags and the requests that depend on them, as Eclipse Ditto has them (RFC 9110, 8.8.3 and 13.1)."""

from __future__ import annotations

import hashlib
import re
from typing import Any, Final

import orjson
from starlette.requests import Request
from starlette.responses import Response

from twin.service.errors import precondition_failed
from twin.service.fleet import Twin

_TAG: Final = re.compile(r'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"')
_WEAK: Final = "W/"


def revision_tag(twin: Twin) -> str:
    """Return the entity-tag of a thing: which of the twin's states it shows.

    It is weak (8.8.1): a thing has ages and figures of a run that go on while its twin stays as it is. The stamp is there since
    a twin that was lost and made anew counts from 1 again.
    """
    state = twin.state
    return f'{_WEAK}"rev:{state.messages}:{state.appended_at_ns // 1_000_000}"'


def value_tag(text: bytes) -> str:
    """Return the entity-tag of a part of a thing: its value, as it is sent."""
    return f'"hash:{hashlib.blake2b(text, digest_size=8).hexdigest()}"'


def conditional(request: Request, body: Any, tag: str | None = None) -> Response:
    """Return JSON with its entity-tag; 304 without a body where If-None-Match has it.

    ApiError (412) where If-Match has it not. Without `tag` it is that of the value.
    """
    text = orjson.dumps(body)
    tag = value_tag(text) if tag is None else tag
    # What may be asked for again must be kept, and nobody may show it without asking.
    headers = {"cache-control": "private, no-cache", "etag": tag}
    wanted = _tags(request, "if-match")
    if wanted is not None and "*" not in wanted and (tag.startswith(_WEAK) or tag not in wanted):
        raise precondition_failed(tag)
    known = _tags(request, "if-none-match")
    if known is not None and ("*" in known or _bare(tag) in map(_bare, known)):
        return Response(status_code=304, headers=headers)
    return Response(text, media_type="application/json", headers=headers)


def _tags(request: Request, header: str) -> list[str] | None:
    """Return the entity-tags of a header, `*` for any; None without the header."""
    said = request.headers.getlist(header)
    if not said:
        return None
    text = ",".join(said)
    return ["*"] if text.strip() == "*" else _TAG.findall(text)


def _bare(tag: str) -> str:
    """Return a tag for the weak comparison (8.8.3.2)."""
    return tag.removeprefix(_WEAK)
