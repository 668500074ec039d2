from __future__ import annotations

import msgspec
import pytest

from ivsim.serialisation import figures, memory, report, study, thesis, timing
from ivsim.serialisation.corpus import corpus
from schemas.formats import FORMATS


@pytest.fixture(scope="module")
def found():
    lengths = study.sizes(60)
    return {
        "quick": True,
        "machine": study.machine(),
        "load": 0.5,
        "cores": 4,
        "sizes": {name: study._distribution(by_variant) for name, by_variant in lengths.items()},
        "repetitions": 2,
        "vehicles_per_variant": 1,
        "times": [row._asdict() for row in timing.measure(2, 1)],
        "memory": [
            {"format": name, "direction": d, "messages": 10, "before_kib": 50_000, "peak_kib": 50_100}
            for name in timing.STUDIED
            for d in memory.DIRECTIONS
        ],
        "thesis": [row._asdict() for row in thesis.measure(2)],
    }


def test_the_report_has_every_part_and_every_claim(found):
    text = report.text(found)
    for heading in ("Sizes", "Times", "Peak memory", "sizes of the serialisation thesis", "published claims"):
        assert heading in text
    for claim in ("| 17 |", "| 18a |", "| 18b |", "| 19 |"):
        assert claim in text
    assert all(f"| {name} | all | 60 |" in text for name in timing.STUDIED)
    assert "quick run" in text


def test_every_operation_of_every_format_was_timed(found):
    keys = {(row["format"], row["variant"], row["operation"]) for row in found["times"]}
    assert len(keys) == len(timing.STUDIED) * 4 * len(timing.OPERATIONS)
    assert all(row["mean_us"] > 0.0 for row in found["times"])


def test_figures_are_the_same_for_the_same_data(tmp_path, found):
    for name in ("a.svg", "b.svg"):
        figures.sizes(tmp_path / name, {"json": [1, 2, 2, 3], "protobuf": [1, 1, 2]})
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    figures.times(tmp_path / "times.svg", report.mean_times(found["times"]))
    assert (tmp_path / "times.svg").stat().st_size > 5_000


@pytest.mark.parametrize(("groups", "size"), thesis.SIZES.items())
def test_thesis_records_have_their_size_to_the_byte(groups, size):
    assert len(msgspec.json.encode(thesis.record(groups))) == size


def test_every_library_gives_the_thesis_record_back():
    content = thesis.record(4)
    for pair in (thesis._json(content), thesis._msgpack(content), thesis._avro(content, 4)):
        encode, decode = pair
        assert decode(encode()) == content
    encode, decode = thesis._protobuf(content, 4)
    assert decode(encode()).group_2.real_01 == content["group_2"]["real_01"]


def test_peak_memory_is_the_child_s_own():
    ballast = bytearray(120_000_000)  # exec hands a parent's peak on; ours must not be counted
    ballast[::4096] = b"x" * len(ballast[::4096])
    found = memory.peak("protobuf", "decode", 20)
    assert 15_000 < found.before_kib <= found.peak_kib < 110_000


def test_the_corpus_is_the_same_each_time():
    first, second = ([FORMATS["protobuf"].encode(sample.status) for sample in corpus(12)] for _ in range(2))
    assert first == second
    assert len(set(first)) == 12
