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
    assert set(thing) == {"thingId", "policyId", "definition", "attributes", "features"}
    assert thing["definition"] == "ivsim:current-status:1"
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
        ("definition", {"definition": "ivsim:current-status:1"}),
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


@pytest.mark.parametrize(("count", "status"), [(999, 200), (1_000, 200), (1_001, 400), (8_000, 400)])
async def test_things_by_id_are_all_answered_or_refused(api: Api, count: int, status: int) -> None:
    ids = ",".join(["a:b"] * (count - 1) + [f"ivsim:{FIRST}"])
    found = await api.json("/api/2/things", status, ids=ids, fields="thingId")
    assert found == [{"thingId": f"ivsim:{FIRST}"}] if status == 200 else found["message"].startswith("ids: ")


async def test_parts_of_a_thing(api: Api) -> None:
    base = f"/api/2/things/ivsim:{FIRST}"
    assert await api.json(f"{base}/attributes/format") == "protobuf"
    assert (await api.json(f"{base}/features/position"))["properties"]["latitudeDeg"]
    assert await api.json(f"{base}/features/motion/properties/odometerM/value") > 0
    assert await api.json(f"{base}/policyId") == "ivsim:read-only"
    assert await api.json(f"{base}/definition") == "ivsim:current-status:1"
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


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_nothing_can_be_changed(api: Api, method: str) -> None:
    for path in (f"/api/2/things/ivsim:{FIRST}", "/", "/api/vehicles", "/nothing"):
        answer = await api.client.request(method, path)
        assert answer.status_code == 405
        assert answer.headers["allow"] == "GET, HEAD"


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


@pytest.mark.parametrize(("fix_time_ms", "place"), [(0, (None, None)), (1_800_000_000_000, (0.0, 0.0))])
async def test_what_has_no_fix_is_nowhere_and_what_has_one_may_be_at_null_and_null(
    api: Api, fix_time_ms: int, place: tuple[float | None, float | None]
) -> None:
    record = api.stand.record(1)
    message = pb.CurrentStatus.FromString(record.value)
    message.position.latitude_deg = message.position.longitude_deg = 0.0
    message.position.fix_time_ms = fix_time_ms
    api.stand.fleet.take([record._replace(value=message.SerializeToString())])
    row = await api.json(f"/api/vehicles/{vehicle_id(2)}")
    assert (row["latitudeDeg"], row["longitudeDeg"]) == place
    assert row["speedKmh"] is not None
    assert row["problem"] is None


async def test_delivery_takes_what_was_emitted_into_account(api: Api) -> None:
    for second in range(4):
        api.stand.figures.take_emissions(
            b'{"vehicle_id":"%s","second":%d,"emitted":1,"unsent":0}' % (FIRST.encode(), second)
        )
    delivery = await api.json(f"/api/2/things/ivsim:{FIRST}/features/delivery/properties")
    assert delivery["emitted"] == 4
    assert delivery["deliveryRatio"] == 0.25


async def test_a_thing_says_what_its_link_gives_and_what_has_crossed_it(api: Api) -> None:
    path = f"/api/2/things/ivsim:{FIRST}/features/link"
    await api.json(path, 404)
    told = {"uplink_rate_bps": 1e6, "downlink_rate_bps": None, "rtt_ms": 68.0}
    lossy = {"uplink_loss_ratio": 0.01, "downlink_loss_ratio": 0.0}
    figures = api.stand.figures
    figures.take_link(orjson.dumps({"vehicle_id": FIRST, "second": 7, **told, **lossy}))
    gives = {
        "uplinkRateBps": 1e6,
        "downlinkRateBps": None,
        "rttMs": 68.0,
        "uplinkLossRatio": 0.01,
        "downlinkLossRatio": 0.0,
    }
    assert (await api.json(path))["properties"] == gives
    figures.take_link(
        orjson.dumps({"vehicle_id": FIRST, "second": 7, "direction": "uplink", "wire_bytes": 90})
    )
    crossed = {"uplinkBytesPerSecond": 90, "downlinkBytesPerSecond": 0, "uplinkBytes": 90, "downlinkBytes": 0}
    assert (await api.json(path))["properties"] == crossed | gives


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


THING = f"/api/2/things/ivsim:{FIRST}"
PARTS = (
    f"{THING}?fields=features/position,_revision",
    f"{THING}/policyId",
    f"{THING}/definition",
    f"{THING}/attributes",
    f"{THING}/attributes/format",
    f"{THING}/features/position",
    f"{THING}/features/position/properties",
    f"{THING}/features/position/properties/latitudeDeg",
)


@pytest.mark.parametrize("path", [THING, *PARTS])
async def test_what_has_not_changed_is_answered_304_and_what_has_is_sent(api: Api, path: str) -> None:
    whole = await api.client.get(path)
    tag = whole.headers["etag"]
    assert whole.status_code == 200
    api.stand.now_ns += 1_000_000_000  # ages go on, and the twin stays as it is
    for shown in (tag, f'"other", {tag}', tag.removeprefix("W/"), f"W/{tag.removeprefix('W/')}", "*"):
        answer = await api.client.get(path, headers={"if-none-match": shown})
        assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", tag), shown
    for shown in ('"other"', "nonsense", '"rev:1"', ""):
        answer = await api.client.get(path, headers={"if-none-match": shown})
        assert (answer.status_code, answer.headers["etag"]) == (200, tag), shown
    api.stand.fleet.take([api.stand.record(0, messages=2)])
    answer = await api.client.get(path, headers={"if-none-match": tag})
    constant = path.endswith(("policyId", "definition", "format"))
    assert (answer.status_code, answer.headers["etag"] == tag) == ((304, True) if constant else (200, False))
    assert constant or answer.json() != whole.json()


