"""`ivsim compare --html`: one page that opens offline, in which both runs' times and figures stand."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Request, sync_playwright

from ivsim import cli
from ivsim.library.compare import compare_runs
from ivsim.library.compare_page import comparison_page
from ivsim.library.results import load_results
from ivsim.report.charts import MAX_STEPS, distributions
from ivsim.runs.checksums import write_checksums
from ivsim.runs.directory import RunDirectory
from tests.ivsim.audit.made_up_result import made_up_result

VEHICLES = 12
EVIL = "<script>alert('a & b')</script>"


def made_up_run(
    path: Path,
    median_ms: float,
    messages: int = 1_200,
    options: dict[str, Any] | None = None,
    **manifest: Any,
) -> Path:
    """A made-up result whose messages took about so long from when they were due to their twins."""
    made_up_result(path)
    found = json.loads((path / "manifest.json").read_text())
    found |= manifest
    found["options"] |= {"topology": "gateway", "vehicles": VEHICLES, **(options or {})}
    (path / "manifest.json").write_text(json.dumps(found))
    random = np.random.default_rng(round(median_ms))
    took_ns = np.round(median_ms * 1e6 * random.lognormal(0, 0.4, messages)).astype(np.int64)
    lost = np.arange(messages) % 50 == 0
    ledger = {
        "vehicle_id": pa.array([f"YV2RT40A8KB{k % VEHICLES + 1:06}" for k in range(messages)]),
        "in_window": pa.array([True] * messages),
        "fate": pa.array(np.where(lost, "lost", "delivered")),
        "due_at_ns": pa.array(np.arange(messages) * 10_000_000),
        "end_to_end_latency_ns": pa.array(took_ns, mask=lost),
        "one_way_delay_ns": pa.array(took_ns // 3, mask=lost),
    }
    pq.write_table(pa.table(ledger), path / "ledger.parquet")
    metrics = json.loads((path / "metrics.json").read_text())
    for name, times in (("end_to_end_latency", took_ns[~lost]), ("one_way_delay", took_ns[~lost] // 3)):
        for quantile, share in (("p50", 0.5), ("p99", 0.99)):
            metrics[f"{name}_{quantile}_ms"] = float(np.quantile(times, share, method="inverted_cdf")) / 1e6
    metrics |= {"due": messages, "delivered": int((~lost).sum()), "delivery_ratio": float((~lost).mean())}
    (path / "metrics.json").write_text(json.dumps(metrics))
    write_checksums(RunDirectory(path))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs that differ in seed, versions, machine and how long their messages took."""
    path = tmp_path_factory.mktemp("compare")
    made_up_run(path / "slow", 300, versions={"ivsim": "0.1"}, machine={"cpu": "A"})
    made_up_run(
        path / "fast",
        200,
        seed=7,
        versions={"ivsim": EVIL},
        machine={"cpu": "B"},
        options={"seed": 7, "name": "fast", "tags": ["road=tunnel"]},
    )
    return path


def page(folder: Path, one: str, two: str) -> str:
    first, second = load_results(folder / one), load_results(folder / two)
    return comparison_page(first, second, compare_runs(first, second))


