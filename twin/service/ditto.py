"""The part of Eclipse Ditto's HTTP API (version 2) that reads: things, their parts, search, changes."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Header, Path, Query, Request
from fastapi.responses import Response

from twin.service.conditions import conditional, revision_tag
from twin.service.errors import bad_parameter, not_found, path_not_found
from twin.service.fleet import Twin
from twin.service.queries import Ask
from twin.service.responses import json_answer
from twin.service.selection import fields_of, path_of, select
from twin.service.stream import EventStream, Streams
from twin.service.things import OWN_FEATURES, vehicle_of

MAX_IDS = 1_000
_ThingId = Annotated[str, Path(alias="thing_id", description="ivsim:VEHICLE", max_length=64)]
_Fields = Annotated[
    str | None,
    Query(description="Which fields: thingId,features(position,motion),_modified", max_length=4_096),
]
_Filter = Annotated[
    str | None,
    Query(description="RQL, such as gt(features/position/properties/groundSpeedKmh,80)", max_length=8_192),
]
_Ids = Annotated[str | None, Query(description="Thing ids with commas between", max_length=65_536)]
_Namespaces = Annotated[str | None, Query(description="Namespaces with commas between", max_length=1_024)]
_Option = Annotated[
    str | None,
    Query(description="size(n),sort(+path,-path),cursor(c) or limit(offset,count)", max_length=1_024),
]
_Accept = Annotated[str, Header(include_in_schema=False)]


def _stream(streams: Streams, *arguments: Any) -> Response:
    return EventStream(streams, streams.things(*arguments))


def routes(app: FastAPI, ask: Ask, streams: Streams) -> None:
    """Add the paths below /api/2."""
    _things(app, ask, streams)
    _parts(app, ask)
    _search(app, ask)


def _twin(ask: Ask, thing_id: str) -> Twin:
    twin = ask.fleet.get(vehicle_of(thing_id) or "")
    if twin is None:
        raise not_found(thing_id)
    return twin


def _things(app: FastAPI, ask: Ask, streams: Streams) -> None:
    @app.get(
        "/api/2/things", tags=["things"], summary="Things by id; with Accept: text/event-stream their changes"
    )
    def things(
        ids: _Ids = None,
        fields: _Fields = None,
        filter: _Filter = None,  # noqa: A002 - Ditto's word
        namespaces: _Namespaces = None,
        accept: _Accept = "*/*",
    ) -> Response:
        names = ids.split(",") if ids else None
        if names is not None and len(names) > MAX_IDS:
            raise bad_parameter("ids", f"{len(names)} ids: at most {MAX_IDS}")
        selected = fields_of(fields)
        if "text/event-stream" in accept:
            return _stream(streams, set(names) if names else None, selected, ask.filter(filter, namespaces))
        if names is not None:
            return json_answer(ask.things(names, selected))
        return json_answer(ask.search(filter, "size(200)", fields, namespaces)["items"])

    @app.get(
        "/api/2/things/{thing_id}",
        tags=["things"],
        summary="One thing; with Accept: text/event-stream its changes",
    )
    async def thing(
        request: Request, thing_id: _ThingId, fields: _Fields = None, accept: _Accept = "*/*"
    ) -> Response:
        selected, twin = fields_of(fields), _twin(ask, thing_id)
        if "text/event-stream" in accept:
            return _stream(streams, {thing_id}, selected, None)
        tag = None if selected is not None and _moving(selected) else revision_tag(twin)
        return conditional(request, select(ask.thing(twin), selected), tag)


def _moving(selected: list[tuple[str, ...]]) -> bool:
    """Say whether somebody asks by name for what goes on while the twin stays as it is."""
    return any(path[0] == "features" and set(path[1:2]) <= {*OWN_FEATURES, "*"} for path in selected)


def _parts(app: FastAPI, ask: Ask) -> None:
    @app.get(
        "/api/2/things/{thing_id}/policyId", tags=["things"], summary="The policy's name: all is read-only"
    )
    async def policy(request: Request, thing_id: _ThingId) -> Response:
        return conditional(request, ask.thing(_twin(ask, thing_id)).get(("policyId",))[0])

    @app.get("/api/2/things/{thing_id}/definition", tags=["things"], summary="The model's name and version")
    async def definition(request: Request, thing_id: _ThingId) -> Response:
        return conditional(request, ask.thing(_twin(ask, thing_id)).get(("definition",))[0])

    @app.get("/api/2/things/{thing_id}/attributes", tags=["things"], summary="What names the vehicle")
    async def attributes(request: Request, thing_id: _ThingId) -> Response:
        return conditional(request, ask.thing(_twin(ask, thing_id)).attributes())

    @app.get("/api/2/things/{thing_id}/attributes/{path:path}", tags=["things"], summary="One attribute")
    async def attribute(request: Request, thing_id: _ThingId, path: str) -> Response:
        return conditional(request, _one(ask, thing_id, "attribute", ("attributes", *path_of(path)), path))

    @app.get("/api/2/things/{thing_id}/features", tags=["things"], summary="All sections")
    async def features(request: Request, thing_id: _ThingId) -> Response:
        return conditional(request, ask.thing(_twin(ask, thing_id)).features())

    @app.get("/api/2/things/{thing_id}/features/{feature}", tags=["things"], summary="One section")
    async def feature(request: Request, thing_id: _ThingId, feature: str) -> Response:
        return conditional(request, _one(ask, thing_id, "feature", ("features", feature), feature))

    @app.get(
        "/api/2/things/{thing_id}/features/{feature}/properties", tags=["things"], summary="Its properties"
    )
    async def properties(request: Request, thing_id: _ThingId, feature: str) -> Response:
        return conditional(
            request, _one(ask, thing_id, "feature", ("features", feature, "properties"), feature)
        )

    @app.get(
        "/api/2/things/{thing_id}/features/{feature}/properties/{path:path}",
        tags=["things"],
        summary="One property",
    )
    async def property_(request: Request, thing_id: _ThingId, feature: str, path: str) -> Response:
        where = ("features", feature, "properties", *path_of(path))
        return conditional(request, _one(ask, thing_id, "property", where, path))


def _one(ask: Ask, thing_id: str, what: str, path: tuple[str, ...], name: str) -> Any:
    found = ask.thing(_twin(ask, thing_id)).get(path)
    if not found or "*" in path:
        raise path_not_found(what, name, thing_id)
    return found[0] if len(found) == 1 else found


def _search(app: FastAPI, ask: Ask) -> None:
    # In threads of their own: a filter may have to decode the whole fleet.
    @app.get("/api/2/search/things", tags=["search"], summary="Things that a filter fits, ordered and paged")
    def search(
        filter: _Filter = None,  # noqa: A002 - Ditto's word
        option: _Option = None,
        fields: _Fields = None,
        namespaces: _Namespaces = None,
    ) -> Response:
        return json_answer(ask.search(filter, option, fields, namespaces))

    @app.get("/api/2/search/things/count", tags=["search"], summary="How many things a filter fits")
    def count(filter: _Filter = None, namespaces: _Namespaces = None) -> Response:  # noqa: A002 - Ditto's word
        return json_answer(len(ask.found(filter, namespaces)))
