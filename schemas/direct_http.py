"""Asks our own parts over HTTP: directly, whatever proxy the environment names (`http_proxy`)."""

from __future__ import annotations

import urllib.request
from typing import Final

_DIRECT: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def answer(request: str | urllib.request.Request, timeout_s: float) -> bytes:
    """Return the body of what answers a URL or a request; OSError where nothing does in time, or it refuses."""
    with _DIRECT.open(request, timeout=timeout_s) as found:
        body: bytes = found.read()
    return body
