"""Schema versions 1 and 2: an old reader reads a new message, a new reader an old one, in every format."""

from __future__ import annotations

import contextlib
import copy
import io
import json

import fastavro
import flatbuffers
import msgspec
import pytest
from flatbuffers import number_types, table
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from ivsim.study.corpus import START_AT_NS, status_of
from schemas.errors import PayloadError
from schemas.formats import FORMATS
from schemas.formats.avro import Avro
from schemas.generate import HERE
from schemas.generated import current_status_pb2 as pb
from schemas.generated import records


class Header2(records.Header, rename="camel"):
    fleet_operator: str = "unknown"


class Document2(records.Document, rename="camel"):
    header: Header2 | None = None
    driver_mood: int = 7


# Version 2 gives the header an operator, the motion a pitch rate, and the message a driver's mood.


@pytest.fixture(scope="module")
def message_2():
    """Version 2 of the Protobuf message."""
    file = descriptor_pb2.FileDescriptorProto()
    pb.DESCRIPTOR.CopyToProto(file)
    types = {m.name: m for m in file.message_type}
    kinds = descriptor_pb2.FieldDescriptorProto

    def add(message, name, number, kind, type_name=""):
        field = types[message].field.add(name=name, number=number, type=kind, label=1)
        if type_name:
            field.type_name = type_name

    add("Header", "fleet_operator", 9, kinds.TYPE_STRING)
    add("Motion", "pitch_rate_dps", 16, kinds.TYPE_MESSAGE, ".ivsim.Reading")
    add("CurrentStatus", "driver_mood", 13, kinds.TYPE_UINT32)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("ivsim.CurrentStatus"))


def test_protobuf_both_ways(message_2):
    old = status_of("trailer", seed=8)
    payload = FORMATS["protobuf"].encode(old)
    read_by_new = message_2.FromString(payload)
    assert read_by_new.header.fleet_operator == ""
    assert read_by_new.header.vehicle_id == old.header.vehicle_id
    read_by_new.header.fleet_operator = "Any Haulage"
    read_by_new.motion.pitch_rate_dps.value = 1.5
    read_by_new.driver_mood = 3
    new = read_by_new.SerializeToString()
    assert FORMATS["protobuf"].decode(new) == old
    assert FORMATS["protobuf"].peek(new) == FORMATS["protobuf"].peek(payload)


@pytest.mark.parametrize("name", ["json", "msgpack"])
def test_names_both_ways(name):
    old = status_of("hybrid", seed=8)
    tried, library = FORMATS[name], {"json": msgspec.json, "msgpack": msgspec.msgpack}[name]
    payload = tried.encode(old)

    read_by_new = library.decode(payload, type=Document2, strict=False)
    assert (read_by_new.driver_mood, read_by_new.header.fleet_operator) == (7, "unknown")
    assert read_by_new.motion == old.motion
    content = library.decode(payload)
    content["driverMood"] = 3
    content["header"] = {"fleetOperator": "Any Haulage", **content["header"]}
    content["motion"]["pitchRateDps"] = {"value": 1.5}
    new = library.encode(content)
    assert tried.decode(new) == old
    assert tried.peek(new) == tried.peek(payload)


def avro_2():
    schema = json.loads((HERE / "current_status.avsc").read_text())
    header = schema["fields"][0]["type"][1]
    header["fields"].insert(2, {"name": "fleetOperator", "type": "string", "default": "unknown"})
    schema["fields"].append({"name": "driverMood", "type": "int", "default": 7})
    return schema