def said(
    arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[Any, str, str]:
    monkeypatch.setattr(sys, "argv", ["ivsim", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code, *capsys.readouterr()


def test_what_weakens_the_comparison_stands_above_everything(folder: Path) -> None:
    text = page(folder, "slow", "fast")
    warned = re.findall(r'<p class="warn" role="alert">(.*?)</p>', text)
    assert [line.partition(":")[0] for line in warned] == [
        "seeds differ (3 and 7)",
        "versions differ",
        "machines differ",
    ]
    assert text.index("machines differ") < text.index("<table")
    assert "<script" not in text
    assert "name fast, tag road=tunnel" in text
    assert 'class="warn"' not in page(folder, "slow", "slow")


def test_each_figure_has_unit_n_effect_and_interval(folder: Path) -> None:
    text = page(folder, "slow", "fast")
    (row,) = re.findall(r"<tr><td>end_to_end_latency_p50_ms</td>.*?</tr>", text)
    cells = [re.sub(r"<[^>]+>", " ", cell).split() for cell in re.findall(r"<td[^>]*>(.*?)</td>", row)]
    assert cells[1] == ["ms"]
    assert cells[3] == cells[5] == ["1,176"]
    first, second, effect = (float(cells[column][0]) for column in (2, 4, 6))
    assert effect == pytest.approx(second - first, abs=0.11)
    low, high = float(cells[6][1]), float(cells[6][3])
    assert low < effect < high < 0
    assert cells[7] == [f"{100 * effect / first:+.1f}", "%"]


def test_a_run_against_itself_has_no_effect(folder: Path) -> None:
    figures = page(folder, "slow", "slow").partition('class="figures"')[2]
    rows = re.findall(r"<tr><td>\w+</td>.*?</tr>", figures)
    assert rows
    for row in rows:
        effect = re.sub(r"<br>.*", "", re.findall(r"<td[^>]*>(.*?)</td>", row)[6])
        assert effect in {"0", "0.0000"}, row


def test_the_command_writes_it_and_says_where(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "compare.html"
    arguments = ["compare", str(folder / "slow"), str(folder / "fast"), "--html", str(path)]
    code, out, _ = said(arguments, monkeypatch, capsys)
    assert code == 0
    assert out.endswith(f"\npage: {path}\n")
    first = path.read_bytes()
    assert len(first) < 500_000
    code, out, _ = said([*arguments, "--json"], monkeypatch, capsys)
    assert json.loads(out)["figures"]
    assert path.read_bytes() == first, "the same runs give the same page"


@pytest.mark.parametrize(
    ("page_path", "says"),
    [
        ("/proc/x.html", "--html /proc/x.html: No such file"),
        (".", "--html .: Is a directory"),
        ("slow/report.html", "--html slow/report.html: lies in slow, whose files are its own"),
        ("fast/logs/../new.html", "lies in fast"),
    ],
)
def test_a_page_that_cannot_be_is_refused(
    page_path: str,
    says: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    code, out, err = said(["compare", "slow", "fast", "--html", page_path], monkeypatch, capsys)
    assert (code, out) == (2, "")
    assert says in err
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_many_messages_make_no_larger_figure_and_none_makes_none_fail() -> None:
    values = np.random.default_rng(1).lognormal(5, 1, 50_000)
    drawn = distributions("time", [("first", values), ("second", np.empty(0))]).svg()
    assert len(drawn) < 40 * 3 * MAX_STEPS
    assert "<svg" in distributions("time", [("first", np.array([3.0])), ("second", np.array([0.0]))]).svg()


def test_a_run_without_a_ledger_is_compared_by_its_figures(tmp_path: Path) -> None:
    for name in ("one", "two"):
        made_up_run(tmp_path / name, 100)
    (tmp_path / "two" / "ledger.parquet").unlink()
    first, second = load_results(tmp_path / "one"), load_results(tmp_path / "two")
    text = comparison_page(first, second, compare_runs(first, second))
    assert "end_to_end_latency_p50_ms" in text
    assert text.count("<figure>") == 2


@pytest.mark.browser
def test_a_browser_shows_it_without_the_network(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "compare.html"
    path.write_text(page(folder, "slow", "fast"))
    asked: list[str] = []

    def note(request: Request) -> None:
        asked.append(request.url)

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        try:
            shown = browser.new_page(viewport={"width": 1200, "height": 900})
            errors: list[str] = []
            shown.on("request", note)
            shown.on("pageerror", lambda error: errors.append(str(error)))
            shown.goto(path.as_uri())
            assert shown.locator("figure svg").count() == 2
            table = shown.locator("table.figures").bounding_box()
            body = shown.locator("body").bounding_box()
            assert table is not None
            assert body is not None
            assert table["x"] + table["width"] <= body["x"] + body["width"], "the whole table is seen"
        finally:
            browser.close()
    assert asked == [path.as_uri()]
    assert errors == []
