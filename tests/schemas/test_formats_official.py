"""Our bytes against the official libraries': what we write they read, and where they write it is the same."""

from __future__ import annotations

import io
import json
import shutil
import subprocess

import fastavro
import msgpack
import pytest
from google.protobuf import json_format

from ivsim.study.corpus import START_AT_NS, driving
from schemas.formats import FORMATS
from schemas.formats.flat_prepared import build
from schemas.generate import HERE
from schemas.generated import current_status_pb2 as pb
from schemas.messages import CurrentStatus


def living_payloads(name, variant, ticks=40):
    vehicle = driving(variant, seed=21)
    for k in range(1, ticks):
        vehicle.advance(120_000_000_000 + k * 1_000_000_000)
        status = vehicle.status(k, 1, START_AT_NS + k * 1_000_000_000, vehicle.cause)
        yield status, FORMATS[name].encode(status)


@pytest.mark.parametrize("variant", ["trailer", "hybrid", "stub"])
def test_json_is_the_canonical_mapping(variant):
    for status, payload in living_payloads("json", variant, 10):
        message = pb.CurrentStatus.FromString(FORMATS["protobuf"].encode(status))
        canonical = json_format.MessageToDict(message, always_print_fields_with_no_presence=True)
        assert json.loads(payload) == canonical
        assert json_format.Parse(payload, pb.CurrentStatus()) == message
        assert b" " not in payload


def test_json_without_defaults_is_read_too():
    status, payload = next(living_payloads("protobuf", "rigid"))
    text = json_format.MessageToJson(pb.CurrentStatus.FromString(payload))
    assert FORMATS["json"].decode(text.encode()) == status
    # Another writer's order and spaces: the slow way gives the same peek.
    shuffled = json.dumps(dict(reversed(list(json.loads(text).items()))), indent=1).encode()
    assert FORMATS["json"].peek(shuffled) == FORMATS["protobuf"].peek(payload)


def test_protobuf_is_the_library_s_own_bytes():
    for _, payload in living_payloads("protobuf", "hybrid"):
        assert pb.CurrentStatus.FromString(payload).SerializeToString(deterministic=True) == payload


@pytest.mark.parametrize("variant", ["trailer", "hybrid", "stub"])
def test_avro_is_what_fastavro_writes(variant):
    schema = fastavro.parse_schema(json.loads((HERE / "current_status.avsc").read_text()))
    for status, payload in living_payloads("avro", variant, 10):
        content = fastavro.schemaless_reader(io.BytesIO(payload[10:]), schema, None)
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, content)
        assert payload[10:] == out.getvalue()
        assert content["header"]["vehicleId"] == status.header.vehicle_id


def test_avro_begins_with_its_schema_s_fingerprint():
    # Avro 1.11, "Single-object encoding"; the algorithm's own example: the fingerprint of "int".
    assert fastavro.schema.fingerprint('"int"', "CRC-64-AVRO") == "8f5c393f1ad57572"
    _, payload = next(living_payloads("avro", "stub"))
    assert payload[:2] == b"\xc3\x01"


def test_msgpack_is_what_msgpack_reads():
    for status, payload in living_payloads("msgpack", "trailer", 10):
        content = msgpack.unpackb(payload)
        assert content["motion"]["odometerM"]["value"] == status.motion.odometer_m.value
        assert FORMATS["msgpack"].decode(msgpack.packb(content)) == status


@pytest.mark.parametrize("variant", ["rigid", "trailer", "hybrid", "stub"])
def test_a_patched_buffer_is_the_official_builder_s(variant):
    for status, payload in living_payloads("flatbuffers", variant, 25):
        assert payload == build(CurrentStatus.of(status.document()))


@pytest.mark.skipif(shutil.which("flatc") is None, reason="flatc (flatbuffers-compiler) is not installed")
def test_flatc_reads_our_buffer(tmp_path):
    status, payload = next(living_payloads("flatbuffers", "hybrid"))
    (tmp_path / "status.bin").write_bytes(payload)
    command = ["flatc", "--json", "--strict-json", "--raw-binary", "--defaults-json", "-o", str(tmp_path)]
    subprocess.run(
        [*command, str(HERE / "current_status.fbs"), "--", str(tmp_path / "status.bin")], check=True
    )
    content = json.loads((tmp_path / "status.json").read_text())
    assert content["header"]["sequence_number"] == status.header.sequence_number
    assert content["traction"]["pack_voltage_v"]["value"] == status.traction.pack_voltage_v.value
    assert [lamp["lamp"] for lamp in content["lamps"]] == [lamp.lamp for lamp in status.lamps]
    # flatc packs what it has read: our reader reads flatc's buffer.
    subprocess.run(
        [
            "flatc",
            "--binary",
            "-o",
            str(tmp_path),
            str(HERE / "current_status.fbs"),
            str(tmp_path / "status.json"),
        ],
        check=True,
    )
    assert FORMATS["flatbuffers"].decode((tmp_path / "status.bin").read_bytes()) == status
