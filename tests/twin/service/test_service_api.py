"""The HTTP API: lists, things as Ditto has them, search, errors; over a fleet in memory."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from prometheus_client.parser import text_string_to_metric_families

from schemas.errors import PayloadError
from schemas.formats import FORMATS
from schemas.generated import current_status_pb2 as pb
from schemas.messages import SECTIONS
from schemas.topics import vehicle_id
from tests.twin.service.conftest import Api
from twin.service import decoded
from twin.service.record import REASONS
from twin.service.stream import Streams

FIRST = vehicle_id(1)
SEARCH = "/api/2/search/things"


async def test_list_pages_filters_and_sorts(api: Api) -> None:
    page = await api.json("/api/vehicles", limit=2, offset=1)
    assert page["total"] == 5
    assert [row["vehicleId"] for row in page["items"]] == [vehicle_id(2), vehicle_id(3)]
    down = await api.json("/api/vehicles", sort="-speedKmh")
    speeds = [row["speedKmh"] for row in down["items"]]
    assert speeds == sorted(speeds, reverse=True)
    hybrids = await api.json("/api/vehicles", filter='eq(powertrain,"hybrid")')
    assert hybrids["total"] == 1


async def test_freshness_is_the_age_of_the_newest_reading(api: Api) -> None:
    row = await api.json(f"/api/vehicles/{FIRST}")
    assert row["ageOfInformationMs"] == 200.0
    assert row["stale"] is False
    api.stand.now_ns += 10_000_000_000
    api.stand.fleet.take([api.stand.record(0)])
    api.stand.now_ns += 100_000_000
    assert (await api.json("/api/vehicles", stale=True))["total"] == 4
    assert (await api.json("/api/vehicles", stale=False))["items"][0]["vehicleId"] == FIRST
    summary = await api.json("/api/fleet")
    assert summary["staleVehicles"] == 4
    assert summary["ageOfInformationMs"] == {"p50": 10_300.0, "p99": 10_300.0, "max": 10_300.0}


async def test_a_thing_has_dittos_shape(api: Api) -> None:
    thing = await api.json(f"/api/2/things/ivsim:{FIRST}")
    assert set(thing) == {"thingId", "policyId", "attributes", "features"}
    assert thing["thingId"] == f"ivsim:{FIRST}"
    assert thing["attributes"]["vehicleId"] == FIRST
    assert all(set(feature) == {"properties"} for feature in thing["features"].values())
    assert {"header", "position", "motion", "axles", "freshness", "delivery"} <= set(thing["features"])
    assert thing["features"]["motion"]["properties"]["parkingBrakeEngaged"]["active"] in (True, False)
    delivery = thing["features"]["delivery"]["properties"]
    assert (delivery["messages"], delivery["gaps"], delivery["emitted"]) == (1, 0, None)


async def test_decoded_values_are_those_of_the_payload(api: Api) -> None:
    twin = api.stand.fleet.get(FIRST)
    assert twin is not None
    status = FORMATS["protobuf"].decode(twin.state.payload)
    properties = await api.json(f"/api/2/things/ivsim:{FIRST}/features/position/properties")
    assert status.position is not None
    assert properties["latitudeDeg"] == status.position.latitude_deg
    answer = await api.client.get(f"/api/vehicles/{FIRST}/payload")
    assert answer.content == twin.state.payload
    assert answer.headers["content-type"].startswith(FORMATS["protobuf"].content_type)


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ("thingId", {"thingId": f"ivsim:{FIRST}"}),
        ("thingId,attributes(format,mode)", {"thingId": f"ivsim:{FIRST}", "attributes": {"format": "protobuf", "mode": "qos1"}}),
        ("features/freshness/properties/stale", {"features": {"freshness": {"properties": {"stale": False}}}}),
        ("/features/delivery(properties(gaps,messages))", {"features": {"delivery": {"properties": {"gaps": 0, "messages": 1}}}}),
        ("nothing,features/none", {}),
        ("_revision", {"_revision": 1}),
    ],
)  # fmt: skip
async def test_fields_select(api: Api, fields: str, wanted: dict[str, Any]) -> None:
    assert await api.json(f"/api/2/things/ivsim:{FIRST}", fields=fields) == wanted


async def test_a_wildcard_selects_from_every_feature(api: Api) -> None:
    found = await api.json(f"/api/2/things/ivsim:{FIRST}", fields="features/*/properties/gaps")
    assert found == {"features": {"delivery": {"properties": {"gaps": 0}}}}


async def test_things_by_id_come_in_the_order_asked_and_unknown_are_left_out(api: Api) -> None:
    ids = f"ivsim:{vehicle_id(3)},ivsim:nobody,other:{FIRST},ivsim:{FIRST}"
    found = await api.json("/api/2/things", ids=ids, fields="thingId")
    assert found == [{"thingId": f"ivsim:{vehicle_id(3)}"}, {"thingId": f"ivsim:{FIRST}"}]
    assert len(await api.json("/api/2/things")) == 5


async def test_parts_of_a_thing(api: Api) -> None:
    base = f"/api/2/things/ivsim:{FIRST}"
    assert await api.json(f"{base}/attributes/format") == "protobuf"
    assert (await api.json(f"{base}/features/position"))["properties"]["latitudeDeg"]
    assert await api.json(f"{base}/features/motion/properties/odometerM/value") > 0
    assert await api.json(f"{base}/policyId") == "ivsim:read-only"
    assert (await api.json(f"{base}/features/nothing", 404))["error"] == "things:feature.notfound"
    assert (await api.json(f"{base}/attributes/nothing", 404))["error"] == "things:attribute.notfound"
    missing = await api.json(f"{base}/features/motion/properties/nothing", 404)
    assert missing["error"] == "things:feature.property.notfound"


async def test_search_pages_by_cursor_through_all(api: Api) -> None:
    found: list[str] = []
    option = "size(2),sort(-features/position/properties/groundSpeedKmh)"
    cursor = ""
    for _ in range(3):
        page = await api.json(
            SEARCH, option=f"{option},cursor({cursor})" if cursor else option, fields="thingId"
        )
        found += [item["thingId"] for item in page["items"]]
        cursor = page.get("cursor", "")
    assert not cursor
    assert sorted(found) == [f"ivsim:{vehicle_id(k)}" for k in range(1, 6)]
    listed = await api.json("/api/vehicles", sort="-speedKmh")
    assert found == [f"ivsim:{row['vehicleId']}" for row in listed["items"]]


async def test_search_filters_on_decoded_sections(api: Api) -> None:
    text = 'and(eq(attributes/format,"protobuf"),exists(features/traction))'
    page = await api.json(SEARCH, filter=text, fields="thingId")
    assert page == {"items": [{"thingId": f"ivsim:{vehicle_id(3)}"}]}
    assert await api.json(f"{SEARCH}/count", filter=text) == 1
    assert await api.json(f"{SEARCH}/count", filter=f'like(thingId,"ivsim:*{FIRST[-3:]}")') == 1
    assert await api.json(f"{SEARCH}/count", filter="ge(features/axles/properties/items/axleNumber,2)") == 5
    assert await api.json(f"{SEARCH}/count", namespaces="other") == 0
    assert await api.json(f"{SEARCH}/count", namespaces="other,ivsim") == 5
    limited = await api.json(SEARCH, option="limit(3,2)", fields="thingId")
    assert limited["nextPageOffset"] == -1
    assert len(limited["items"]) == 2


@pytest.mark.parametrize(
    ("path", "parameters", "error"),
    [
        (SEARCH, {"filter": "near(1,2)"}, "rql.expression.invalid"),
        (SEARCH, {"filter": "gt(a"}, "rql.expression.invalid"),
        (SEARCH, {"option": "size(0)"}, "search.option.invalid"),
        (SEARCH, {"option": "size(201)"}, "search.option.invalid"),
        (SEARCH, {"option": "page(1)"}, "search.option.invalid"),
        (SEARCH, {"option": "cursor(abc)"}, "search.option.invalid"),
        (SEARCH, {"option": "sort()"}, None),
        (SEARCH, {"fields": "a(b"}, "json.fieldselector.invalid"),
        (SEARCH, {"fields": "a,,b"}, "json.fieldselector.invalid"),
        ("/api/2/things", {"fields": "a)("}, "json.fieldselector.invalid"),
        ("/api/vehicles", {"limit": 0}, "parameter.invalid"),
        ("/api/vehicles", {"limit": "many"}, "parameter.invalid"),
        ("/api/vehicles", {"sort": "colour"}, "parameter.invalid"),
        ("/api/vehicles", {"filter": "gt(colour,1)"}, "rql.expression.invalid"),
    ],
)
async def test_what_is_not_understood_is_refused_in_dittos_shape(
    api: Api, path: str, parameters: dict[str, Any], error: str | None
) -> None:
    if error is None:
        await api.json(path, **parameters)
        return
    body = await api.json(path, 400, **parameters)
    assert body["status"] == 400
    assert body["error"] == error
    assert body["message"]


async def test_a_cursor_belongs_to_its_search(api: Api) -> None:
    cursor = (await api.json(SEARCH, option="size(2)"))["cursor"]
    body = await api.json(SEARCH, 400, option=f"size(2),cursor({cursor})", filter="exists(thingId)")
    assert body["error"] == "search.option.invalid"


async def test_an_unknown_thing_is_dittos_404(api: Api) -> None:
    for name in ("ivsim:nobody", f"other:{FIRST}", FIRST):
        body = await api.json(f"/api/2/things/{name}", 404)
        assert body["error"] == "things:thing.notfound"
    assert (await api.json("/api/nothing", 404))["error"] == "resource.notfound"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"])
async def test_nothing_can_be_changed(api: Api, method: str) -> None:
    for path in (f"/api/2/things/ivsim:{FIRST}", "/", "/api/vehicles", "/nothing"):
        answer = await api.client.request(method, path)
        assert answer.status_code == 405
        assert answer.headers["allow"] == "GET"


async def test_history_gives_the_kept_signals(api: Api) -> None:
    for _ in range(4):
        api.stand.now_ns += 1_000_000_000
        api.stand.fleet.take([api.stand.record(0)])
    names = "position/groundSpeedKmh,motion/odometerM"
    body = await api.json(f"/api/vehicles/{FIRST}/history", signals=names)
    assert len(body["atMs"]) == 5
    assert body["atMs"] == sorted(body["atMs"])
    assert set(body["signals"]) == set(names.split(","))
    whole = await api.json(f"/api/vehicles/{FIRST}/history", limit=2)
    assert len(whole["atMs"]) == 2
    assert len(whole["signals"]) > 50
    assert {len(values) for values in whole["signals"].values()} == {2}


async def test_a_broken_payload_is_shown_as_what_it_is(stand: Callable[..., Any]) -> None:
    made = stand(1, "json")
    record = made.record()
    # The header is whole, so that it enters; what follows is not.
    made.fleet.take([record._replace(value=record.value[:-900])])
    assert not made.fleet.bad
    async with made.client() as client:
        row = (await client.get(f"/api/vehicles/{FIRST}")).json()
        thing = (await client.get(f"/api/2/things/ivsim:{FIRST}")).json()
    assert "json payload" in row["problem"]
    assert row["latitudeDeg"] is None
    assert set(thing["features"]) == {"freshness", "delivery", "problem"}


async def test_an_enum_number_of_a_newer_vehicle_is_shown_as_its_number(api: Api) -> None:
    record = api.stand.record(1)
    message = pb.CurrentStatus.FromString(record.value)
    message.header.cause = 77
    message.motion.odometer_m.quality = 99
    api.stand.fleet.take([record._replace(value=message.SerializeToString())])
    things = await api.json("/api/2/things")
    assert [thing["thingId"] for thing in things] == [f"ivsim:{vehicle_id(k)}" for k in range(1, 6)]
    assert things[1]["features"]["motion"]["properties"]["odometerM"]["quality"] == "99"
    found = await api.json(SEARCH, filter='eq(features/header/properties/cause,"77")')
    assert [thing["thingId"] for thing in found["items"]] == [f"ivsim:{vehicle_id(2)}"]
    row = await api.json(f"/api/vehicles/{vehicle_id(2)}")
    assert row["problem"] is None


async def test_one_payload_with_a_broken_section_costs_nobody_else_an_answer(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Formats may decode a section when it is read: a list then meets the error in the middle of its work."""
    whole = decoded.sections

    def sections(status: Any, names: tuple[str, ...] = SECTIONS) -> Any:
        if "motion" in names and status.header.vehicle_id == vehicle_id(2):
            raise PayloadError("protobuf", None, "motion: broken")
        return whole(status, names)

    monkeypatch.setattr(decoded, "sections", sections)
    things = await api.json("/api/2/things")
    assert len(things) == 5
    assert [
        (thing["thingId"], thing["features"]["problem"]["properties"]["message"])
        for thing in things
        if "problem" in thing["features"]
    ] == [(f"ivsim:{vehicle_id(2)}", "protobuf payload, byte ?: motion: broken")]
    assert "position" in things[1]["features"]
    assert "motion" not in things[1]["features"]
    found = await api.json(SEARCH, filter="gt(features/motion/properties/odometerM/value,0)")
    assert len(found["items"]) == 4
    problems = await api.json(SEARCH, filter="exists(features/problem)", fields="thingId")
    assert problems["items"] == [{"thingId": f"ivsim:{vehicle_id(2)}"}]
    streams = Streams(api.stand.ask, api.stand.changed)
    api.stand.changed.open()
    events = streams.things(None, [("thingId",), ("features", "motion")], None)
    first = asyncio.create_task(anext(events))
    await asyncio.sleep(0)
    api.stand.fleet.take([api.stand.record(1)])
    api.stand.changed.announce()
    assert orjson.loads((await first).removeprefix(b"data: ")) == {"thingId": f"ivsim:{vehicle_id(2)}"}
    await events.aclose()


