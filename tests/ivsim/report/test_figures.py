"""The figures of a run's page: the same whoever draws them, and drawn beside other work."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ivsim.report import figures as module
from ivsim.report.figures import PARTS, FiguresAside, all_drawn, drawn, figures_apart
from ivsim.report.page import write_page
from ivsim.report.run_tables import columns_of
from schemas.errors import Refusal
from tests.ivsim.audit.made_up_result import made_up_result


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return made_up_result(tmp_path / "run")


def plain(figures: object) -> object:
    return json.loads(json.dumps(figures))


def test_a_process_of_its_own_draws_the_same(run: Path) -> None:
    with figures_apart(run) as apart:
        found = apart()
    assert list(found) == list(PARTS)
    assert plain(found) == plain(all_drawn(run))
    assert [len(found[part]) for part in PARTS] == [3, 3, 0]


def test_what_fails_in_the_process_is_said_in_the_callers(run: Path) -> None:
    (run / "link.parquet").write_bytes(b"no table")
    with figures_apart(run) as apart, pytest.raises(pa.ArrowInvalid, match="magic bytes"):
        apart()


def test_the_process_is_gone_though_nobody_has_asked(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    class Noted(subprocess.Popen[bytes]):
        def __init__(self, *arguments, **more) -> None:
            super().__init__(*arguments, **more)
            started.append(self)

    monkeypatch.setattr(module.subprocess, "Popen", Noted)
    with pytest.raises(KeyboardInterrupt), figures_apart(run):
        raise KeyboardInterrupt
    (process,) = started
    assert process.returncode is not None


def test_one_that_draws_for_ever_is_ended(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LIMIT_S", 0.01)
    with (
        pytest.raises(Refusal, match=r"its figures were not drawn within 0.01 s"),
        figures_apart(run) as apart,
    ):
        apart()


def test_a_thread_draws_each_part_when_its_tables_are_there(run: Path) -> None:
    table = run / "ledger.parquet"
    kept, written = table.read_bytes(), threading.Event()
    table.unlink()
    with FiguresAside(run) as aside:
        aside.draw("link")
        aside.draw("messages", lambda: written.wait(30))
        table.write_bytes(kept)
        written.set()
        found = aside()
    assert plain({part: found[part] for part in PARTS}) == plain(all_drawn(run))


def test_what_is_drawn_again_counts(run: Path) -> None:
    with FiguresAside(run) as aside:
        aside.draw("messages")
        aside._parts["messages"].result()
        (run / "ledger.parquet").unlink()
        aside.draw("messages")
        assert list(aside()["messages"]) == []


def test_a_page_takes_the_figures_that_it_is_given(run: Path) -> None:
    given = {part: [(f"caption of {part}", "<svg/>")] for part in PARTS}
    page = write_page(run, given).read_text()
    assert page.count("<svg/>") == 2  # nobody chose batches
    assert "caption of messages" in page
    assert "caption of link" in page


def test_fates_are_drawn_where_not_all_messages_were_delivered(run: Path) -> None:
    assert any(caption.startswith("Messages by fate") for caption, _ in drawn(run, "messages"))
    ledger = pq.read_table(run / "ledger.parquet")
    place = ledger.column_names.index("fate")
    whole = ledger.set_column(place, "fate", pa.array(["delivered"] * ledger.num_rows))
    pq.write_table(whole, run / "ledger.parquet")
    assert not any(caption.startswith("Messages by fate") for caption, _ in drawn(run, "messages"))


def test_columns_with_gaps_are_as_numpy_wants_them(tmp_path: Path) -> None:
    table = pa.table(
        {
            "count": [1, None, 3],
            "word": ["a", None, "a"],
            "share": [0.5, None, 1.0],
            "whole": [1, 2, 3],
            "none": pa.nulls(3, pa.string()),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=2)
    found = columns_of(tmp_path / "t.parquet")
    assert found["count"].dtype == found["share"].dtype == np.float64
    assert np.isnan(found["count"][1])
    assert found["word"].tolist() == ["a", None, "a"]
    assert found["word"][0] is found["word"][2]
    assert found["whole"].dtype == np.int64
    assert found["none"].tolist() == [None, None, None]
    pq.write_table(table.slice(0, 0), tmp_path / "empty.parquet")
    assert [len(values) for values in columns_of(tmp_path / "empty.parquet").values()] == [0] * 5
    assert list(columns_of(tmp_path / "t.parquet", ["word"])) == ["word"]
    assert columns_of(tmp_path / "none.parquet") == {}


def test_a_report_anew_loads_no_library_that_takes_its_time(run: Path) -> None:
    """Its charts are drawn in another process meanwhile; with matplotlib, pandas or SciPy it takes half a second to two longer."""
    program = (
        "import sys\nfrom ivsim.cli import main\n"
        f"sys.argv = ['ivsim', 'report', {str(run)!r}]\n"
        "try:\n    main()\nexcept SystemExit as ended:\n    assert not ended.code, ended.code\n"
        "print(*sorted({'matplotlib', 'pandas', 'scipy'} & sys.modules.keys()), 'loaded')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.splitlines()[-1].split() == ["loaded"], done.stdout
    assert (run / "report.html").read_text().count("<svg") == 6


def test_a_result_is_found_before_the_options_are_loaded() -> None:
    """The drawing begins then, a third of a second earlier."""
    program = "import sys, ivsim.commands.report, ivsim.library.folder\nprint('ivsim.options' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.split() == ["False"]
