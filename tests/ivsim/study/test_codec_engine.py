"""The codec engine measures every format of a study, and its samples come back from disk."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from ivsim.papers.ifip2020.codec_claims import FORMAT_CLAIMS, FormatCells
from ivsim.study.catalogue import study_named
from ivsim.study.corpus import corpus
from ivsim.study.engines.codec import memory, thesis_records, timing
from ivsim.study.execution import run_study
from ivsim.study.model import Study, cells_of
from ivsim.study.report import results, write_report
from ivsim.study.store import Store
from schemas.formats import FORMATS

SMALL = {"messages": 60, "timed_repetitions": 32, "vehicles_per_variant": 1, "memory_messages": 10}


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    study, path = study_named("serialisation")
    fields = study.model_dump() | {"quick": SMALL}
    store = Store.create(
        tmp_path_factory.mktemp("codec") / "out", "serialisation", Study.model_validate(fields), quick=True
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "peak", lambda name, way, n, seed: memory.Peak(name, way, n, 50_000, 50_100))
        run_study(store, cells_of(store.study, str(path), quick=True))
    return store


def test_every_format_has_every_figure_with_its_interval(store: Store):
    found = results(store)
    assert [r.reasons for r in found] == [[]] * 20
    for result in found:
        names = store.study.all_sweeps()[result.cell.sweep].metrics or store.study.metrics
        for name in names:
            assert result.interval(name).estimate is not None, (result.cell.name, name)
        times = result.interval("build_encode_us")
        assert times.estimate > 0
        assert times.low < times.estimate < times.high
    (size,) = {r.interval("payload_bytes_mean").n for r in found if r.cell.sweep == "current_status"}
    assert size == 60


def test_every_operation_is_timed_on_every_variant(store: Store):
    for result in results(store):
        if result.cell.sweep == "current_status":
            assert set(result.observations.times) == {
                (v, o) for v in timing.VARIANTS for o in timing.OPERATIONS
            }


def test_the_report_has_every_part(store: Store, tmp_path: Path):
    text = write_report(store, tmp_path).read_text()
    for heading in (
        "**No verdict on any difference: too few repetitions.**",
        "### groups",
        "Sizes by variant",
        "Times by variant",
        "sizes.svg",
    ):
        assert heading in text
    assert "quick run" in text


def test_the_claim_about_sizes_is_decided_from_its_cells(store: Store):
    sizes, times, memory_claim = FORMAT_CLAIMS
    cells = FormatCells(results(store))
    assert not any("not measured" in finding.text for finding in sizes.decide(cells))
    # Python's libraries decide nothing of C++'s.
    for claim in (times, memory_claim):
        assert all("not measured" in finding.text for finding in claim.decide(cells))


@pytest.mark.parametrize(("groups", "size"), thesis_records.SIZES.items())
def test_thesis_records_have_their_size_to_the_byte(groups, size):
    assert len(msgspec.json.encode(thesis_records.record(groups))) == size


def test_every_library_gives_the_thesis_record_back():
    content = thesis_records.record(4)
    for name in ("json", "msgpack", "avro"):
        encode, decode = thesis_records.LIBRARIES[name](content, 4)
        assert decode(encode()) == content
    encode, decode = thesis_records.LIBRARIES["protobuf"](content, 4)
    assert decode(encode()).group_2.real_01 == content["group_2"]["real_01"]


def test_peak_memory_is_the_child_s_own():
    ballast = bytearray(120_000_000)  # exec hands a parent's peak on; ours must not be counted
    ballast[::4096] = b"x" * len(ballast[::4096])
    found = memory.peak("protobuf", "decode", 20, seed=1)
    assert 15_000 < found.before_kib <= found.peak_kib < 110_000


def test_the_corpus_is_the_same_each_time():
    first, second = ([FORMATS["protobuf"].encode(sample.status) for sample in corpus(12)] for _ in range(2))
    assert first == second
    assert len(set(first)) == 12