@pytest.mark.parametrize(
    "place", [(999.0, 11.0), (57.0, -180.5), (math.nan, 11.0), (57.0, math.inf), (-90.001, 0.0)]
)
async def test_a_place_that_is_nowhere_is_unknown_and_said(api: Api, place: tuple[float, float]) -> None:
    record = api.stand.record(1)
    message = pb.CurrentStatus.FromString(record.value)
    message.position.latitude_deg, message.position.longitude_deg = place
    api.stand.fleet.take([record._replace(value=message.SerializeToString())])
    row = await api.json(f"/api/vehicles/{vehicle_id(2)}")
    assert (row["latitudeDeg"], row["longitudeDeg"]) == (None, None)
    assert row["speedKmh"] is not None
    assert row["problem"] == f"position out of range: latitude {place[0]:g}, longitude {place[1]:g}"
    others = await api.json("/api/vehicles", filter="exists(latitudeDeg)")
    assert others["total"] == 4


async def test_delivery_takes_what_was_emitted_into_account(api: Api) -> None:
    for second in range(4):
        api.stand.figures.take_emissions(
            b'{"vehicle_id":"%s","second":%d,"emitted":1,"unsent":0}' % (FIRST.encode(), second)
        )
    delivery = await api.json(f"/api/2/things/ivsim:{FIRST}/features/delivery/properties")
    assert delivery["emitted"] == 4
    assert delivery["deliveryRatio"] == 0.25


