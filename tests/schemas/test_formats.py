"""The contract suite of the formats: every entry of FORMATS passes it."""

from __future__ import annotations

import tracemalloc

import flatbuffers
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ivsim.study.corpus import START_AT_NS, driving, status_of
from schemas.errors import PayloadError
from schemas.formats import FORMATS
from schemas.formats.json import _shape
from schemas.layout import LAYOUT
from schemas.messages import CurrentStatus, Document, Header

FULL = [name for name in FORMATS if name != "small"]


def test_the_table_has_the_six_formats():
    assert set(FORMATS) == {"json", "protobuf", "flatbuffers", "avro", "msgpack", "small"}
    assert all(FORMATS[name].name == name for name in FORMATS)


@pytest.mark.parametrize("name", FULL)
def test_a_reading_survives(name, status):
    assert FORMATS[name].decode(FORMATS[name].encode(status)) == status


@pytest.mark.parametrize("name", FULL)
def test_peek_says_what_the_header_says(name, status):
    peek = FORMATS[name].peek(FORMATS[name].encode(status))
    assert peek == (3, 1, START_AT_NS, "YV2RT40A8KB000007")


@pytest.mark.parametrize("name", FULL)
@given(
    sequence=st.integers(1, 2**63 - 1),
    epoch=st.integers(1, 2**32 - 1),
    sampled_at_ms=st.integers(0, 2**63 - 1),
    vehicle_id=st.text(st.characters(codec="ascii", exclude_categories=["C"]), min_size=1, max_size=20),
    trip_id=st.text(max_size=70),
)
def test_any_header_survives_and_peeks(name, sequence, epoch, sampled_at_ms, vehicle_id, trip_id):
    header = Header(
        vehicle_id=vehicle_id,
        schema_version=1,
        sequence_number=sequence,
        sampled_at_ms=sampled_at_ms,
        trip_id=trip_id,
        epoch=epoch,
    )
    status = CurrentStatus.of(Document(header=header))
    payload = FORMATS[name].encode(status)
    assert FORMATS[name].decode(payload) == status
    assert FORMATS[name].peek(payload) == (sequence, epoch, sampled_at_ms * 1_000_000, vehicle_id)


@pytest.mark.parametrize("name", FULL)
@pytest.mark.parametrize("variant", ["rigid", "trailer", "hybrid", "stub"])
def test_a_living_status_encodes_as_if_built_anew(name, variant):
    vehicle = driving(variant, seed=11)
    tried = FORMATS[name]
    for k in range(1, 150):
        vehicle.advance(120_000_000_000 + k * 1_000_000_000)
        status = vehicle.status(k, 1, START_AT_NS + k * 1_000_000_000, vehicle.cause)
        payload = tried.encode(status)
        if k % 10 == 0:
            assert payload == tried.encode(CurrentStatus.of(status.document()))


def test_formats_share_one_living_status():
    vehicle = driving("trailer", seed=3)
    for k in range(1, 30):
        vehicle.advance(120_000_000_000 + k * 1_000_000_000)
        status = vehicle.status(k, 1, START_AT_NS, vehicle.cause)
        for name in FULL[k % 2 :]:  # some formats miss a tick now and then
            assert FORMATS[name].decode(FORMATS[name].encode(status)) == status


def test_a_record_that_comes_or_goes_needs_watching_anew():
    status = status_of("trailer", seed=3)
    for name in FULL:
        FORMATS[name].encode(status)
    assert status.body is not None
    status.body.washer_fluid_level_pct = None
    status.trailers.clear()
    status.watch()
    for name in FULL:
        assert FORMATS[name].decode(FORMATS[name].encode(status)) == status


def test_a_longer_name_moves_the_prepared_buffer():
    status = status_of("rigid", seed=3)
    tried = FORMATS["flatbuffers"]
    before = len(tried.encode(status))
    assert status.header is not None
    status.header.trip_id = "a much longer name than before"
    status.changed.append(0)
    assert len(tried.encode(status)) > before
    assert tried.decode(tried.encode(status)) == status


@pytest.mark.parametrize("name", FORMATS)
def test_every_truncation_is_refused(name):
    payload = FORMATS[name].encode(status_of("stub", seed=5))
    for length in range(len(payload)):
        # Protobuf has no end mark: a cut between sections is a shorter message. FlatBuffers ends in padding.
        if (name, length) in whole_when_cut(name, payload):
            continue
        with pytest.raises(PayloadError) as caught:
            FORMATS[name].decode(payload[:length])
        error = caught.value
        assert error.format == name
        assert error.offset is not None
        assert 0 <= error.offset <= length
        assert str(error).startswith(f"{name} payload, byte ")


