"""Reports, comparisons and service levels say what the results hold, and no more."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from ivsim import cli
from ivsim.study import compare, pilot, service_levels
from ivsim.study.report import machine_section, results, write_report
from schemas.errors import Refusal

Make = Callable[..., Any]


def flat(_cell: Any) -> float:
    return 100.0


def by_mode(cell: Any) -> float:
    return 100.0 if cell.options.protocol == "mqtt" else 130.0


def test_the_report_has_question_answer_tables_figures_machine_and_caveats(made_store: Make, tmp_path: Path):
    store, _ = made_store("a", by_mode)
    path = write_report(store, tmp_path / "out")
    text = path.read_text()
    for words in (
        "# Made up",
        "Which is faster?",
        " ms less for MQTT QoS 0, loss ",
        "## Results",
        "## Figures",
    ):
        assert words in text
    for words in ("## Machine and versions", "## Caveats", "Emission lag"):
        assert words in text
    pictures = list(path.parent.glob("*.svg"))
    assert pictures
    assert all(picture.stat().st_size < 200_000 and picture.name in text for picture in pictures)
    assert str(tmp_path) not in text


@pytest.mark.parametrize(("returned", "said"), [(True, True), (False, False), (None, False)])
def test_a_machine_whose_first_writes_are_slow_is_named(made_store: Make, returned: bool | None, said: bool):
    store, _ = made_store("a", by_mode)
    store.head["host"]["memory"]["free_pages_returned"] = returned
    assert ("free memory goes back to the host" in machine_section(store)) == said
    del store.head["host"]  # of results of an ivsim that did not look
    assert "free memory" not in machine_section(store)


def test_pictures_of_the_report_before_are_gone_and_all_other_files_stay(made_store: Make, tmp_path: Path):
    store, _ = made_store("a", by_mode)
    for name in ("before.svg", "somebody-elses.svg"):
        (tmp_path / name).write_text("<svg/>")
    (tmp_path / "report.md").write_text("![Before](before.svg)\n![](../elsewhere.svg)\n")
    write_report(store, tmp_path)
    names = {picture.name for picture in tmp_path.glob("*.svg")}
    assert "before.svg" not in names
    assert "somebody-elses.svg" in names
    assert len(names) > 1


def test_the_page_is_one_file_that_asks_for_nothing(made_store: Make, tmp_path: Path):
    store, _ = made_store("a", by_mode)
    text = (write_report(store, tmp_path / "out").parent / "report.html").read_text()
    ET.fromstring(text.partition("<figure>")[2].partition("</figure>")[0])
    for word in ("src=", "<script", "<link", "@import"):
        assert word not in text
    # One of many metrics is wider than a page: it scrolls, and the page does not.
    assert text.count("<table>") == text.count('<div class="wide"><table>') > 0


def test_an_interval_is_of_the_vehicles_within_repetitions(made_store: Make):
    store, _ = made_store("a", by_mode)
    found = results(store)
    interval = found[0].interval("latency_mean_ms")
    assert (interval.n, interval.unit, interval.units, interval.repetitions) == (150, "vehicle", 15, 3)
    assert interval.estimate == pytest.approx(100.0, abs=3.0)
    assert interval.low < interval.estimate < interval.high
    # 40 + 20 + 14 bytes each way, and the payloads are none of it.
    assert found[0].interval("crossing_overhead_bytes").estimate == pytest.approx(74.0)


def test_a_result_compared_with_itself_differs_in_nothing(made_store: Make):
    store, _ = made_store("a", flat)
    found = compare.compare((store, results(store)), (store, results(store)))
    rows = found.rows
    assert len(rows) == 12
    assert found.notes == ["seed 1 in both: each vehicle is compared with itself"]
    assert not any(row.more_than_noise for row in rows)


def test_a_difference_is_told_from_noise(made_store: Make):
    first, _ = made_store("a", flat)
    second, _ = made_store("b", by_mode)
    rows = compare.compare((first, results(first)), (second, results(second))).rows
    changed = {row.cell for row in rows if row.more_than_noise}
    assert changed == {"mode=coap-non_loss=0.0", "mode=coap-non_loss=0.25"}
    assert {row.metric for row in rows if row.more_than_noise} == {"latency_mean_ms"}
    assert "yes" in compare.as_table_row(next(row for row in rows if row.more_than_noise))


def test_results_without_a_common_cell_are_refused(made_store: Make):
    first, _ = made_store("a", flat)
    second, _ = made_store("b", flat, axes={"mode": ["mqtt qos2"]})
    with pytest.raises(Refusal, match="no cell is in both"):
        compare.compare((first, results(first)), (second, results(second)))


def test_service_levels_become_verdicts_and_junit(made_store: Make):
    store, cells = made_store("a", by_mode, service_levels={"latency_mean_ms": "< 115"})
    store.fail(store.all_kept(cells)[0].task, "the link broke")
    found = results(store)
    judged = service_levels.judge(store.study, found)
    assert [one.verdict for one in judged] == ["not met", "met", "not met", "not met"]
    assert judged[0].problem == "failed: the link broke"
    assert "latency_mean_ms is 13" in (judged[2].problem or "")
    suite = ET.fromstring(service_levels.junit("a", found, judged))
    assert (suite.get("tests"), suite.get("errors"), suite.get("failures")) == ("8", "1", "3")
    assert suite.find(".//error").get("message") == "the link broke"


def test_cells_that_failed_or_never_ran_are_named(made_store: Make, tmp_path: Path):
    store, cells = made_store("a", by_mode)
    kept = store.all_kept(cells)
    store.fail(kept[0].task, "the link broke")
    for one in kept[3:6]:
        (one.directory / "state.json").unlink()
    text = write_report(store, tmp_path / "out").read_text()
    assert f"Cell {kept[0].task.cell.name} failed: the link broke" in text
    assert f"1 cells have not been run: {kept[3].task.cell.name}" in text


def other(made_store: Make, name: str, mean: Callable[[Any], float], **fields: Any) -> Any:
    store, _ = made_store(name, mean, **fields)
    return store, results(store)


def test_what_differs_beside_the_figures_is_said(made_store: Make):
    first = other(made_store, "a", flat)
    second = other(made_store, "b", flat, seed=2)
    second[0].head["versions"]["scipy"] = "0.1"
    second[0].head["machine"] = second[0].head["machine"] | {"kernel": "9.9"}
    second[0].head["host"] = second[0].head["host"] | {"memory": {"free_pages_returned": "another"}}
    notes = "\n".join(compare.compare(first, second).notes)
    assert "host differ: memory" in notes
    assert "seeds differ (1 and 2)" in notes
    assert "versions differ: scipy" in notes
    assert "machine differ: kernel" in notes
    del second[0].head["host"]  # of an ivsim that did not look
    assert "host differ" not in "\n".join(compare.compare(first, second).notes)
    scenario = other(made_store, "c", flat, scenario={"vehicles": 4, "interval_s": 10.0, "duration_s": 100.0})
    assert "the studies differ: scenario" in "\n".join(compare.compare(first, scenario).notes)


def test_below_three_repetitions_nothing_is_more_than_noise(made_store: Make):
    first = other(made_store, "a", flat, repetitions=2)
    second = other(made_store, "b", lambda _cell: 500.0, repetitions=2)
    found = compare.compare(first, second)
    assert {row.verdict for row in found.rows} == {"too few repetitions"}
    assert any("below 3 there is no verdict" in note for note in found.notes)


def test_what_is_sure_and_of_no_interest_is_too_small(made_store: Make):
    first = other(made_store, "a", flat)
    second = other(made_store, "b", lambda _cell: 103.0, seed=1)

    def verdicts(relevant: float) -> set[str]:
        rows = compare.compare(first, second, relevant).rows
        return {row.verdict for row in rows if row.metric == "latency_mean_ms"}

    assert verdicts(0.05) == {"too small"}
    assert verdicts(0.01) == {"yes"}


def test_a_cell_that_says_itself_that_it_is_invalid_is_not_compared(made_store: Make):
    first, second = other(made_store, "a", flat), other(made_store, "b", by_mode)
    for result in second[1][2:]:
        for one in result.done:
            one.figures["validity"] = {"verdict": "invalid", "causes": []}
    found = compare.compare(first, second)
    assert [row.verdict for row in found.rows[6:]] == ["invalid"] * 6
    assert any("is invalid: none of its repetitions compared" in note for note in found.notes)


@pytest.mark.parametrize(
    ("level", "verdict"), [("< 130", "met"), ("< 80", "not met"), ("> 80", "met"), ("< 100", "undecided")]
)
def test_a_level_is_judged_by_the_whole_interval(made_store: Make, level: str, verdict: str):
    store, found = other(made_store, "a", flat, service_levels={"latency_mean_ms": level})
    assert {one.verdict for one in service_levels.judge(store.study, found)} == {verdict}
    suite = ET.fromstring(service_levels.junit("a", found, service_levels.judge(store.study, found)))
    assert (suite.get("failures"), suite.get("skipped")) == {
        "met": ("0", "0"), "not met": ("4", "0"), "undecided": ("0", "4")
    }[verdict]  # fmt: skip


def test_two_repetitions_leave_every_level_open(made_store: Make):
    store, found = other(made_store, "a", flat, service_levels={"latency_mean_ms": "< 1000"}, repetitions=2)
    judged = service_levels.judge(store.study, found)
    assert {one.verdict for one in judged} == {"undecided"}
    assert "too few repetitions: 2 of at least 3" in (judged[0].problem or "")


def test_the_report_says_what_its_intervals_stand_on(made_store: Make, tmp_path: Path):
    store, _ = made_store("a", flat, service_levels={"latency_mean_ms": "< 1000"})
    text = write_report(store, tmp_path / "out").read_text()
    part = text.partition("## What the intervals stand on")[2].partition("\n## ")[0]
    assert "| latency_mean_ms | vehicle | 3 | 15 | 150 |" in part
    assert "design effect" in part
    assert "The unit of the intervals is the vehicle within its repetition" in text
    assert "By the 95 % interval: met when all of it keeps the level" in text
    assert "seed 1; of the repetitions, drawn from it: " in text


def test_a_plan_needs_fewer_repetitions_for_a_wider_interval(made_store: Make, tmp_path: Path):
    store, found = other(made_store, "a", flat)
    wide, narrow = (pilot.plan(store, found, pilot.width_of(text)) for text in ("20%", "1%"))
    assert {row.repetitions for row in wide.rows} == {3}
    assert all(row.repetitions > 3 for row in narrow.rows)
    assert "repetitions = 3 reaches it in 4 of 4 cells" in wide.answer
    half = pilot.plan(store, found, pilot.width_of("2"), "latency_mean_ms")
    tenth = pilot.plan(store, found, pilot.width_of("0.2"), "latency_mean_ms")
    # A tenth of the width takes about a hundred times as many.
    for a, b in zip(half.rows, tenth.rows, strict=True):
        assert b.repetitions is None or b.repetitions > 20 * a.repetitions


def test_a_plan_holds_when_the_study_is_run_with_it(made_store: Make):
    store, found = other(made_store, "a", flat)
    wanted = pilot.width_of("2.5")
    repetitions = max(row.repetitions for row in pilot.plan(store, found, wanted).rows)
    _, run = other(made_store, "b", flat, repetitions=repetitions)
    widths = [i.high - i.low for r in run if (i := r.interval("latency_mean_ms")).low is not None]
    assert np.median(widths) <= 2.5 * 1.2


def test_a_plan_without_a_pilot_says_that_it_needs_one(
    made_store: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Refusal, match=r"needs a pilot's results.*ivsim study run qos-price"):
        pilot.where("qos-price", None)
    store, found = other(made_store, "a", flat, repetitions=1)
    assert pilot.where(str(store.path), None) == store.path
    planned = pilot.plan(store, found, pilot.width_of("5%"))
    assert "what differs from one to the next is not in it" in planned.notes[0]
    for text in ("0", "-1", "x", "nan", "0%"):
        with pytest.raises(Refusal, match="--width"):
            pilot.width_of(text)
    with pytest.raises(Refusal, match="--metric nonsense"):
        pilot.plan(store, found, pilot.width_of("5%"), "nonsense")


def test_a_comparison_fits_80_columns_and_says_each_cells_whole_name(
    made_store: Make, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    first, cells = made_store("first", lambda _: 10.0)
    second, _ = made_store("second", lambda _: 11.0)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(sys, "argv", ["ivsim", "study", "compare", str(first.path), str(second.path)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("mode=")] == [cell.name for cell in cells]
    assert max(len(line) for line in lines if not line.endswith(("first", "second"))) <= 80
