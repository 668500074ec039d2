"""Results that people take away: listed, removed, compared, and exported without a figure changed."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from ivsim import cli
from ivsim.library import result_files
from ivsim.library.compare import compare_runs
from ivsim.library.export import export, loaders, write_json
from ivsim.library.folder import results_in
from ivsim.library.results import load_results
from ivsim.report.drawing import FORMATS as CHART_FORMATS
from ivsim.runs.capture_join import HELD_BACK
from ivsim.runs.checksums import write_checksums
from ivsim.runs.directory import RunDirectory
from ivsim.runs.link_log import SCHEMA as LINK
from ivsim.runs.link_log import WIRE
from ledger.fates import COLUMNS
from ledger.metrics import METRICS
from ledger.sources import EMISSIONS, KAFKA_RECORD, REACHED_CLOUD
from schemas.errors import Refusal
from simulator.emission_table import CONNECTION_SCHEMA
from tests.ivsim.audit.made_up_result import made_up_result
from twin.queries.answers import SCHEMA as ANSWERS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the results of two runs and of a study, and what is none."""
    path = tmp_path_factory.mktemp("results")
    made_up_result(path / "one")
    made_up_result(path / "two")
    (path / "notes").mkdir()
    study = path / "studies" / "tunnel"
    study.mkdir(parents=True)
    (study / "study.json").write_text('{"name": "tunnel", "quick": true}')
    return path