def whole_when_cut(name, payload):
    """Return the (name, length) at which a cut leaves a message that is whole in its format's eyes."""
    if name == "flatbuffers":
        return {(name, len(payload) - k) for k in (1, 2, 3)}
    ends, at = {(name, 0)}, 0
    while name == "protobuf" and at < len(payload):  # every section: a tag byte, a length, its bytes
        length, shift, at = 0, 0, at + 1
        while True:
            byte, at = payload[at], at + 1
            length |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        at += length
        ends.add((name, at))
    return ends if name == "protobuf" else set()


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("payload", [b"", b"\x00", b"\xff" * 40, b"{}", b"[1,2", b"\x0a\x80"])
def test_what_is_no_message_has_no_peek(name, payload):
    with pytest.raises(PayloadError):
        FORMATS[name].peek(payload)


@pytest.mark.parametrize(
    ("name", "payload", "offset"),
    [
        ("json", b'{"header": {"epoch": }}', 21),
        ("json", b'{"header": {"epoch": "x"}}', 12),
        ("json", b'{"header": {"epoch": 5000000000}}', 12),
        ("json", b'{"lamps": [{"lamp": "NO_SUCH"}]}', 12),
        ("protobuf", b"\x0a\x03\x0a\x05ab", 2),
        ("protobuf", b"\x0a\x04\x0a\x02\xc3\x28", 4),
        ("small", b"message000", 7),
        ("small", b"message101", 7),
        ("small", b"massage001", 1),
        ("small", b"message00", 9),
        ("avro", b"\xc3\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00", 0),
    ],
)
def test_the_offset_points_at_the_fault(name, payload, offset):
    with pytest.raises(PayloadError) as caught:
        FORMATS[name].decode(payload)
    assert caught.value.offset == offset


def test_json_takes_true_and_false_alone_for_a_bool():
    def status(written):
        return b'{"motion":{"parkingBrakeEngaged":{"active":' + written + b"}}}"

    for written, value in ((b"true", True), (b"false", False)):
        assert FORMATS["json"].decode(status(written)).motion.parking_brake_engaged.active is value
    for written in (b"1", b"0", b"1.0", b'"true"', b'"false"', b'"1"', b"null", b"[]"):
        with pytest.raises(PayloadError, match="Expected `bool`") as caught:
            FORMATS["json"].decode(status(written))
        assert caught.value.offset == 11


HEADER = b'"header":{"vehicleId":"V1","sequenceNumber":"7","sampledAtMs":"5","epoch":1}'


@pytest.mark.parametrize(
    ("more", "name"),
    [
        (b'"position":{"latitudeDeg":1,"latitudeDeg":2}', "latitudeDeg"),
        (b'"position":{"latitudeDeg":1},"position":{"latitudeDeg":2}', "position"),
        (b'"position":{"latitudeDeg":1,"latitude\\u0044eg":2}', "latitudeDeg"),
        (HEADER, "header"),
        (HEADER.replace(b'"epoch":1', b'"epoch":1,"epoch":1'), "epoch"),
        (b'"unknown":{"deep":[{"a":1}, {"b" : 1e999, "b" :2}]}', "b"),
        (b'"unknown":{"A":1,"A":2}', "A"),
        (b'"unknown":1,"unknown":%b' % (b"9" * 5_000), "unknown"),
    ],
)
def test_json_with_a_name_twice_in_an_object_is_refused(more, name):
    for payload in (b"{%b,%b}" % (HEADER, more), b"{ %b,\n%b}" % (more, HEADER)):
        with pytest.raises(PayloadError, match=f"the name '{name}' stands twice in an object"):
            FORMATS["json"].decode(payload)


def test_json_refuses_a_name_twice_in_a_payload_like_those_before_it(status):
    tried = FORMATS["json"]
    payload = tried.encode(status)
    assert tried.decode(payload) == tried.decode(payload) == status
    for one, other in (
        (b'"latitudeDeg"', b'"longitudeDeg"'),
        (b'"altitudeM"', b'"latitudeDeg"'),
        (b'"epoch"', b'"schemaVersion"'),
    ):
        assert one in payload
        with pytest.raises(PayloadError, match="stands twice in an object"):
            tried.decode(payload.replace(one, other))
    alike = b'{%b,"unknown":{"a1":true,"%b":false}}'
    for _ in range(2):
        assert tried.decode(alike % (HEADER, b"a2"))
    with pytest.raises(PayloadError, match="the name 'a1' stands twice"):
        tried.decode(alike % (HEADER, b"a1"))


def test_the_names_of_one_message_differ_in_the_shape_of_json():
    """So that what a vehicle sends is looked through once, not each time."""
    for fields in LAYOUT.messages.values():
        assert len({_shape(field.json_name.encode()) for field in fields}) == len(fields)


