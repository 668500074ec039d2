"""`ivsim study compare --html`: one page that opens offline, with both results' figures and single measurements."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ivsim import cli
from ivsim.study import compare, compare_page
from ivsim.study.compare_page import comparison_page
from ivsim.study.report import results
from ivsim.study.summary import DASH

pytestmark = pytest.mark.usefixtures("blank_charts")

Make = Callable[..., tuple[Any, list[Any]]]
EVIL = "<script>alert('a & b')</script>"


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A drawing takes a third of a second."""
    monkeypatch.setattr(compare_page, "MOST_DISTRIBUTIONS", 1)


def flat(_: Any) -> float:
    return 100.0


def by_mode(cell: Any) -> float:
    return 100.0 if cell.values["mode"] == "mqtt qos0" else 140.0


def page(first: Any, second: Any) -> str:
    one, two = (first, results(first)), (second, results(second))
    return comparison_page(one, two, compare.compare(one, two))


def rows_of(text: str) -> dict[tuple[str, str], list[str]]:
    """Return the table of figures by cell and metric, markup taken out."""
    table = text.partition('<table class="figures">')[2]
    found = [
        re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)
    ]
    return {(row[0], row[1]): [re.sub(r"<[^>]+>", " ", cell).strip() for cell in row] for row in found if row}


def test_each_figure_has_unit_n_effect_interval_and_verdict(made_store: Make) -> None:
    first, second = made_store("a", flat)[0], made_store("b", by_mode)[0]
    rows = rows_of(page(first, second))
    assert len(rows) == 12
    row = rows["mode=coap-non_loss=0.0", "latency_mean_ms"]
    assert (row[2], row[4], row[6], row[9]) == ("ms", "150", "150", "yes")
    first_ms, second_ms, effect_ms = (float(row[column].split()[0]) for column in (3, 5, 7))
    assert effect_ms == pytest.approx(second_ms - first_ms, abs=1.1)
    assert 35 < effect_ms < 45
    assert row[7].count("+") == 3, "an interval, above 0"
    assert 34 < float(row[8].split()[0]) < 46
    assert rows["mode=mqtt-qos0_loss=0.0", "latency_mean_ms"][9] == "no"
    share = rows["mode=coap-non_loss=0.25", "unsuccessful_ratio"]
    assert (share[2], share[8]) == ("%", DASH)


def test_what_weakens_the_comparison_stands_above_everything(made_store: Make) -> None:
    first, second = made_store("a", flat)[0], made_store("b", flat, seed=2)[0]
    second.head["versions"]["scipy"] = EVIL
    text = page(first, second)
    warned = re.findall(r'<p class="warn" role="alert">(.*?)</p>', text)
    assert [line.partition(":")[0].partition(" (")[0] for line in warned] == [
        "seeds differ",
        "versions differ",
    ]
    assert text.index("versions differ") < text.index("<table")
    assert "<script" not in text
    same = page(first, first)
    assert page(first, first) == same, "the same results give the same page"
    assert 'class="warn"' not in same
    assert "seed 1 in both" in same


def test_every_metric_and_the_measurements_that_differ_are_drawn(
    made_store: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare_page, "MOST_DISTRIBUTIONS", 5)
    many = {"mode": ["mqtt qos0", "coap non"], "loss": [0.0, 0.01, 0.05, 0.25]}
    first, second = made_store("a", flat, axes=many)[0], made_store("b", by_mode, axes=many)[0]
    text = page(first, second)
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", text)
    assert captions[:3] == [
        f"{label}, with 95 % intervals where there are any"
        for label in ("latency mean, ms", "unsuccessful ratio, %", "crossing overhead bytes, B")
    ]
    drawn = captions[3:]
    assert len(drawn) == 5
    assert drawn[:4] == [f"mode=coap-non_loss={loss}: latency, ms" for loss in (0.0, 0.01, 0.05, 0.25)]
    assert "11 more are left out" in text
    assert text.count("<svg") == len(captions)
    assert len(text) < 2_000_000


def test_what_was_not_measured_is_a_dash_and_no_mark(made_store: Make) -> None:
    first, cells = made_store("a", flat)
    second, _ = made_store("b", flat)
    for kept in second.all_kept(cells)[:3]:
        (kept.directory / "state.json").unlink()
    rows = rows_of(page(first, second))
    row = rows[cells[0].name, "latency_mean_ms"]
    assert (row[5], row[6], row[7], row[9]) == (DASH, DASH, DASH, "not measured")


def called(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[Any, str, str]:
    monkeypatch.setattr(sys, "argv", ["ivsim", "study", "compare", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code, *capsys.readouterr()


def test_the_command_writes_it_and_says_where(
    made_store: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made_store("a", flat)
    made_store("b", by_mode)
    path = tmp_path / "compare.html"
    sides = [str(tmp_path / name) for name in "ab"]
    code, out, _ = called([*sides, "--html", str(path)], monkeypatch, capsys)
    assert code == 0
    assert out.endswith(f"\npage: {path}\n")
    assert "<h2>Figures of both</h2>" in path.read_text()
    # The same by the command for runs.
    written = path.read_bytes()
    monkeypatch.setattr(sys, "argv", ["ivsim", "compare", *sides, "--html", str(path)])
    with pytest.raises(SystemExit):
        cli.main()
    assert (capsys.readouterr().out, path.read_bytes()) == (out, written)
    before = sorted((tmp_path / "a").rglob("*"))
    code, out, err = called([*sides, "--html", str(tmp_path / "a" / "x.html")], monkeypatch, capsys)
    assert (code, out) == (2, "")
    assert "whose files are its own" in err
    assert sorted((tmp_path / "a").rglob("*")) == before
