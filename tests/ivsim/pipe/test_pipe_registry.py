"""The schema registry's stub, the frame, and Confluent's own serialisers against it."""

from __future__ import annotations

import http.client
import io
import json
import urllib.error
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ivsim.study.engines.pipe.idioms import IDIOMS, codec_of, contents, needs_registry
from ivsim.study.engines.pipe.options import pipe_options
from ivsim.study.engines.pipe.preflight import check_records
from ivsim.study.engines.pipe.registry_codecs import Registry, framed
from ivsim.study.engines.pipe.registry_stub import RegistryStub
from ivsim.study.engines.pipe.schema_registry import Schema, frame, register, schema_of
from schemas.errors import Refusal

REGISTERED = [name for name in IDIOMS if needs_registry("s1", name)]
HEAD_BYTES = {"json": 5, "avro": 5, "protobuf": 6}
PLAIN = {"json-framed": "json", "json-confluent": "json-compact", "json-confluent-validated": "json-compact"}


@pytest.fixture
def registry():
    with RegistryStub() as stub:
        yield stub


def asked(registry, method, path, body=None):
    connection = http.client.HTTPConnection(urlsplit(registry.url).netloc, timeout=10)
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_a_schema_has_one_id_and_comes_back(registry):
    first, second = Schema("AVRO", '"long"'), Schema("JSON", '{"title": "ü"}')
    assert [register(registry.url, subject, first) for subject in ("a-value", "b/c-value")] == [1, 1]
    assert register(registry.url, "a-value", second) == 2
    assert [schema_of(registry.url, one) for one in (1, 2)] == [first, second]
    assert registry.schemas.subjects == {"a-value": [1, 2], "b/c-value": [1]}


def test_the_calls_are_those_of_the_api(registry):
    # As of Confluent's reference; a schema without a type is Avro.
    body = json.dumps({"schema": '"string"'})
    assert asked(registry, "POST", "/subjects/x/versions?normalize=False", body) == (200, {"id": 1})
    found = (200, {"schema": '"string"', "schemaType": "AVRO"})
    assert asked(registry, "GET", "/schemas/ids/1?subject=x") == found


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/schemas/ids/9", None, 404, 40403),
        ("GET", "/subjects", None, 404, 404),
        ("POST", "/config", "{}", 404, 404),
        ("POST", "/subjects/x/versions", "{}", 422, 42201),
        ("POST", "/subjects/x/versions", "[1]", 422, 42201),
        ("POST", "/subjects/x/versions", b"\xff", 422, 42201),
        ("POST", "/subjects/x/versions", '{"schema": 1}', 422, 42201),
    ],
)
def test_what_is_no_such_call_is_refused_and_nothing_is_kept(registry, method, path, body, status, code):
    found, said = asked(registry, method, path, body)
    assert (found, said["error_code"]) == (status, code)
    assert registry.schemas.subjects == {}


def test_it_is_gone_when_it_is_closed():
    with RegistryStub() as stub:
        url = stub.url
    with pytest.raises(urllib.error.URLError):
        schema_of(url, 1)


def test_the_frame_is_5_to_7_bytes():
    # Confluent's "wire format": magic byte, id, and of Protobuf the path of the message, [0] in one byte.
    assert frame(0x01020304).hex() == "0001020304"
    assert frame(7, [0]).hex() == "000000000700"
    assert frame(7, [1]).hex() == "00000000070202"
    assert frame(7, [1, 200]).hex() == "00000000070402" + "9003"


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 2**20), min_size=1, max_size=5))
def test_a_frame_is_read_by_the_library_of_its_inventors(number, path):
    from confluent_kafka.schema_registry.serde import SchemaId  # noqa: PLC0415

    found = SchemaId("PROTOBUF")
    rest = found.from_bytes(io.BytesIO(frame(number, path) + b"payload"))
    assert (found.id, found.message_indexes, rest.read()) == (number, path, b"payload")


