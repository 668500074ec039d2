"""Records and idioms: the published sizes, and the same fields back from every library."""

from __future__ import annotations

import math
import zlib
from datetime import datetime
from statistics import fmean

import pytest

from ivsim.study.engines.pipe.idioms import IDIOMS, codec_of, contents, formats_of
from ivsim.study.engines.pipe.records import BLOCKS, RECORDS, TIME, columns_of
from ivsim.study.engines.pipe.registry_stub import RegistryStub
from schemas.formats import FORMATS

# Bytes before compression as the thesis gives them (Myastovskiy 2024, table 2).
PUBLISHED = {
    "json": (1_178, 5_954, 11_885),
    "msgpack": (1_019, 5_261, 10_512),
    "avro": (239, 1_063, 2_093),
    "protobuf": (181, 825, 1_630),
}


@pytest.fixture(scope="module")
def registry():
    with RegistryStub() as stub:
        yield stub


@pytest.mark.parametrize("record", BLOCKS)
@pytest.mark.parametrize("name", PUBLISHED)
def test_sizes_are_within_3_per_cent_of_the_published_ones(name, record):
    codec = codec_of(record, name)
    mean = fmean(len(codec.encode(codec.build(row))) for row in contents(record, 50, 1))
    assert mean == pytest.approx(PUBLISHED[name][list(BLOCKS).index(record)], rel=0.03)


def test_with_double_protobuf_is_larger_than_avro():
    sizes = {}
    for name in ("protobuf-double", "avro"):
        codec = codec_of("s1", name)
        (row,) = contents("s1", 1, 1)
        sizes[name] = len(codec.encode(codec.build(row)))
    assert sizes == {"protobuf-double": 245, "avro": 239}


@pytest.mark.parametrize("record", BLOCKS)
@pytest.mark.parametrize("name", IDIOMS)
def test_every_field_comes_back(name, record, registry):
    codec = codec_of(record, name, registry.url)
    for row in contents(record, 3, 5):
        payload = codec.encode(row if codec.build is None else codec.build(row))
        found = codec.decode(payload)
        for place, (column, kind) in enumerate(columns_of(record)):
            value = row[place].isoformat() if kind == TIME else row[place]
            assert same(_field(name, codec, found, place, column), value), column


def _field(name, codec, found, place, column):
    if IDIOMS[name].format == "flatbuffers":
        value = codec.read(found)[place]
        return value.decode() if isinstance(value, bytes) else value
    if IDIOMS[name].format == "protobuf":
        codec.read(found)
        return getattr(found, column) if found.HasField(column) else None
    return found[column]


def same(found, value):
    """Four-byte floats keep 7 digits, and Avro without unions has 0 for nothing."""
    if isinstance(value, float):
        return math.isclose(found, value, rel_tol=1e-6)
    return found in (None, 0.0) if value is None else found == value


@pytest.mark.parametrize("name", FORMATS)
def test_current_status_is_encoded_by_its_own_formats(name):
    codec = codec_of("current_status", name)
    for status in contents("current_status", 4, 1):
        assert codec.decode(codec.encode(status)) is not None


@pytest.mark.parametrize("record", RECORDS)
def test_contents_come_from_the_seed(record):
    name = formats_of(record)[0]
    payloads = {}
    for seed in (1, 1, 2):
        codec = codec_of(record, name)
        made = [
            codec.encode(one if codec.build is None else codec.build(one))
            for one in contents(record, 5, seed)
        ]
        payloads.setdefault(seed, []).append(made)
    assert payloads[1][0] == payloads[1][1] != payloads[2][0]


def test_a_time_has_26_characters_and_a_name_25():
    rows = contents("s1", 200, 3)
    assert {len(row[0].isoformat()) for row in rows} == {26}
    assert all(isinstance(row[0], datetime) for row in rows)
    assert {len(name) for name, _ in columns_of("s1")[2:]} == {25}
    assert len({name for name, _ in columns_of("s3")}) == 302


@pytest.mark.parametrize(("record", "size"), [("b1k", 1_000), ("b65k", 65_000), ("b600k", 600_000)])
def test_bytes_have_their_size_come_back_and_nothing_makes_them_smaller(record, size):
    codec = codec_of(record, "raw")
    first, second = contents(record, 2, 7)
    assert codec.decode(codec.encode(first)) == first != second
    assert len(first) == size < len(zlib.compress(first))
    assert contents(record, 2, 7) == [first, second]
    assert contents(record, 1, 8) != [first]
