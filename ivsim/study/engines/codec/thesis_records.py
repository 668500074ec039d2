"""The records of the serialisation thesis' sizes: 1, 4 and 8 groups of fields, 1,176 to 9,312 B in JSON.

The thesis' own fields are not published; these are ours. A group has 16 floats, 16 integers, 8 booleans and
4 strings; one group is a flat record, 4 and 8 groups are records within a record. A last string is filled
until the JSON text has the thesis' size to the byte. All is built and serialised by the libraries' ordinary
way: nothing is kept between messages.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final, NamedTuple

import fastavro
import flatbuffers
import msgspec
from flatbuffers import number_types, table
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SIZES: Final = {1: 1_176, 4: 4_696, 8: 9_312}
_KINDS: Final = (("real", 16, float), ("count", 16, int), ("flag", 8, bool), ("name", 4, str))
FIELDS: Final = [(f"{kind}_{k:02d}", of) for kind, number, of in _KINDS for k in range(1, number + 1)]


class Row(NamedTuple):
    """Size of one format at one size, and each time taken, in microseconds."""

    format: str
    groups: int
    size_bytes: int
    encode_us: list[float]
    decode_us: list[float]


def record(groups: int, seed: int = 1) -> dict[str, Any]:
    """Return the record of that many groups; its compact JSON has SIZES[groups] bytes."""
    rng = Random(seed)
    made = [{name: _value(of, rng) for name, of in FIELDS} for _ in range(groups)]
    content: dict[str, Any] = made[0] if groups == 1 else {f"group_{k}": g for k, g in enumerate(made, 1)}
    content["remark"] = ""
    missing = SIZES[groups] - len(msgspec.json.encode(content))
    if missing < 0:
        raise ValueError(f"{groups} groups: {-missing} bytes over the size")
    content["remark"] = "x" * missing
    return content


def _value(of: type, rng: Random) -> Any:
    if of is float:
        return round(rng.uniform(-1e3, 1e3) * 64) / 64
    if of is int:
        return rng.randrange(1_000_000)
    return rng.random() < 0.5 if of is bool else f"{rng.getrandbits(64):016x}"


def measure(groups: int, formats: Sequence[str], repetitions: int) -> list[Row]:
    """Return size and times of formats at one size, the formats in turn; KeyError for one without such records."""
    content = record(groups)
    pairs = {name: LIBRARIES[name](content, groups) for name in formats}
    rows = {name: Row(name, groups, len(encode()), [], []) for name, (encode, _) in pairs.items()}
    payloads = {name: encode() for name, (encode, _) in pairs.items()}
    for _ in range(repetitions):
        for name, (encode, decode) in pairs.items():
            began_ns = time.perf_counter_ns()
            encode()
            encoded_ns = time.perf_counter_ns()
            decode(payloads[name])
            decoded_ns = time.perf_counter_ns()
            rows[name].encode_us.append((encoded_ns - began_ns) / 1e3)
            rows[name].decode_us.append((decoded_ns - encoded_ns) / 1e3)
    return list(rows.values())


_Pair = tuple[Callable[[], bytes], Callable[[bytes], Any]]


def _json(content: dict[str, Any], _groups: int) -> _Pair:
    return lambda: msgspec.json.encode(content), msgspec.json.decode


def _msgpack(content: dict[str, Any], _groups: int) -> _Pair:
    return lambda: msgspec.msgpack.encode(content), msgspec.msgpack.decode


def _avro(content: dict[str, Any], groups: int) -> _Pair:
    kinds = {float: "double", int: "long", bool: "boolean", str: "string"}
    fields: list[dict[str, Any]] = [{"name": name, "type": kinds[of]} for name, of in FIELDS]
    if groups > 1:
        group = {"type": "record", "name": "Group", "fields": fields}
        fields = [{"name": f"group_{k}", "type": group if k == 1 else "Group"} for k in range(1, groups + 1)]
    fields = [*fields, {"name": "remark", "type": "string"}]
    schema = fastavro.parse_schema({"type": "record", "name": f"Record{groups}", "fields": fields})

    def encode() -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, content)
        return out.getvalue()

    return encode, lambda payload: fastavro.schemaless_reader(io.BytesIO(payload), schema, None)


def _protobuf(content: dict[str, Any], groups: int) -> _Pair:
    kinds = {float: 1, int: 4, bool: 8, str: 9}  # FieldDescriptorProto.Type
    file = descriptor_pb2.FileDescriptorProto(name=f"thesis{groups}.proto", package="thesis", syntax="proto3")
    group = file.message_type.add(name="Group")
    for number, (name, of) in enumerate(FIELDS, 1):
        group.field.add(name=name, number=number, type=kinds[of], label=1)
    whole = group if groups == 1 else file.message_type.add(name="Whole")
    for k in range(1, groups + 1) if groups > 1 else ():
        whole.field.add(name=f"group_{k}", number=k, type=11, type_name=".thesis.Group", label=1)
    whole.field.add(name="remark", number=100, type=9, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    kind: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName(f"thesis.{whole.name}"))
    return lambda: kind(**content).SerializeToString(), kind.FromString


def _flatbuffers(content: dict[str, Any], groups: int) -> _Pair:
    parts = [content] if groups == 1 else [content[f"group_{k}"] for k in range(1, groups + 1)]

    def encode() -> bytes:
        builder = flatbuffers.Builder(16_384)
        remark = builder.CreateString(content["remark"])
        tables = [_flat_group(builder, part, remark if groups == 1 else 0) for part in parts]
        if groups == 1:
            builder.Finish(tables[0])
            return bytes(builder.Output())
        builder.StartObject(groups + 1)
        for slot, offset in enumerate([*tables, remark]):
            builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
        builder.Finish(builder.EndObject())
        return bytes(builder.Output())

    # FlatBuffers' own way: decoding is finding the root; a field is read where it lies.
    def decode(payload: bytes) -> Any:
        root = table.Table(payload, int.from_bytes(payload[:4], "little"))
        place = root.Offset(4)
        return root.Get(number_types.UOffsetTFlags, root.Pos + place)

    return encode, decode


def _flat_group(builder: Any, part: dict[str, Any], remark: int) -> int:
    texts = {name: builder.CreateString(part[name]) for name, of in FIELDS if of is str}
    builder.StartObject(len(FIELDS) + 1)
    put = {float: builder.PrependFloat64Slot, int: builder.PrependUint64Slot, bool: builder.PrependBoolSlot}
    for slot, (name, of) in enumerate(FIELDS):
        if of is str:
            builder.PrependUOffsetTRelativeSlot(slot, texts[name], 0)
        else:
            put[of](slot, part[name], 0)
    if remark:
        builder.PrependUOffsetTRelativeSlot(len(FIELDS), remark, 0)
    return int(builder.EndObject())


# format -> what encodes and decodes the record by the library's ordinary way
LIBRARIES: Final[dict[str, Callable[[dict[str, Any], int], _Pair]]] = {
    "json": _json,
    "msgpack": _msgpack,
    "avro": _avro,
    "protobuf": _protobuf,
    "flatbuffers": _flatbuffers,
}
