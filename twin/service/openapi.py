"""What /openapi.json says beside the paths: by what one may ask."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI

from twin.service.access import OPEN

BEARER: Final = "token"
SESSION: Final = "session"


def describe(app: FastAPI, cookie: str, *, needed: bool) -> None:
    """Have the document name the token and the page's cookie, and say of which paths one of them is asked.

    Args:
        app: with all its paths.
        cookie: name of the page's cookie.
        needed: the service has a token; without, it asks nobody.
    """
    made = app.openapi

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            found = made()
            found.setdefault("components", {})["securitySchemes"] = {
                BEARER: {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The service's token (--token-file), where it has one.",
                },
                SESSION: {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": cookie,
                    "description": "The page's, for which /api/session trades the token.",
                },
            }
            if needed:
                found["security"] = [{BEARER: []}, {SESSION: []}]
                found["paths"]["/api/session"]["get"]["security"] = [{BEARER: []}]
                for path in set(OPEN) & set(found["paths"]):
                    found["paths"][path]["get"]["security"] = []
            app.openapi_schema = found
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]
