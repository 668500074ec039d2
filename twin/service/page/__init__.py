"""The page's own files, as they were packed; they load nothing from anywhere else."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from fastapi.responses import Response

from twin.service.errors import ApiError

TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


@cache
def _all() -> dict[str, bytes]:
    found = (entry for entry in files(__name__).iterdir() if entry.name.rpartition(".")[2] in TYPES)
    return {entry.name: entry.read_bytes() for entry in found}


def file(name: str) -> Response:
    """Return one file of the page; ApiError for any other name."""
    body = _all().get(name)
    if body is None:
        raise ApiError(404, "resource.notfound", f"the page has no file {name[:80]!r}")
    kind = TYPES[name.rpartition(".")[2]]
    return Response(body, media_type=f"{kind}; charset=utf-8", headers={"cache-control": "no-cache"})