async def test_the_tag_of_a_twin_that_was_made_anew_is_another(api: Api) -> None:
    first = (await api.client.get(THING)).headers["etag"]
    assert first.startswith('W/"rev:1:')
    api.stand.now_ns += 5_000_000_000
    api.stand.fleet.take([api.stand.record(0)])  # it counts from 1 again
    assert (await api.client.get(THING)).headers["etag"] != first


@pytest.mark.parametrize(
    "fields", ["features/freshness", "features", "features/*/properties/gaps", "features/link"]
)
async def test_what_goes_on_by_itself_has_the_tag_of_its_value_when_it_is_asked_for_by_name(
    api: Api, fields
) -> None:
    found = await api.client.get(THING, params={"fields": fields})
    assert found.headers["etag"].startswith('"hash:')
    again = await api.client.get(
        THING, params={"fields": fields}, headers={"if-none-match": found.headers["etag"]}
    )
    assert again.status_code == 304
    api.stand.now_ns += 1_000_000_000
    again = await api.client.get(
        THING, params={"fields": fields}, headers={"if-none-match": found.headers["etag"]}
    )
    now = (await api.client.get(THING, params={"fields": fields})).json()
    assert (again.status_code == 304) is (now == found.json())
    assert (fields in {"features/freshness", "features"}) is (now != found.json())


async def test_if_match_is_for_strong_tags(api: Api) -> None:
    """RFC 9110, 13.1.1."""
    part = f"{THING}/features/position"
    tag = (await api.client.get(part)).headers["etag"]
    for path, shown, status in ((part, tag, 200), (part, "*", 200), (part, '"other"', 412), (part, f"W/{tag}", 412),
                                (THING, "*", 200), (THING, (await api.client.get(THING)).headers["etag"], 412)):  # fmt: skip
        answer = await api.client.get(path, headers={"if-match": shown})
        assert answer.status_code == status, (path, shown)
        if status == 412:
            assert answer.json()["error"] == "things:precondition.failed"
            assert answer.headers["etag"] in answer.json()["message"]


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/health",
        "/metrics",
        "/openapi.json",
        "/api/vehicles",
        THING,
        f"{THING}/features",
        SEARCH,
        "/none",
    ],
)
async def test_head_is_get_without_the_body(api: Api, path: str) -> None:
    got = await api.client.get(path)
    head = await api.client.head(path)
    assert (head.status_code, head.content) == (got.status_code, b"")
    moving = {"etag"} if path.endswith("features") else {"content-length"} if path == "/metrics" else set()
    assert {k: v for k, v in head.headers.items() if k not in moving} == {
        k: v for k, v in got.headers.items() if k not in moving
    }
    if path == THING:
        known = {"if-none-match": got.headers["etag"]}
        assert (await api.client.head(path, headers=known)).status_code == 304


async def test_a_head_opens_no_stream(api: Api) -> None:
    streams = {"accept": "text/event-stream"}
    answer = await api.client.head(THING, headers=streams)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    answer = await api.client.head("/api/events")
    assert (answer.status_code, answer.content) == (405, b"")
    assert answer.headers["allow"] == "GET"
    assert (await api.client.post("/api/events")).headers["allow"] == "GET"


async def test_empty_finds_things_without_a_section(api: Api) -> None:
    """A truck without an electric motor has no traction."""
    things = await api.json("/api/2/things")
    without = [thing["thingId"] for thing in things if "traction" not in thing["features"]]
    assert 0 < len(without) < len(things)
    found = await api.json(SEARCH, filter="empty(features/traction)", fields="thingId")
    assert [thing["thingId"] for thing in found["items"]] == without
    others = await api.json(SEARCH, filter="not(empty(features/traction))")
    assert len(others["items"]) == len(things) - len(without)


@pytest.mark.parametrize("token", ["", "correct-horse-battery"])
async def test_openapi_says_by_what_one_may_ask(stand: Callable[..., Any], token: str) -> None:
    async with stand(1).client(token) as client:
        answer = await client.get("/openapi.json", headers={"authorization": f"Bearer {token}"})
    found = answer.json()
    schemes = found["components"]["securitySchemes"]
    assert schemes["token"]["scheme"] == "bearer"
    assert (schemes["session"]["in"], schemes["session"]["name"]) == ("cookie", "ivsim_session_8080")
    if not token:
        assert "security" not in found
        return
    assert found["security"] == [{"token": []}, {"session": []}]
    assert found["paths"]["/health"]["get"]["security"] == []
    assert found["paths"]["/api/session"]["get"]["security"] == [{"token": []}]
    assert "security" not in found["paths"][SEARCH]["get"]