@pytest.mark.parametrize("name", REGISTERED)
def test_a_payload_is_the_plain_one_behind_its_frame(registry, name):
    kind = IDIOMS[name].format
    codec, plain = codec_of("s1", name, registry.url), codec_of("s1", PLAIN.get(name, kind))
    head_bytes = 7 if name.endswith("second") else HEAD_BYTES[kind]
    for row in contents("s1", 3, 2):
        payload, bare = codec.encode(codec.build(row)), plain.encode(plain.build(row))
        assert len(payload) == head_bytes + len(bare)
        assert payload[:5] == frame(1)
        assert payload[head_bytes:] == bare
    assert list(registry.schemas.subjects) == [f"ivsim-s1-{name}-value"]


@pytest.mark.parametrize("kind", HEAD_BYTES)
def test_a_reader_of_another_process_learns_the_schema_by_its_id(registry, kind):
    (row,) = contents("s1", 1, 3)
    for writer, reader in (
        (f"{kind}-framed", f"{kind}-confluent"),
        (f"{kind}-confluent", f"{kind}-confluent"),
    ):
        made = codec_of("s1", writer, registry.url)
        found = codec_of("s1", reader, registry.url).decode(made.encode(made.build(row)))
        number = found.record_number if kind == "protobuf" else found["record_number"]
        assert number == row[1], writer


def test_a_frame_that_is_not_ours_is_an_error(registry):
    schema = Schema("AVRO", '"long"')
    writer, reader = (framed(bytes, bytes, schema, Registry(registry.url, "t")) for _ in range(2))
    payload = writer.encode(b"abc")
    assert reader.decode(payload) == b"abc"
    register(registry.url, "other", Schema("AVRO", '"int"'))
    for damaged, words in (
        (b"\x01" + payload[1:], "no frame"),
        (payload[:4], "no frame"),
        (frame(2) + b"abc", "another schema"),
    ):
        with pytest.raises(ValueError, match=words):
            reader.decode(damaged)
    with pytest.raises(urllib.error.HTTPError):
        reader.decode(frame(3) + b"abc")


def test_validation_finds_what_the_schema_does_not_have(registry):
    from confluent_kafka.serialization import SerializationError  # noqa: PLC0415

    (row,) = contents("s1", 1, 1)
    for name, refused in (("json-confluent-validated", True), ("json-confluent", False)):
        codec = codec_of("s1", name, registry.url)
        made = {**codec.build(row), "record_number": "a word"}
        if refused:
            with pytest.raises(SerializationError, match="is not of type 'integer'"):
                codec.encode(made)
        else:
            assert codec.decode(codec.encode(made))["record_number"] == "a word"


def test_the_check_before_the_start_has_a_registry_of_its_own():
    sizes = [
        check_records(pipe_options({"record": "s1", "format": name, "different": 2, "platform": "null"}))
        for name in ("avro", "avro-framed")
    ]
    assert sizes[1] == sizes[0] + 5


@pytest.mark.parametrize("name", ["json-framed", "protobuf-confluent"])
def test_a_registry_that_runs_already_is_asked_instead(registry, name):
    asked = {"record": "s1", "different": 2, "platform": "null", "registry": f"{registry.url}/"}
    check_records(pipe_options({**asked, "format": name}))
    assert list(registry.schemas.subjects) == [f"ivsim-s1-{name}-value"]


def test_what_is_no_schema_registry_is_refused(registry):
    asked = {"record": "s1", "different": 2, "platform": "null", "format": "avro-framed"}
    gone = f"{registry.url}1"  # of a port that cannot be
    for wrong in (gone, f"{registry.url}/apis"):
        with pytest.raises(Refusal, match=f"--registry {wrong}: no schema registry answers"):
            check_records(pipe_options({**asked, "registry": wrong}))
    for asked_for, words in (
        ({**asked, "registry": "localhost:8081"}, "--registry 'localhost:8081': "),
        (
            {**asked, "format": "avro", "registry": registry.url},
            f"--registry {registry.url}: has no effect with",
        ),
    ):
        with pytest.raises(Refusal, match=words):
            pipe_options(asked_for)