def test_json_with_two_headers_is_refused(status):
    tried = FORMATS["json"]
    payload = tried.encode(status)
    header = payload.partition(b',"position"')[0].removeprefix(b"{")
    for other in (header, header.replace(b'"epoch":1', b'"epoch":2'), b'"header":null'):
        doubled = b"%b,%b}" % (payload[:-1], other)
        assert tried.peek(doubled) == tried.peek(payload)
        with pytest.raises(PayloadError, match="the name 'header' stands twice in an object"):
            tried.decode(doubled)


def test_nesting_is_bounded():
    for payload in (b"[" * 1_000_000, b'{"a":' * 200_000, b'{"header":' + b"[" * 100_000):
        with pytest.raises(PayloadError):
            FORMATS["json"].decode(payload)
    with pytest.raises(PayloadError):
        FORMATS["msgpack"].decode(b"\x91" * 1_000_000)


def test_shared_flatbuffers_tables_cannot_multiply_the_work():
    # 200 times one trailer, of 200 times one axle, of 200 times one wheel: 8 million tables in 3 kB.
    builder = flatbuffers.Builder(4096)

    def table(slots, fields):
        builder.StartObject(slots)
        for slot, offset in fields.items():
            builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
        return builder.EndObject()

    def many(offset):
        builder.StartVector(4, 200, 4)
        for _ in range(200):
            builder.PrependUOffsetTRelative(offset)
        return builder.EndVector()

    wheels = many(table(4, {}))
    axles = many(table(3, {2: wheels}))
    trailers = many(table(5, {4: axles}))
    builder.Finish(table(12, {7: trailers}))
    payload = bytes(builder.Output())
    assert len(payload) < 3_000
    with pytest.raises(PayloadError, match=r"more tables than its bytes can hold|a vector past the end"):
        FORMATS["flatbuffers"].decode(payload)


HUGE_LENGTHS = {
    "msgpack array": ("msgpack", b"\x81\xa5lamps\xdd\xff\xff\xff\xff"),
    "msgpack map": ("msgpack", b"\x81\xa1x\xdf\xff\xff\xff\xff"),
    "msgpack string": ("msgpack", b"\x81\xa6header\x81\xa6tripId\xdb\xff\xff\xff\xff"),
    "avro array": ("avro", FORMATS["avro"].prefix + b"\x00" * 6 + b"\xfe" + b"\xff" * 7 + b"\x7f"),
    "avro string": ("avro", FORMATS["avro"].prefix + b"\x02\xfe" + b"\xff" * 7 + b"\x7f"),
    "json number": ("json", b'{"header":{"sequenceNumber":' + b"9" * 1_000_000 + b"}}"),
    "json exponent": ("json", b'{"header":{"epoch":1e999999999}}'),
    "protobuf length": ("protobuf", b"\x0a\xff\xff\xff\xff\x07"),
    "flatbuffers offsets": ("flatbuffers", b"\x04\x00\x00\x00" * 200_000),
}


@pytest.mark.parametrize("case", HUGE_LENGTHS)
def test_a_huge_length_takes_no_memory(case):
    name, payload = HUGE_LENGTHS[case]
    tracemalloc.start()
    with pytest.raises(PayloadError):
        FORMATS[name].decode(payload)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 2_000_000 + 8 * len(payload)


@pytest.mark.parametrize(
    ("sequence", "payload"), [(1, b"message001"), (100, b"message100"), (101, b"message001")]
)
def test_small_wraps_after_a_hundred(sequence, payload):
    small = FORMATS["small"]
    status = CurrentStatus.of(Document(header=Header(sequence_number=sequence)))
    assert small.encode(status) == payload
    assert small.peek(payload) == ((sequence - 1) % 100 + 1, 1, None, None)
    assert small.sequence_modulus == 100


def test_small_needs_a_sequence():
    with pytest.raises(ValueError, match="sequence from 1"):
        FORMATS["small"].encode(CurrentStatus.of(Document()))


def test_an_unread_section_is_made_once(status):
    decoded = FORMATS["protobuf"].decode(FORMATS["protobuf"].encode(status))
    assert decoded.header is decoded.header
    assert decoded.header == status.header
    with pytest.raises(AttributeError):
        _ = decoded.no_such_section


def test_a_status_shows_itself(status):
    assert "YV2RT40A8KB000007" in repr(status)
    assert status != "something else"


def test_flatbuffers_fields_are_read_where_they_lie(status):
    tried = FORMATS["flatbuffers"]
    payload = tried.encode(status)
    paths = (("header", "epoch"), ("motion", "odometer_m"), ("body",), ("position", "latitude_deg"))
    motion = status.motion
    expected = [1, motion and motion.odometer_m, status.body, status.position.latitude_deg]
    assert tried.read(payload, *paths) == expected
    with pytest.raises(PayloadError):
        tried.read(payload[:200], *paths)
