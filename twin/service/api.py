"""The HTTP API: paths, parameters and answers; what they say is made elsewhere."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from schemas.formats import FORMATS
from twin.service import decoded, ditto, openapi, page
from twin.service.access import Gate
from twin.service.errors import ApiError, bad_parameter, not_found
from twin.service.exposition import CONTENT_TYPE, ServiceCollector, exposition
from twin.service.fleet import Twin
from twin.service.queries import Ask
from twin.service.reader import Reader
from twin.service.responses import json_answer
from twin.service.stream import Changed, EventStream, Streams

MAX_LIMIT: Final = 1_000
MAX_POINTS: Final = 2_000
GEOJSON: Final = "application/geo+json"  # RFC 7946, 12
_VehicleId = Annotated[str, Path(description="The vehicle's 17 characters.", max_length=32)]
_DESCRIPTION: Final = """The newest state of every vehicle, read from Kafka's `twin.state`; nothing can be changed.

`/api/2/...` has the shape of Eclipse Ditto's HTTP API, `/api/...` is the fleet in short. Errors have Ditto's
shape: `status`, `error`, `message`, `description`. See docs/twin-service.md for filters and streams."""


def make_app(
    ask: Ask, changed: Changed, reader: Reader | None = None, token: str = "", port: int = 0
) -> Gate:
    """Return the application behind its gate."""
    app = FastAPI(
        title="ivsim twin service", version="2", description=_DESCRIPTION,
        docs_url=None, redoc_url=None, openapi_url="/openapi.json",
    )  # fmt: skip
    streams = Streams(ask, changed)
    _fleet_routes(app, ask, streams)
    _vehicle_routes(app, ask)
    ditto.routes(app, ask, streams)
    _service_routes(app, ask, changed, reader)
    _error_answers(app)
    gate = Gate(app, token, port)
    openapi.describe(app, gate.cookie, needed=bool(token))
    return gate


def _fleet_routes(app: FastAPI, ask: Ask, streams: Streams) -> None:
    @app.get("/api/vehicles", tags=["fleet"], summary="The fleet in short, filtered and page by page")
    def vehicles(
        filter: Annotated[  # noqa: A002 - Ditto's word
            str | None, Query(description='RQL over columns: gt(speedKmh,80), like(vehicleId,"*17").')
        ] = None,
        stale: Annotated[bool | None, Query(description="Only stale vehicles, or only fresh ones.")] = None,
        sort: Annotated[
            str, Query(description="A column; - before it: descending.", max_length=64)
        ] = "vehicleId",
        limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = 100,
        offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
    ) -> Response:
        return json_answer(ask.rows(filter, sort, limit, offset, stale=stale))

    @app.get("/api/fleet", tags=["fleet"], summary="The fleet in figures")
    def fleet() -> Response:
        return json_answer(ask.summary())

    @app.get("/api/rejected", tags=["fleet"], summary="Records that were kept out, by reason")
    async def rejected() -> Response:
        return json_answer(ask.rejected())

    @app.get("/api/columns", tags=["fleet"], summary="What the columns of a row mean")
    async def columns() -> Response:
        return json_answer(decoded.COLUMNS)

    @app.get("/api/roads", tags=["fleet"], summary="The roads under the vehicles, as GeoJSON")
    async def roads() -> Response:
        return Response(ask.roads, media_type=GEOJSON, headers={"cache-control": "no-store"})

    @app.get("/api/events", tags=["fleet"], summary="Every change of the fleet, as server-sent events")
    async def events() -> Response:
        return EventStream(streams, streams.rows())


def _vehicle_routes(app: FastAPI, ask: Ask) -> None:
    def known(vehicle_id: str) -> Twin:
        twin = ask.fleet.get(vehicle_id)
        if twin is None:
            raise not_found(f"ivsim:{vehicle_id}")
        return twin

    @app.get("/api/vehicles/{vehicle_id}", tags=["vehicle"], summary="One vehicle in short, with its age")
    async def vehicle(vehicle_id: _VehicleId) -> Response:
        return json_answer(ask.row(known(vehicle_id), ask.now_ns()))

    @app.get("/api/vehicles/{vehicle_id}/payload", tags=["vehicle"], summary="The newest payload, untouched")
    async def payload(vehicle_id: _VehicleId) -> Response:
        state = known(vehicle_id).state
        headers = {"cache-control": "no-store", "content-disposition": "attachment"}
        return Response(state.payload, media_type=FORMATS[state.format].content_type, headers=headers)

    @app.get(
        "/api/vehicles/{vehicle_id}/history", tags=["vehicle"], summary="Signals of the statuses still kept"
    )
    def history(
        vehicle_id: _VehicleId,
        signals: Annotated[
            str | None,
            Query(description="Paths with commas between; default: all numbers.", max_length=4_096),
        ] = None,
        limit: Annotated[int, Query(ge=1, le=MAX_POINTS)] = 300,
    ) -> Response:
        return json_answer(_history(ask, known(vehicle_id), signals, limit))


def _history(ask: Ask, twin: Twin, names: str | None, limit: int) -> dict[str, Any]:
    wanted = names.split(",") if names else None
    times: list[float] = []
    columns: dict[str, list[float | None]] = {name: [] for name in wanted or ()}
    for state in ask.fleet.past(twin, limit):
        try:
            found = decoded.signals(decoded.sections(decoded.decode(state)))
        except ValueError:
            continue
        for name in found if wanted is None else ():
            columns.setdefault(name, [None] * len(times))
        times.append(state.fresh_at_ns / 1e6)
        for name, values in columns.items():
            values.append(found.get(name))
    return {"vehicleId": twin.vehicle_id, "atMs": times, "signals": columns}


def _service_routes(app: FastAPI, ask: Ask, changed: Changed, reader: Reader | None) -> None:
    @app.get("/api/session", tags=["service"], summary="Trade the token for a cookie, for the page")
    async def session() -> Response:
        return json_answer({"session": "open"})

    @app.get("/health", tags=["service"], summary="200 when the fleet was read and Kafka answers, else 503")
    async def health() -> Response:
        status = _status(reader)
        made = json_answer({"status": status, "vehicles": len(ask.fleet), "stateRecords": ask.fleet.records,
                       "badRecords": dict(ask.fleet.bad), "deadLetters": dict(ask.fleet.dead_letters)})  # fmt: skip
        made.status_code = 200 if status == "UP" else 503
        return made

    @app.get("/metrics", tags=["service"], summary="For Prometheus")
    def metrics() -> Response:
        return Response(exposition(ServiceCollector(ask, changed, reader)), media_type=CONTENT_TYPE)

    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        return page.file("index.html")

    @app.get("/page/{name}", include_in_schema=False)
    async def page_file(name: str) -> Response:
        return page.file(name)


def _status(reader: Reader | None) -> str:
    if reader is None:
        return "UP"
    if reader.failure is not None:
        return "READER_ENDED"
    if not reader.reachable:
        return "KAFKA_AWAY"
    return "UP" if reader.caught_up.is_set() else "REBUILDING"


def _error_answers(app: FastAPI) -> None:
    @app.exception_handler(ApiError)
    async def ours(_: Request, error: ApiError) -> Response:
        made = json_answer(error.body)
        made.status_code = error.status
        made.headers.update(error.headers)
        return made

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        return await ours(request, bad_parameter(str(first["loc"][-1]), str(first["msg"])))

    @app.exception_handler(HTTPException)
    async def other(request: Request, error: HTTPException) -> Response:
        return await ours(
            request,
            _http_error(request, error),
        )


def _http_error(request: Request, error: HTTPException) -> ApiError:
    return ApiError(error.status_code, "resource.notfound", f"{request.url.path[:200]}: {error.detail}")
