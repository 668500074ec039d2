"""The answer of most of the service's paths."""

from __future__ import annotations

from typing import Any

import orjson
from fastapi.responses import Response


def json_answer(body: Any) -> Response:
    """Return JSON that no cache keeps."""
    return Response(orjson.dumps(body), media_type="application/json", headers={"cache-control": "no-store"})
