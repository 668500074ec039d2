"""The codec_cpp engine: what it needs is named, its driver agrees with our formats, and its figures come back from disk."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ivsim.commands import study as study_command
from ivsim.study.catalogue import study_named
from ivsim.study.corpus import corpus
from ivsim.study.engines.base import engine_named
from ivsim.study.engines.codec_cpp import build, driver
from ivsim.study.engines.codec_cpp.build import FORMATS, Programs
from ivsim.study.execution import run_study
from ivsim.study.model import Study, cells_of
from ivsim.study.report import results, write_report
from ivsim.study.store import Store
from schemas.errors import Refusal
from schemas.formats import FORMATS as OURS
from schemas.layout import LAYOUT

SMALL = {"messages": 30, "timed_messages": 6, "samples": 5, "calls": 2, "memory_processes": 2}
compiled = pytest.mark.skipif(
    bool(build.missing()), reason=f"{', '.join(build.missing())} not installed (`{build.INSTALL}`)"
)


def test_what_is_missing_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert build.missing() == list(build.NEEDED.values())
    lack = engine_named("codec_cpp").missing()
    assert lack is not None
    assert "libprotobuf-dev" in lack
    assert "make cpp" in lack
    with pytest.raises(Refusal, match="make cpp"):
        build.build(tmp_path / "built")
    ran = CliRunner().invoke(
        study_command.app, ["run", "serialisation-cpp", "--output", str(tmp_path / "out")]
    )
    assert isinstance(ran.exception, Refusal)
    assert not (tmp_path / "out").exists()


def test_every_field_is_copied():
    code = build.copy_code()
    for name, fields in LAYOUT.messages.items():
        assert f"ivsim::{name}* to)" in code
        for field in fields:
            assert f"from.{field.name}" in code


@pytest.mark.parametrize(
    ("field", "value"), [("format", "json"), ("messages", 2), ("calls", 0), ("memory_processes", 1)]
)
def test_what_the_engine_does_not_take_is_refused(field: str, value: object):
    with pytest.raises(Refusal, match=field):
        engine_named("codec_cpp").checked({}, {field: value})


def test_at_most_one_message_of_a_vehicle_is_timed(tmp_path: Path):
    records = driver.write_records(tmp_path, 30, 4, 1)
    assert records.timed == [0, 6, 15, 21]
    assert driver.write_records(tmp_path, 30, 99, 1).timed == list(range(0, 30, 3))
    payloads = [OURS["flatbuffers"].encode(sample.status) for sample in corpus(30, 1)]
    assert records.path.read_bytes() == b"".join(struct.pack("<I", len(p)) + p for p in payloads)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return build.build(tmp_path_factory.mktemp("cpp"))


@compiled
@pytest.mark.slow
def test_the_driver_makes_the_same_protobuf_as_we_do(programs: Programs, tmp_path: Path):
    records = driver.write_records(tmp_path, 30, 3, 7)
    driver.peaks_kib(programs, records, "protobuf", 1)
    driver.peaks_kib(programs, records, "flatbuffers", 1)
    payloads = {name: _payloads(tmp_path / f"{name}-payloads") for name in FORMATS}
    for k, sample in enumerate(corpus(30, 7)):
        ours = OURS["protobuf"].encode(sample.status)
        assert OURS["protobuf"].decode(payloads["protobuf"][k]).document() == sample.status.document()
        assert OURS["flatbuffers"].decode(payloads["flatbuffers"][k]).document() == sample.status.document()
        assert len(payloads["protobuf"][k]) == len(ours)
    found = driver.sizes_and_times(programs, records, 2, 3, 1)
    for name in FORMATS:
        assert found[name].sizes == [len(p) for p in payloads[name]]
        assert all(len(times) == 3 and min(times) > 0 for times in found[name].times.values())


def _payloads(path: Path) -> list[bytes]:
    data, found = path.read_bytes(), []
    while data:
        (size,) = struct.unpack_from("<I", data)
        found.append(data[4 : 4 + size])
        data = data[4 + size :]
    return found


@compiled
@pytest.mark.slow
def test_the_driver_says_what_it_cannot_read(programs: Programs, tmp_path: Path):
    cut = tmp_path / "cut"
    cut.write_bytes(struct.pack("<I", 100) + b"x")
    wrong = tmp_path / "wrong"
    wrong.write_bytes(struct.pack("<I", 100) + bytes(range(100)))
    for words, said in (
        (["sizes", str(cut)], "a payload is cut"),
        (["sizes", str(wrong)], "a record is no CurrentStatus"),
        (["sizes", str(tmp_path / "none")], "cannot read"),
        (["weigh"], "unknown words"),
    ):
        ran = subprocess.run([programs.both, *words], capture_output=True, text=True, check=False)
        assert (ran.returncode, said in ran.stderr) == (1, True)


@compiled
@pytest.mark.slow
def test_a_study_of_both_formats_has_every_figure(
    programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(build, "build", lambda folder: folder.mkdir(parents=True) or programs)
    study, path = study_named("serialisation-cpp")
    study = Study.model_validate(study.model_dump() | {"quick": SMALL})
    store = Store.create(tmp_path / "out", "serialisation-cpp", study, quick=True)
    run_study(store, cells_of(store.study, str(path), quick=True))
    found = results(store)
    assert [r.reasons for r in found] == [[], []]
    for result in found:
        for name in engine_named("codec_cpp").metrics:
            assert result.interval(name).estimate is not None, (result.cell.name, name)
        assert result.interval("payload_bytes_mean").n == 30
        assert result.interval("encode_peak_mib").n == 2
    text = write_report(store, tmp_path / "report").read_text()
    assert "## Compilers" in text
    assert "- g++: g++" in text