def said(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[Any, str, str]:
    monkeypatch.setattr(sys, "argv", ["ivsim", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code, *capsys.readouterr()


def test_a_folder_lists_its_runs_and_studies(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [(one.path.name, one.kind) for one in results_in(folder)] == [
        ("one", "run"), ("two", "run"), ("tunnel", "study"),
    ]  # fmt: skip
    code, out, _ = said(["results", "list", str(folder)], monkeypatch, capsys)
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == [
        str(folder / name) for name in ("one", "two", "studies/tunnel")
    ]
    code, out, _ = said(["results", "list", str(folder), "--json"], monkeypatch, capsys)
    assert [one["kind"] for one in json.loads(out)] == ["run", "run", "study"]


def test_a_results_figures_are_shown_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = said(["results", "show", str(folder / "one")], monkeypatch, capsys)
    assert code == 0
    assert "round trip" in out  # it is an echo's
    assert "run: " in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("results list nowhere", "nowhere: No such file"),
        ("results show .", "no result of a run or a study"),
        ("results show studies/tunnel", "no report yet"),
        ("results rm one notes --yes", "notes: no result of a run or a study"),
        ("compare one notes", "notes: no result of a run or a study"),
        ("compare one studies/tunnel", "studies/tunnel: results of a study, and the other are of a run"),
        ("export notes", "notes: no result of a run or a study"),
        ("export one --to xlsx", "--to 'xlsx': allowed are csv, parquet, json"),
        ("export one --table sums", "--table 'sums': one has metrics, "),
        ("export one --to svg --chart sums", "--chart 'sums': one has fates, stages, latency, "),
        ("export one --to pdf --table ledger", "--table 'ledger': --to is one of csv, parquet, json for it"),
        ("export one --chart stages", "--chart 'stages': --to is one of svg, png, pdf for it"),
        ("export one --output two", "--output two: not empty"),
        ("export one --output /proc/x", "--output /proc/x: No such file"),
    ],
)
def test_what_is_no_result_is_refused_and_nothing_is_changed(
    arguments: str,
    says: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    before = sorted(folder.rglob("*"))
    code, out, err = said(arguments.split(), monkeypatch, capsys)
    assert (code, out) == (2, "")
    assert says in err
    assert sorted(folder.rglob("*")) == before


def test_only_what_was_agreed_to_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "two"):
        made_up_result(tmp_path / name)
    for answer, code, says in (
        ("n\n", 1, ""),
        ("", 2, "nothing is removed without an answer; --yes does not ask\n"),
    ):
        monkeypatch.setattr("sys.stdin", io.StringIO(answer))
        ended, _, err = said(["results", "rm", str(tmp_path / "one")], monkeypatch, capsys)
        assert ended == code
        assert err.endswith(says)
        assert "Traceback" not in err
        assert (tmp_path / "one").is_dir()
    assert said(["results", "rm", str(tmp_path / "one"), "--yes"], monkeypatch, capsys)[0] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["two"]


READERS = {
    "csv": lambda path, schema: pa_csv.read_csv(
        path,
        convert_options=pa_csv.ConvertOptions(
            column_types=schema, strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    ),
    "parquet": lambda path, _: pq.read_table(path),
    "json": lambda path, schema: pa.Table.from_pylist(_with_numbers(json.loads(path.read_text())), schema),
}


def _with_numbers(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with their times in ns as numbers again: JSON has them as strings."""
    for row in rows:
        for name in [name for name in row if name.endswith("_ns") and isinstance(row[name], str)]:
            row[name] = int(row[name])
    return rows


@pytest.mark.parametrize("to", READERS)
def test_every_table_comes_back_as_it_was(to: str, folder: Path, tmp_path: Path) -> None:
    known = loaders(folder / "one")
    assert {"metrics", "ledger", "link", "emissions"} <= set(known)
    written = export(folder / "one", to, tmp_path / "out")
    assert [path.name for path, _ in written] == [f"{name}.{to}" for name in known]
    for path, rows in written:
        table = known[path.stem]()
        assert rows == f"{table.num_rows:,} rows"
        assert READERS[to](path, table.schema).to_pylist() == table.to_pylist(), path.stem
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(p.name for p, _ in written)


# How a file of each kind begins.
MAGIC = {"svg": b"<?xml", "png": b"\x89PNG\r\n", "pdf": b"%PDF-"}


def test_every_format_of_charts_has_its_file() -> None:
    assert list(MAGIC) == list(CHART_FORMATS)


@pytest.mark.parametrize(
    "to", [pytest.param(to, marks=pytest.mark.full if to == "png" else ()) for to in MAGIC]
)
def test_the_charts_of_a_report_are_files_for_a_paper(to: str, folder: Path, tmp_path: Path) -> None:
    written = export(folder / "one", to, tmp_path / "out")
    names = {path.stem for path, _ in written}
    assert {"fates", "stages", "latency", "uplink", "downlink", "delay"} == names
    for path, caption in written:
        assert path.read_bytes().startswith(MAGIC[to])
        assert caption[0].isupper()
    ((again, _),) = export(folder / "one", to, tmp_path / "again", drawn=("stages",))
    assert again.read_bytes() == (tmp_path / "out" / f"stages.{to}").read_bytes()


@pytest.mark.parametrize("to", ["csv", "svg"])
@pytest.mark.parametrize(
    "damage",
    [lambda data: data[:-9], lambda data: bytes(len(data) // 2) + data[len(data) // 2 :], lambda data: b""],
)
def test_a_damaged_table_is_not_exported_and_nothing_is_left(damage: Any, to: str, tmp_path: Path) -> None:
    ledger = made_up_result(tmp_path / "run") / "ledger.parquet"
    ledger.write_bytes(damage(ledger.read_bytes()))
    with pytest.raises(Refusal, match=f"^{ledger}: changed since the run wrote it"):
        export(tmp_path / "run", to, tmp_path / "out")
    write_checksums(RunDirectory(tmp_path / "run"))  # as the run left it
    with pytest.raises(Refusal, match="cannot be read: "):
        export(tmp_path / "run", to, tmp_path / "out")
    assert not list(tmp_path.glob("out/*"))


@pytest.mark.parametrize("name", ["metrics.json", "manifest.json", "ledger.parquet"])
@pytest.mark.parametrize(
    "command", ["results show RUN", "compare RUN RUN", "export RUN", "export RUN --to svg"]
)
def test_what_was_changed_by_hand_is_refused_by_its_name(
    name: str,
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = made_up_result(tmp_path / "run")
    if name.endswith(".json"):
        (run / name).write_text((run / name).read_text().replace("1", "2", 1))
    else:
        pq.write_table(pq.read_table(run / name).slice(1), run / name)
    monkeypatch.chdir(tmp_path)
    code, out, err = said(command.replace("RUN", "run").split(), monkeypatch, capsys)
    if command.startswith("results") and name == "ledger.parquet":
        assert code == 0  # it shows the figures alone
        return
    assert (code, out) == (2, "")
    assert err == f"ivsim: run/{name}: changed since the run wrote it (SHA256SUMS)\n"


def test_figures_that_were_changed_by_hand_are_listed_so(tmp_path: Path) -> None:
    run = made_up_result(tmp_path / "run")
    (before,) = results_in(tmp_path)
    (run / "metrics.json").write_text((run / "metrics.json").read_text() + "\n")
    (changed,) = results_in(tmp_path)
    (run / "SHA256SUMS").unlink()
    (unsaid,) = results_in(tmp_path)
    assert (before.state != "changed", changed.state, unsaid.state) == (True, "changed", "changed")


@pytest.mark.parametrize("word", ["pandas", "polars"])
def test_the_documents_examples_read_what_is_exported(
    word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "library.md").read_text()
    (example,) = re.findall(rf"```python\n(import {word} .*?)```", page, re.DOTALL)
    made_up_result(tmp_path / "run")
    fates = {row["fate"] for row in load_results(tmp_path / "run").ledger.to_pylist()}
    export(tmp_path / "run", "parquet", tmp_path / "out")
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "library.md", "exec"), {})
    said = capsys.readouterr().out
    assert sorted(fate for fate in fates if fate not in said) == []


def test_raw_bytes_are_hexadecimal_digits(folder: Path, tmp_path: Path) -> None:
    made_up_result(tmp_path / "run")
    rows = [dict.fromkeys(KAFKA_RECORD.names) | {"key": key} for key in (b"\xff\x00", b"", None)]
    pq.write_table(pa.Table.from_pylist(rows, KAFKA_RECORD), tmp_path / "run" / "kafka_records.parquet")
    write_checksums(RunDirectory(tmp_path / "run"))
    ((path, _),) = export(tmp_path / "run", "json", tmp_path / "json", ("kafka_records",))
    assert [row["key"] for row in json.loads(path.read_text())] == ["ff00", "", None]
    ((path, _),) = export(tmp_path / "run", "csv", tmp_path / "csv", ("kafka_records",))
    assert [line.split(",")[4] for line in path.read_text().splitlines()] == ['"key"', '"ff00"', '""', ""]


def test_no_number_in_json_is_beyond_what_a_double_holds(folder: Path, tmp_path: Path) -> None:
    """RFC 7493, 2.2: jq and JavaScript change a number above 2^53, and a time in ns is 200 times that."""
    stamps = 0
    for path, _ in export(folder / "one", "json", tmp_path / "out"):
        for row in json.loads(path.read_text(), parse_float=str):
            assert all(not isinstance(value, int) or abs(value) < 2**53 for value in row.values()), path.stem
            stamps += sum(name.endswith("_at_ns") and isinstance(value, str) for name, value in row.items())
    assert stamps


def test_what_is_no_number_is_null_in_json(tmp_path: Path) -> None:
    values = [1.5, float("nan"), None, float("inf"), -float("inf")]
    table = pa.table({"x": values, "y": pa.array(values, pa.float32()), "due_at_ns": [2**60] * 5})
    write_json(table, tmp_path / "t.json")
    rows = json.loads((tmp_path / "t.json").read_text())
    assert [row["x"] for row in rows] == [row["y"] for row in rows] == [1.5, None, None, None, None]
    assert rows[0]["due_at_ns"] == str(2**60)
    write_json(table.slice(0, 0), tmp_path / "t.json")
    assert json.loads((tmp_path / "t.json").read_text()) == []


def test_every_file_and_column_of_a_result_is_documented(folder: Path) -> None:
    """What is there and not described, or described and not there: `python -m ivsim.library.result_files`."""
    written = {
        "ledger": COLUMNS,
        "emissions": [*EMISSIONS.names, REACHED_CLOUD, HELD_BACK],
        "connections": CONNECTION_SCHEMA.names,
        "link": [*LINK.names, *WIRE],
        "kafka_records": KAFKA_RECORD.names,
        "answers": ANSWERS.names,
    }
    for name, columns in written.items():
        assert sorted(result_files.TABLES[name].columns) == sorted(columns), name
    for path in (folder / "one").iterdir():
        if path.suffix == ".parquet":
            columns = result_files.TABLES[path.stem].columns
            assert not columns or set(pq.read_schema(path).names) <= set(columns), path.name
        else:
            assert path.name in result_files.FILES, path.name


def test_the_page_of_files_is_the_codes_own() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "results.md"
    assert page.read_text() == result_files.reference(), (
        "python -m ivsim.library.result_files > docs/results.md"
    )


def test_a_figure_that_is_not_defined_is_exported_as_null(folder: Path, tmp_path: Path) -> None:
    run = load_results(folder / "one")
    ((path, rows),) = export(folder / "one", "json", tmp_path, ("metrics",))
    assert rows == f"{len(METRICS)} rows"
    assert {row["name"]: row["value"] for row in json.loads(path.read_text())} == {
        name: run.metrics.get(name) for name in METRICS
    }


def test_a_run_compared_with_itself_differs_in_nothing(folder: Path) -> None:
    one, two = load_results(folder / "one"), load_results(folder / "two")
    found = compare_runs(one, two)
    assert found.notes[0] == "the same options"
    assert found.notes[1].startswith("seed ")
    assert {row.metric.name for row in found.rows} == {
        name for name in METRICS if one.metrics.get(name) is not None
    }
    assert {row.difference for row in found.rows} == {0}


def test_what_else_differs_is_said(folder: Path) -> None:
    one, two = load_results(folder / "one"), load_results(folder / "two")
    two.manifest["seed"] = 99
    two.manifest["options"]["vehicles"] = 7
    two.manifest["versions"] = {"ivsim": "other"}
    two.metrics["delivery_ratio"] = 0.5
    two.metrics["validity"] = {"verdict": "invalid"}
    found = compare_runs(one, two)
    notes = "\n".join(found.notes)
    for words in ("options differ: vehicles", "seeds differ (", "versions differ: ", "two is invalid"):
        assert words in notes
    row = next(row for row in found.rows if row.metric.name == "delivery_ratio")
    assert row.difference == 0.5 - one.metrics["delivery_ratio"]


def test_a_comparison_is_a_table(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    code, out, _ = said(["compare", "one", "two"], monkeypatch, capsys)
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    cells = [line.split() for line in out.partition("\nfigure ")[2].splitlines()]
    delivered = json.loads((folder / "one" / "metrics.json").read_text())["delivered"]
    assert ["delivered", str(delivered), str(delivered), "0"] in cells
    assert any(row[:3] == ["95", "%:", "first"] for row in cells)
    code, out, _ = said(["compare", str(folder / "one"), str(folder / "two"), "--json"], monkeypatch, capsys)
    assert {row["difference"] for row in json.loads(out)["figures"]} == {0}
