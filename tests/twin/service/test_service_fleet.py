"""The fleet in memory: what enters, what is refused and counted, what a slow reader gets, what is kept."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.formats import FORMATS
from schemas.topics import vehicle_id
from twin.service import decoded
from twin.service.config import ServiceConfig
from twin.service.fleet import Fleet, Record
from twin.service.live_metrics import Figures, VehicleFigures
from twin.service.queries import FIGURE_COLUMNS, figures_row
from twin.service.record import REASONS, BadRecord

MakeStand = Callable[..., Any]


@pytest.mark.parametrize("format_name", FORMATS)
def test_every_format_enters_and_is_decoded_when_asked(stand: MakeStand, format_name: str) -> None:
    made = stand(2, format_name)
    made.take_all()
    assert len(made.fleet) == 2
    assert not made.fleet.bad
    twin = made.fleet.get(vehicle_id(1))
    assert twin.cached_row is None
    row = dict(zip(decoded.COLUMNS, decoded.row(twin), strict=True))
    assert row["problem"] is None
    assert (row["latitudeDeg"] is None) is (format_name == "small")
    assert twin.cached_row is not None


def test_the_newest_record_is_the_state(stand: MakeStand) -> None:
    made = stand(1)
    for _ in range(3):
        made.fleet.take([made.record()])
    assert made.fleet.get(vehicle_id(1)).state.sequence == 3
    assert made.fleet.records == 3


def without(record: Record, name: str) -> Record:
    return record._replace(headers=[h for h in record.headers or [] if h[0] != name])


BAD: dict[str, Callable[[Any], Record]] = {
    "no_key": lambda s: s.record()._replace(key=None),
    "no_key ": lambda s: s.record()._replace(key=b"a key with spaces"),
    "payload_too_large": lambda s: s.record()._replace(value=b"x" * 10_000_000),
    "header_missing": lambda s: s.record()._replace(headers=None),
    "header_missing ": lambda s: without(s.record(), "received_at_ns"),
    "header_missing  ": lambda s: without(s.record(), "messages"),
    "bad_header": lambda s: s.record(mode="\x00"),
    "bad_header ": lambda s: s.record(protocol="x" * 100),
    "unknown_format": lambda s: s.record(format="xml"),
    "bad_epoch": lambda s: s.record(epoch=-1),
    "bad_sequence": lambda s: s.record(sequence=2**63),
    "bad_sequence ": lambda s: s.record(sequence=0),
    "bad_sequence  ": lambda s: s.record(sequence="7 "),
    "bad_stamp": lambda s: s.record(received_at_ns="yesterday"),
    "bad_stamp ": lambda s: s.record(last_received_at_ns=2**64),
    "bad_stamp  ": lambda s: s.record()._replace(appended_at_ms=10**18),
    "bad_stamp   ": lambda s: s.record()._replace(appended_at_ms=-1),
    "bad_counter": lambda s: s.record(gaps=-3),
    "stamp_in_future": lambda s: s.record(received_at_ns=s.now_ns + 3_600 * 10**9),
    "bad_payload": lambda s: s.record()._replace(value=b"\xff" * 200),
    "bad_payload ": lambda s: s.record()._replace(value=b""),
    "other_vehicle": lambda s: s.record(1)._replace(key=vehicle_id(1).encode()),
    "other_message": lambda s: s.record(sequence=99),
    "other_message ": lambda s: s.record(epoch=2),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_record_is_counted_and_never_a_twin(stand: MakeStand, case: str) -> None:
    made = stand(2)
    made.take_all()
    before = made.fleet.get(vehicle_id(1)).state
    made.fleet.take([BAD[case](made), made.record(1)])
    assert dict(made.fleet.bad) == {case.strip(): 1}
    assert made.fleet.get(vehicle_id(1)).state is before
    assert made.fleet.get(vehicle_id(2)).state.sequence >= 2
    assert set(made.fleet.bad) <= set(REASONS)


@given(
    st.binary(max_size=40) | st.none(),
    st.binary(max_size=300) | st.none(),
    st.lists(
        st.tuples(
            st.sampled_from(["format", "epoch", "sequence", "messages"]), st.binary(max_size=20) | st.none()
        )
    ),
)
def test_no_record_stops_the_fleet(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    fleet = Fleet(ServiceConfig(bootstrap="127.0.0.1:1"))
    fleet.take([Record(key, value, headers, 0)])
    assert len(fleet) == 0


def test_a_reader_gets_each_changed_vehicle_once_in_its_newest_state(stand: MakeStand) -> None:
    made = stand(3)
    made.take_all()
    seen = made.fleet.changes(0)
    assert len(seen.twins) == 3
    for _ in range(500):
        made.fleet.take([made.record(1)])
    made.fleet.take([made.record(0)])
    slow = made.fleet.changes(seen.serial)
    assert [twin.vehicle_id for twin in slow.twins] == [vehicle_id(2), vehicle_id(1)]
    assert slow.twins[0].state.sequence == 501
    assert made.fleet.changes(slow.serial).twins == []


def test_a_tombstone_removes_the_twin_and_readers_hear_of_it(stand: MakeStand) -> None:
    made = stand(2)
    made.take_all()
    seen = made.fleet.changes(0).serial
    made.fleet.take([Record(vehicle_id(2).encode(), None, None, 0)])
    assert made.fleet.names() == [vehicle_id(1)]
    assert made.fleet.changes(seen).removed == [vehicle_id(2)]
    made.fleet.take([made.record(1)])
    assert made.fleet.changes(0).removed == []


def test_the_kept_past_is_bounded_over_all_vehicles_and_thinned(stand: MakeStand) -> None:
    made = stand(2, history_bytes=20_000, history_step_s=0.5)
    for _ in range(100):
        made.fleet.take([made.record(0), made.record(1)])
        made.now_ns += 300_000_000
    twin = made.fleet.get(vehicle_id(1))
    states = made.fleet.past(twin, 1_000)
    assert made.fleet.kept_bytes() <= 20_000
    assert 2 <= len(states) < 20
    assert states[-1] is twin.state
    assert all(b.received_at_ns > a.received_at_ns for a, b in pairwise(states))


def test_more_vehicles_than_allowed_are_counted(stand: MakeStand) -> None:
    made = stand(3, max_vehicles=2)
    made.take_all()
    assert len(made.fleet) == 2
    assert made.fleet.bad["too_many_vehicles"] == 1


def test_live_figures_are_added_up_and_the_fleet_is_the_star() -> None:
    figures = Figures(10)
    name = vehicle_id(1)
    for second in (1, 1, 2, 3):
        figures.take_emissions(
            b'{"vehicle_id":"%s","second":%d,"emitted":2,"unsent":1}' % (name.encode(), second)
        )
        figures.take_link(
            b'{"vehicle_id":"%s","second":%d,"direction":"uplink","wire_bytes":100}' % (name.encode(), second)
        )
    figures.take_metrics(b'{"vehicle_id":"*","window_start_s":null,"emitted":8}')
    figures.take_metrics(b'{"vehicle_id":"*","window_start_s":20,"emitted":4}')
    figures.take_metrics(b'{"vehicle_id":"%s","window_start_s":20,"received":4}' % name.encode())
    vehicle = figures.vehicle(name)
    assert vehicle is not None
    assert (vehicle.emitted, vehicle.unsent) == (8, 4)
    assert (vehicle.link["uplink"].bytes, vehicle.link["uplink"].total) == (100, 400)
    assert vehicle.window == {"vehicle_id": name, "window_start_s": 20, "received": 4}
    fleet = figures.fleet()
    assert fleet["run"]["emitted"] == 8
    assert [row["window_start_s"] for row in fleet["windows"]] == [20]
    assert fleet["link"] == [
        {"second": 1, "uplink": 200, "downlink": 0}, {"second": 2, "uplink": 100, "downlink": 0}
    ]  # fmt: skip


SOURCES = (
    b'{"at_ns":1,"fleet_offered":10,"fleet_emitted":%s,"fleet_emission_lag_max_ms":1.5,"cores_kafka":%s}'
)


def test_senders_and_parts_are_told_by_a_record_of_no_vehicle() -> None:
    figures = Figures(10)
    assert figures.fleet()["sources"] is None
    figures.take_emissions(SOURCES % (b"9", b"0.08"))
    figures.take_emissions(SOURCES % (b"null", b"0.1"))
    told = {"offered": 10, "emitted": None, "emissionLagMaxMs": 1.5, "cores": {"kafka": 0.1}}
    assert (figures.fleet()["sources"], figures.records) == (told, 2)


@pytest.mark.parametrize(("emitted", "cores"), [(b"-1", b"0"), (b"1", b'"x"'), (b"true", b"0")])
def test_those_that_cannot_be_are_refused(emitted: bytes, cores: bytes) -> None:
    with pytest.raises(BadRecord):
        Figures(10).take_emissions(SOURCES % (emitted, cores))
    many = ",".join(f'"cores_{number}":0' for number in range(100))
    with pytest.raises(BadRecord):
        Figures(10).take_emissions(b'{"fleet_offered":1,%s}' % many.encode())


ROAD = (
    b'{"vehicle_id":"v","second":%d,"uplink_rate_bps":%s,"downlink_rate_bps":5e6,"rtt_ms":%s,'
    b'"uplink_loss_ratio":0.01,"downlink_loss_ratio":0.0}'
)


def test_what_a_link_gives_is_the_newest_that_was_said() -> None:
    figures = Figures(10)
    figures.take_link(ROAD % (7, b"null", b"40"))
    vehicle = figures.vehicle("v")
    assert vehicle is not None
    assert vehicle.conditions == (7, None, 5e6, 40.0, 0.01, 0.0)
    assert vehicle.link["uplink"].second < 0  # no byte has passed
    figures.take_link(ROAD % (9, b"0", b"40"))
    figures.take_link(
        ROAD % (8, b"1e6", b"40")
    )  # Kafka's order is of a partition; a second that is over changes nothing
    assert vehicle.conditions == (9, 0.0, 5e6, 40.0, 0.01, 0.0)
    row = dict(zip(FIGURE_COLUMNS, figures_row("v", vehicle), strict=True))
    assert (row["linkSecond"], row["uplinkRateBps"], row["uplinkBytesPerSecond"]) == (9, 0.0, None)
    assert {row[name] for name in FIGURE_COLUMNS[-6:]} == {9, 0.0, 5e6, 40.0, 0.01}
    untold = dict(zip(FIGURE_COLUMNS, figures_row("v", VehicleFigures()), strict=True))
    assert untold["linkSecond"] is None


@pytest.mark.parametrize(
    ("rate", "rtt"), [(b"-1", b"40"), (b"1e400", b"40"), (b"true", b"40"), (b"1", b'"x"')]
)
def test_a_link_that_cannot_be_is_refused(rate: bytes, rtt: bytes) -> None:
    with pytest.raises(BadRecord):
        Figures(10).take_link(ROAD % (7, rate, rtt))


@pytest.mark.parametrize(
    "value", [None, b"", b"[]", b"nonsense", b'{"vehicle_id":5}', b'{"vehicle_id":"v","emitted":"x"}',
              b'{"vehicle_id":"v","emitted":1e400}', b'{"vehicle_id":"v","emitted":NaN}',
              b'{"vehicle_id":"v","more":{}}', b'{"vehicle_id":"v","more":[1]}', b"[" * 100_000],
)  # fmt: skip
def test_a_bad_figure_is_refused(value: bytes | None) -> None:
    with pytest.raises(BadRecord):
        Figures(10).take_emissions(value)


def test_a_bad_row_takes_no_other_with_it() -> None:
    figures = Figures(1)
    with pytest.raises(BadRecord, match="too_many_vehicles"):
        figures.take_emissions(
            b'[{"vehicle_id":"v","emitted":1},{"vehicle_id":"w","emitted":1},7,{"vehicle_id":"v","emitted":2}]'
        )
    vehicle = figures.vehicle("v")
    assert vehicle is not None
    assert vehicle.emitted == 3


def test_any_figure_taken_can_be_passed_on() -> None:
    """A reader of the stream gets what came, so that one record must not break the stream of all."""
    figures = Figures(10)
    figures.take_metrics(b'{"vehicle_id":"*","window_start_s":null,"updates":%d}' % 10**30)
    assert orjson.loads(orjson.dumps(figures.fleet()))["run"]["updates"] == 1e30