async def test_what_was_kept_out_is_told_by_reason(api: Api) -> None:
    fleet = api.stand.fleet
    fleet.take([api.stand.record(0)._replace(headers=None)])
    for reason in (b"bad_epoch", b"the payload names vehicle 'X'", b"not UTF-8", None):
        fleet.count_dead_letter([("reason", reason)])
    fleet.count_dead_letter(None)
    letters = {"bad_epoch": 1, "at the gateway": 4}
    assert await api.json("/api/rejected") == {
        "badRecords": [
            {"reason": "header_missing", "meaning": REASONS["header_missing"], "count": 1, "lastKey": FIRST}
        ],
        "deadLetters": letters,
    }
    for path in ("/api/fleet", "/health"):
        body = await api.json(path)
        assert (body["badRecords"], body["deadLetters"]) == ({"header_missing": 1}, letters)
    for k in range(200):
        fleet.count_dead_letter([("reason", b"reason_" + b"x" * (k % 26) + bytes([97 + k % 26]))])
    assert len(fleet.dead_letters) <= 64


async def test_the_summary_is_that_of_a_walk_over_the_fleet(stand: Callable[..., Any]) -> None:
    """Ages, ranks and sums that are kept up with each change are those that a walk over all twins finds."""
    made = stand(7, stale_after_s=5.0)
    for round_ in range(6):
        made.now_ns += 1_300_000_000
        made.fleet.take(
            [made.record(k, gaps=k * round_, given_up=k) for k in range(7) if k % 3 <= round_ % 3]
        )
        if round_ == 4:
            made.fleet.take([made.record(2)._replace(value=None)])
        ages = sorted(made.ask.age_ns(twin, made.now_ns) for twin in made.fleet.twins())
        n, summary = len(ages), made.ask.summary()
        assert summary["vehicles"] == n
        assert summary["staleVehicles"] == sum(made.ask.stale(t, made.now_ns) for t in made.fleet.twins())
        ranks = {"p50": (n + 1) // 2, "p99": n, "max": n}
        assert summary["ageOfInformationMs"] == {name: ages[k - 1] / 1e6 for name, k in ranks.items()}
        for name, field in {"messages": "messages", "gaps": "gaps", "givenUp": "given_up"}.items():
            assert summary[name] == sum(getattr(t.state, field) for t in made.fleet.twins())
    empty = stand(0).ask.summary()
    assert empty["ageOfInformationMs"] == {"p50": None, "p99": None, "max": None}


async def test_prometheus_reads_the_metrics(api: Api) -> None:
    api.stand.fleet.take([api.stand.record(0)._replace(headers=None)])
    for _ in range(2):
        api.stand.fleet.count_dead_letter([("reason", b"stamp_in_future"), ("format", b"json")])
    text = (await api.client.get("/metrics")).text
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples["ivsim_twin_vehicles",] == 5
    assert samples["ivsim_twin_bad_records_total", "header_missing"] == 1
    assert samples["ivsim_twin_dead_letters_total", "stamp_in_future"] == 2
    assert samples["ivsim_twin_age_of_information_seconds", "max"] == 0.2


async def test_openapi_names_every_path_and_loads_nothing(api: Api) -> None:
    paths = (await api.json("/openapi.json"))["paths"]
    assert {"/api/vehicles", "/api/2/things/{thing_id}", SEARCH, "/api/events", "/health", "/metrics"} <= set(
        paths
    )
    assert all(set(methods) == {"get"} for methods in paths.values())
    assert (await api.client.get("/docs")).status_code == 404
