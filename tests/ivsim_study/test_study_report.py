"""Reports, comparisons and service levels say what the results hold, and no more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from ivsim.study import compare, levels
from ivsim.study.report import MOST_BYTES, results, write_report
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
        "latency_mean_ms is lowest for mqtt qos0",
        "## Results",
        "## Figures",
    ):
        assert words in text
    for words in ("## Machine and versions", "## Caveats", "Emission lag"):
        assert words in text
    pictures = list(path.parent.glob("*.svg"))
    assert pictures
    assert all(picture.stat().st_size < MOST_BYTES and picture.name in text for picture in pictures)
    assert str(tmp_path) not in text


def test_the_page_is_one_file_that_asks_for_nothing(made_store: Make, tmp_path: Path):
    store, _ = made_store("a", by_mode)
    text = (write_report(store, tmp_path / "out").parent / "report.html").read_text()
    ET.fromstring(text.partition("<figure>")[2].partition("</figure>")[0])
    for word in ("src=", "<script", "<link", "@import"):
        assert word not in text


def test_an_interval_is_of_the_messages(made_store: Make):
    store, _ = made_store("a", by_mode)
    found = results(store)
    interval = found[0].interval("latency_mean_ms")
    assert interval.n == 50
    assert interval.estimate == pytest.approx(100.0, abs=3.0)
    assert interval.low < interval.estimate < interval.high
    # 40 + 20 + 14 bytes each way, and the payloads are none of it.
    assert found[0].interval("crossing_overhead_bytes").estimate == pytest.approx(74.0)


def test_a_result_compared_with_itself_differs_in_nothing(made_store: Make):
    store, _ = made_store("a", flat)
    rows = compare.compare((store, results(store)), (store, results(store)))
    assert len(rows) == 12
    assert not any(row.more_than_noise for row in rows)


def test_a_difference_is_told_from_noise(made_store: Make):
    first, _ = made_store("a", flat)
    second, _ = made_store("b", by_mode)
    rows = compare.compare((first, results(first)), (second, results(second)))
    changed = {row.cell for row in rows if row.more_than_noise}
    assert changed == {"mode=coap-non_loss=0.0", "mode=coap-non_loss=0.25"}
    assert {row.metric for row in rows if row.more_than_noise} == {"latency_mean_ms"}
    assert "yes" in compare.words(next(row for row in rows if row.more_than_noise))


def test_results_without_a_common_cell_are_refused(made_store: Make):
    first, _ = made_store("a", flat)
    second, _ = made_store("b", flat, axes={"mode": ["mqtt qos2"]})
    with pytest.raises(Refusal, match="no cell is in both"):
        compare.compare((first, results(first)), (second, results(second)))


def test_service_levels_become_verdicts_and_junit(made_store: Make):
    store, cells = made_store("a", by_mode, service_levels={"latency_mean_ms": "< 115"})
    store.fail(store.all_kept(cells)[0].task, "the link broke")
    found = results(store)
    judged = levels.judge(store.study, found)
    assert [one.problem is None for one in judged] == [False, True, False, False]
    assert judged[0].problem == "failed: the link broke"
    assert "latency_mean_ms is 13" in (judged[2].problem or "")
    suite = ET.fromstring(levels.junit("a", found, judged))
    assert (suite.get("tests"), suite.get("errors"), suite.get("failures")) == ("8", "1", "3")
    assert suite.find(".//error").get("message") == "the link broke"


def test_cells_that_failed_or_never_ran_are_named(made_store: Make, tmp_path: Path):
    store, cells = made_store("a", by_mode)
    kept = store.all_kept(cells)
    store.fail(kept[0].task, "the link broke")
    (kept[1].directory / "state.json").unlink()
    text = write_report(store, tmp_path / "out").read_text()
    assert f"Cell {kept[0].task.cell.name} failed: the link broke" in text
    assert f"1 cells have not been run: {kept[1].task.cell.name}" in text
