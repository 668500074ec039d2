"""The one shape of an error answer, Eclipse Ditto's: status, error, message, description."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any


class ApiError(Exception):
    """An answer that is no success; `error` is a code that programs can match, `headers` go with it."""

    def __init__(
        self,
        status: int,
        error: str,
        message: str,
        description: str = "",
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers
        self.body: dict[str, Any] = {"status": status, "error": error, "message": message}
        if description:
            self.body["description"] = description


def not_found(thing_id: str) -> ApiError:
    """A thing that is not known."""
    return ApiError(
        404,
        "things:thing.notfound",
        f"The Thing with ID '{thing_id[:100]}' could not be found.",
        "Check if the ID of your requested Thing was correct: ivsim:<vehicle id>.",
    )


def path_not_found(what: str, name: str, thing_id: str) -> ApiError:
    """A part of a known thing that it has not; `what` is attribute, feature or property."""
    code = {"attribute": "attribute", "feature": "feature", "property": "feature.property"}[what]
    return ApiError(
        404,
        f"things:{code}.notfound",
        f"The {what} '{name[:200]}' of the Thing with ID '{thing_id}' does not exist.",
        "Look at the whole Thing for what it has.",
    )


def precondition_failed(tag: str) -> ApiError:
    """A thing, or a part of one, that is another than the request asks for."""
    return ApiError(
        412, "things:precondition.failed",
        f"The comparison of precondition header 'if-match' failed: the entity-tag is {tag}.",
        "If-Match takes strong entity-tags alone, and a whole Thing has a weak one.", {"etag": tag},
    )  # fmt: skip


def bad_filter(reason: str) -> ApiError:
    """A filter that is not understood."""
    return ApiError(
        400, "rql.expression.invalid", f"The given filter is invalid: {reason}", "See docs/twin-service.md."
    )


def bad_fields(reason: str) -> ApiError:
    """A field selector that is not understood."""
    return ApiError(
        400, "json.fieldselector.invalid", f"The given field selector is invalid: {reason}",
        "Write names with commas between, such as thingId,features(position,motion).",
    )  # fmt: skip


def bad_parameter(name: str, reason: str) -> ApiError:
    """A query parameter out of range."""
    return ApiError(400, "parameter.invalid", f"{name}: {reason}")
