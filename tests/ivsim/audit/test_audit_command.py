"""`ivsim audit` on a result that is whole, on one with a wrong figure in each file, and on what it must refuse."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from ivsim.application import app
from ivsim.audit import BadResult, audit, compare, shares
from ivsim.audit.compare import Table
from ivsim.commands.audit import words
from ivsim.options import RunOptions
from ivsim.report.page import write_page
from ivsim.runs import snapshot
from ivsim.runs.checksums import write_checksums
from ivsim.runs.directory import RunDirectory
from schemas.topics import vehicle_id
from simulator.emission_table import read_events
from tests.ivsim.audit.made_up_result import OPTIONS, START, made_up_result


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_up_result(tmp_path_factory.mktemp("audit") / "result")


@pytest.fixture
def result(tmp_path: Path, whole: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "result"))


def test_a_whole_result_agrees(result: Path) -> None:
    made = audit(result)
    assert [(sheet.name, sheet.differences) for sheet in made.sheets if sheet.differences] == []
    assert made.compared > 500
    assert {fate for fate in ("delivered", "late", "lost", "unsent") if metrics(result)[fate]} == {
        "delivered", "late", "lost", "unsent",
    }  # fmt: skip
    done = CliRunner().invoke(app, ["audit", str(result)])
    assert done.exit_code == 0, done.output
    assert done.output.rstrip().endswith(f"All {made.compared:,} figures agree.")
    assert all(len(line) <= 80 for line in done.output.splitlines())


def test_what_a_connection_without_a_publish_was_given(result: Path) -> None:
    """From the files of a run, as pipeline and audit read them: nobody acknowledges, and the capture has no message."""
    manifest = json.loads((result / "manifest.json").read_text())
    manifest["options"]["mode"] = "qos0"
    (result / "manifest.json").write_text(json.dumps(manifest))
    columns = dict.fromkeys(("connection", "order", "first_sent_at_ns", "payload_bytes_uplink"), pa.int64())
    schema = pa.schema({"vehicle_id": pa.string(), **columns, "reached_cloud_at_ns": pa.int64()})
    whole = {b"kernel_drops": b"0", b"complete": b"true"}
    pq.write_table(schema.with_metadata(whole).empty_table(), result / "wire_messages.parquet")
    categories = pq.read_table(result / "wire_categories.parquet")
    opened = {
        "phase": "run", "vehicle_id": vehicle_id(1), "direction": "uplink", "purpose": "connection",
        "layer": "protocol", "bytes": 40,
    }  # fmt: skip
    categories = pa.concat_tables([categories, pa.Table.from_pylist([opened], categories.schema)])
    pq.write_table(categories, result / "wire_categories.parquet")
    directory = RunDirectory(result)
    options = RunOptions(
        mode="qos0", **{k: OPTIONS[k] for k in ("topology", "vehicles", "duration_s", "seed")}
    )
    emissions = snapshot._emissions(directory, options, START, read_events(directory.emission_log()))
    emitted = emissions.filter(pc.is_valid(emissions["emitted_at_ns"]))
    assert set(emitted.filter(emitted["held_back"])["vehicle_id"].to_pylist()) == {vehicle_id(1)}

    def differences(table: pa.Table) -> list[Any]:
        pq.write_table(table, directory.emissions)
        write_checksums(directory)
        return next(sheet.differences for sheet in audit(result).sheets if sheet.name == "emissions.parquet")

    assert differences(emissions) == []
    column = emissions.column_names.index("held_back")
    assert differences(emissions.set_column(column, "held_back", pa.nulls(emissions.num_rows, pa.bool_())))


def test_a_run_is_audited_some_vehicles_at_a_time(result: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = audit(result)
    monkeypatch.setattr(shares, "ROWS", 1)
    held: list[tuple[str, int]] = []
    hold = Table.hold

    def watched(self: Table, said: Sequence[Any], found: Sequence[Any]) -> None:
        held.append((self._sheet.name, max(len(said), len(found))))
        hold(self, said, found)

    monkeypatch.setattr(Table, "hold", watched)
    done: list[tuple[int, int]] = []
    made = audit(result, lambda *counts: done.append(counts))
    assert [(sheet.name, sheet.compared) for sheet in made.sheets] == [
        (sheet.name, sheet.compared) for sheet in at_once.sheets
    ]
    assert made.agrees
    assert done == [(0, 3), (1, 3), (2, 3), (3, 3)]  # two vehicles, and all others
    assert max(rows for name, rows in held if name == "ledger.parquet") == 4
    for change in (change_metric, rewrite("ledger.parquet", column("fate", 6, "lost"))):
        change(result)
    wrong = [(sheet.name, one.figure) for sheet in audit(result).sheets for one in sheet.differences]
    assert wrong == [("ledger.parquet", "YV2RT40A8KB000002/1/3 fate"), ("metrics.json", "delivered")]


def test_rows_of_whom_the_run_does_not_know_differ(result: Path) -> None:
    for name in ("ledger.parquet", "wire.parquet"):
        table = pq.read_table(result / name)
        strange = table.slice(0, 1).set_column(
            table.schema.get_field_index("vehicle_id"), "vehicle_id", pa.array(["stranger"])
        )
        pq.write_table(pa.concat_tables([table, strange]), result / name)
    wrong = [(sheet.name, one.figure) for sheet in audit(result).sheets for one in sheet.differences]
    assert wrong == [("wire.parquet", "-1/stranger/uplink"), ("ledger.parquet", "stranger/1/1")]


def test_more_differences_than_are_kept_are_counted(result: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "KEPT", 2)
    rewrite("wire.parquet", lambda t: t.set_column(3, "packets", pa.array([77] * t.num_rows)))(result)
    made = audit(result)
    (sheet,) = (sheet for sheet in made.sheets if sheet.differences)
    assert (len(sheet.differences), sheet.differing) == (2, 20)
    assert "and 18 more\n" in words(made, None)
    assert f"20 of {made.compared:,} figures DIFFER." in words(made, None)


@pytest.mark.parametrize(("ends", "agrees"), [("[2]", True), ("[1, 2]", False), ("null", False)])
def test_bytes_of_a_sample_are_held_against_those_of_its_vehicles(
    result: Path, ends: str, agrees: bool
) -> None:
    path = result / "wire_categories.parquet"
    categories = pq.read_table(path)
    own = categories.filter(pc.equal(categories["vehicle_id"], "YV2RT40A8KB000002"))
    pq.write_table(own.replace_schema_metadata({b"attributed_ends": ends.encode()}), path)
    write_page(result)
    write_checksums(RunDirectory(result))
    wrong = {sheet.name for sheet in audit(result).sheets if sheet.differences}
    assert wrong == (set() if agrees else {"wire_categories.parquet"})


def metrics(result: Path) -> dict[str, Any]:
    return json.loads((result / "metrics.json").read_text())


def change_metric(result: Path) -> None:
    (result / "metrics.json").write_text(json.dumps(metrics(result) | {"delivered": 99}))


def remove_metric(result: Path) -> None:
    (result / "metrics.json").write_text(
        json.dumps({name: value for name, value in metrics(result).items() if name != "goodput_bps"})
    )


def add_metric(result: Path) -> None:
    (result / "metrics.json").write_text(json.dumps(metrics(result) | {"invented": 1}))


def by_one_digit(result: Path) -> None:
    found = metrics(result)
    found["one_way_delay_p50_ms"] += 1e-9
    (result / "metrics.json").write_text(json.dumps(found))


def change_verdict(result: Path) -> None:
    found = metrics(result) | {"validity": {"verdict": "invalid", "causes": []}}
    (result / "metrics.json").write_text(json.dumps(found))


def column(name: str, row: int, value: Any) -> Callable[[pa.Table], pa.Table]:
    def changed(table: pa.Table) -> pa.Table:
        values = table[name].to_pylist()
        values[row] = value
        index = table.schema.get_field_index(name)
        return table.set_column(index, name, pa.array(values, table.schema.field(name).type))

    return changed


def rewrite(name: str, change: Callable[[pa.Table], pa.Table]) -> Callable[[Path], None]:
    def doing(result: Path) -> None:
        pq.write_table(change(pq.read_table(result / name)), result / name)

    return doing


def remove_certificate(result: Path) -> None:
    found = metrics(result)
    found["certificate"] = {"checks": [], "probe_bytes_uplink": 384, "probe_bytes_downlink": 384}
    (result / "metrics.json").write_text(json.dumps(found))


def first_row_twice(table: pa.Table) -> pa.Table:
    return pa.concat_tables([table, table.slice(0, 1)])


def print_another(result: Path) -> None:
    page = result / "report.html"
    text = page.read_text()
    changed = re.sub(r"""(data-metric=["']due["'] data-value=["']6["']>)6<""", r"\g<1>7<", text)
    assert changed != text
    page.write_text(changed)


@pytest.mark.parametrize(
    ("change", "file", "figure", "said"),
    [
        (change_metric, "metrics.json", "delivered", "99"),
        (remove_metric, "metrics.json", "goodput_bps", "missing"),
        (add_metric, "metrics.json", "invented", "1"),
        (by_one_digit, "metrics.json", "one_way_delay_p50_ms", None),
        (change_verdict, "metrics.json validity", "verdict", "invalid"),
        (rewrite("ledger.parquet", column("fate", 2, "lost")), "ledger.parquet", "YV2RT40A8KB000001/1/3 fate", "lost"),
        (rewrite("ledger.parquet", lambda t: t.slice(1)), "ledger.parquet", "YV2RT40A8KB000001/1/1", "no row"),
        (rewrite("ledger.parquet", first_row_twice), "ledger.parquet", "rows with one name", "1 twice"),
        (rewrite("emissions.parquet", column("emitted_at_ns", 0, 5)), "emissions.parquet", None, "5"),
        (rewrite("connections.parquet", column("handshake_ns", 1, 5)), "connections.parquet", "1 handshake_ns", "5"),
        (rewrite("wire.parquet", column("ip_bytes", 0, 5)), "wire.parquet", "-1/YV2RT40A8KB000001/uplink ip_bytes", "5"),
        (rewrite("ledger.parquet", lambda t: t.drop(["fate"])), "ledger.parquet", "column fate", "missing"),
        (rewrite("ledger.parquet", lambda t: t.drop(["vehicle_id"])), "ledger.parquet", "column vehicle_id", "missing"),
        (rewrite("ledger.parquet", lambda t: t.append_column("mood", t["fate"])), "ledger.parquet", "column mood", "there"),
        (remove_certificate, "metrics.json certificate", "verdict", "missing"),
        (print_another, "report.html", "due, as printed", "7"),
    ],
)  # fmt: skip
def test_a_wrong_figure_is_one_line(
    result: Path, change: Callable[[Path], None], file: str, figure: str | None, said: str | None
) -> None:
    change(result)
    before = {path: path.read_bytes() for path in result.iterdir()}
    made = audit(result)
    wrong = [(sheet.name, d.figure, d.said) for sheet in made.sheets for d in sheet.differences]
    assert len(wrong) == 1, wrong
    assert wrong[0][0] == file
    assert figure in {wrong[0][1], None}
    assert said in {wrong[0][2], None}
    done = CliRunner().invoke(app, ["audit", str(result)])
    assert done.exit_code == 1
    assert wrong[0][1] in done.output
    assert {path: path.read_bytes() for path in result.iterdir()} == before


def edit_manifest(result: Path) -> None:
    path = result / "manifest.json"
    path.write_text(path.read_text().replace('"seed": 3', '"seed": 4'))


def older(result: Path) -> None:
    path = result / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema": 1}))


def cut(name: str) -> Callable[[Path], None]:
    def doing(result: Path) -> None:
        path = result / name
        path.write_bytes(path.read_bytes()[:-40])

    return doing


def remove(name: str) -> Callable[[Path], None]:
    return lambda result: (result / name).unlink()


def by_hand_with_sums(result: Path) -> None:
    """Edit the manifest so that nothing can be read from it, and its sum with it."""
    path = result / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["options"]["vehicles"] = "two"
    path.write_text(json.dumps(manifest))
    write_checksums(RunDirectory(result))


def bad_sums(result: Path) -> None:
    (result / "SHA256SUMS").write_text("what\n")


@pytest.mark.parametrize(
    ("change", "file", "words"),
    [
        (edit_manifest, "manifest.json", "changed since the run wrote it"),
        (older, "manifest.json", "schema 1: this version audits 2"),
        (remove("manifest.json"), "", "no result of a run: manifest.json is missing"),
        (by_hand_with_sums, "manifest.json", "options.vehicles: 'two': must be int"),
        (rewrite("link.parquet", column("probe_bytes", 0, 5)), "link.parquet", "changed since the run wrote it"),
        (lambda result: (result / "run.json").write_text("{}"), "run.json", "changed since the run wrote it"),
        (cut("ledger.parquet"), "ledger.parquet", "no whole Parquet file"),
        (cut("emissions.parquet"), "emissions.parquet", "no whole Parquet file"),
        (cut("emissions.events"), "emissions.events", "changed since the run wrote it"),
        (cut("metrics.json"), "metrics.json", "no JSON"),
        (remove("emissions.events"), "emissions.events", "missing; the run wrote one"),
        (remove("metrics.json"), "metrics.json", "missing; the run did not come to its end"),
        (remove("report.html"), "report.html", "missing"),
        (remove("SHA256SUMS"), "SHA256SUMS", "missing"),
        (bad_sums, "SHA256SUMS", "line 1: not a sha256 sum and a name"),
        (lambda result: (result / "report.html").write_text("<p>"), "report.html", "has no table of figures"),
        (lambda result: (result / "received-0.events").write_bytes(b""), "received-0.events", "the run did not write it"),
    ],
)  # fmt: skip
def test_what_cannot_be_trusted_as_a_source_is_refused(
    result: Path, change: Callable[[Path], None], file: str, words: str
) -> None:
    change(result)
    before = {path: path.read_bytes() for path in result.iterdir()}
    with pytest.raises(BadResult) as refused:
        audit(result)
    assert words in str(refused.value)
    assert str(refused.value).startswith(str(result / file if file else result))
    done = CliRunner().invoke(app, ["audit", str(result)])
    assert done.exit_code == 2
    assert "Traceback" not in done.output
    assert {path: path.read_bytes() for path in result.iterdir()} == before


def test_no_directory_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["audit", str(tmp_path / "nothing")])
    assert done.exit_code == 2


def test_many_differences_are_shortened_and_all_shows_them(result: Path) -> None:
    rewrite("ledger.parquet", lambda t: t.set_column(0, "vehicle_id", pa.array(["x"] * t.num_rows)))(result)
    rewrite("wire.parquet", lambda t: t.set_column(3, "packets", pa.array([77] * t.num_rows)))(result)
    made = audit(result)
    assert "more (--all)" in words(made, 5)
    assert "more (--all)" not in words(made, None)
    assert words(made, None).splitlines()[-1].endswith("figures DIFFER.")


def test_json_says_the_same(result: Path) -> None:
    change_metric(result)
    done = CliRunner().invoke(app, ["audit", "--json", str(result)])
    assert done.exit_code == 1
    said = json.loads(done.output)
    assert said["agrees"] is False
    assert [d for file in said["files"] for d in file["differences"]] == [
        {"figure": "delivered", "said": "99", "recomputed": str(audit_value(result, "delivered"))}
    ]


def audit_value(result: Path, figure: str) -> str:
    return next(d.recomputed for s in audit(result).sheets for d in s.differences if d.figure == figure)