def test_avro_both_ways():
    old = status_of("rigid", seed=8)
    schema_1, schema_2 = (fastavro.parse_schema(copy.deepcopy(s)) for s in (Avro().schema, avro_2()))
    payload = FORMATS["avro"].encode(old)
    read_by_new = fastavro.schemaless_reader(io.BytesIO(payload[10:]), schema_1, schema_2)
    assert (read_by_new["driverMood"], read_by_new["header"]["fleetOperator"]) == (7, "unknown")

    reader = Avro()
    prefix = reader.learn(avro_2())
    out = io.BytesIO(prefix)
    out.seek(10)
    fastavro.schemaless_writer(out, schema_2, read_by_new)
    assert reader.decode(out.getvalue()) == old
    assert reader.peek(out.getvalue()) == reader.peek(payload)


def test_avro_refuses_a_writer_it_was_never_told_of():
    with pytest.raises(PayloadError, match="fingerprint"):
        FORMATS["avro"].decode(b"\xc3\x01" + b"\x07" * 30)


def flat_field(payload, at, slot):
    """Return where field `slot` of a table lies, read by the official runtime; None when absent."""
    view = table.Table(payload, at)
    offset = view.Offset(4 + 2 * slot)
    return (view, at + offset) if offset else (view, None)


def test_flatbuffers_new_reader_old_message():
    payload = bytearray(FORMATS["flatbuffers"].encode(status_of("stub", seed=8)))
    root = int.from_bytes(payload[:4], "little")
    view, header_at = flat_field(payload, root, 0)
    header = view.Indirect(header_at)
    assert flat_field(payload, header, 8)[1] is None  # Header.fleet_operator (id 8) of version 2
    assert flat_field(payload, root, 12)[1] is None
    view, place = flat_field(payload, header, 2)
    assert view.Get(number_types.Uint64Flags, place) == 3


def test_flatbuffers_old_reader_new_message():
    builder = flatbuffers.Builder(256)
    name, operator = builder.CreateString("YV2RT40A8KB000007"), builder.CreateString("Any Haulage")
    builder.StartObject(9)
    builder.PrependUint64Slot(2, 3, 0)
    builder.PrependUint64Slot(3, START_AT_NS // 1_000_000, 0)
    builder.PrependUint32Slot(7, 1, 0)
    builder.PrependUOffsetTRelativeSlot(0, name, 0)
    builder.PrependUOffsetTRelativeSlot(8, operator, 0)
    header = builder.EndObject()
    builder.StartObject(13)
    builder.PrependUOffsetTRelativeSlot(0, header, 0)
    builder.PrependUint32Slot(12, 3, 0)
    builder.Finish(builder.EndObject())
    payload = bytes(builder.Output())
    decoded = FORMATS["flatbuffers"].decode(payload)
    assert decoded.header.vehicle_id == "YV2RT40A8KB000007"
    assert decoded.motion is None
    assert FORMATS["flatbuffers"].peek(payload) == (3, 1, START_AT_NS, "YV2RT40A8KB000007")


@pytest.mark.parametrize("number", [17, -1, 2**31 - 1])
def test_an_enum_number_of_a_newer_schema_is_kept(number: int) -> None:
    """proto3's enums are open: a number without a name stays what it is, and goes out as it came in."""
    message = pb.CurrentStatus.FromString(FORMATS["protobuf"].encode(status_of("rigid", seed=8)))
    message.motion.odometer_m.quality = number
    payload = message.SerializeToString()
    decoded = FORMATS["protobuf"].decode(payload)
    assert decoded.motion.odometer_m.quality == str(number)
    assert decoded.motion.odometer_m.value == message.motion.odometer_m.value
    assert FORMATS["protobuf"].encode(decoded) == payload


def test_an_enum_number_of_a_newer_flatbuffers_schema_is_kept() -> None:
    payload = bytearray(FORMATS["flatbuffers"].encode(status_of("rigid", seed=8)))
    numbers = set()
    for at in range(len(payload)):
        before, payload[at] = payload[at], 200
        with contextlib.suppress(PayloadError):  # a byte that says where things are
            numbers.add(FORMATS["flatbuffers"].decode(bytes(payload)).motion.odometer_m.quality)
        payload[at] = before
    assert numbers >= {"200", "VALID"}
