"""The report of the repeated paper out of made-up results: every part is there, and its numbers are those of the results."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from study_made_up import keep_echo

from ivsim.papers.base import leave_out
from ivsim.papers.ifip2020.decisions import CPP_STUDY
from ivsim.papers.ifip2020.latency_claims import PAPER_RTT
from ivsim.papers.ifip2020.report import Ifip2020
from ivsim.runs.link_log import link_table
from ivsim.study.catalogue import study_named
from ivsim.study.cells import Cell, Task
from ivsim.study.engines.run_axes import options_of
from ivsim.study.model import Study, cells_of
from ivsim.study.store import Store
from schemas.json_files import write_json

# Each rule of its claims has a test of its own beside this file; the whole report, twice, takes half a minute.
pytestmark = pytest.mark.full

SMALL = {"vehicles": 3, "duration_s": 20.0, "warmup_s": 0.0}
LACK = "g++ missing; `make cpp` installs them"


def made(path: Path, mean: Callable[[Cell], float], ping_ms: float, *, repetitions: int = 1) -> Store:
    """Return results of the paper's main study, with a latency for each cell; no format was measured."""
    study, _ = study_named("ifip2020")
    fields = study.model_dump()
    fields["scenario"] |= SMALL
    fields["repetitions"] = repetitions
    for sweep in fields["sweeps"].values():
        sweep["repetitions"] = None
        for field in ("duration_s", "vehicles"):
            sweep["scenario"].pop(field, None)
    fields["sweeps"]["fewer"]["scenario"]["vehicles"] = 2
    study = Study.model_validate(fields)
    store = Store.create(path, "ifip2020", study, quick=False)
    for cell in cells_of(study, "here"):
        for repetition in range(1, repetitions + 1):
            keep_echo(store, Task.of(cell, repetition), mean(cell), spread_ms=0.1)
    _, session = store.begin_session()
    times = [ping_ms + k / 100 for k in range(11)]
    about = {"ping_ms": {"paper_ping": times}, "load_average": 1.0, "replay": {"applied_late_max_ms": 2.0}}
    write_json(session / "session.json", about)
    pq.write_table(link_table([], session / "none"), session / "link.parquet")
    leave_out(store, {CPP_STUDY: LACK})
    return store


def with_non(non_ms: float) -> Callable[[Cell], float]:
    def mean(cell: Cell) -> float:
        if cell.sweep == "paper_ping":
            return 5.0
        options = options_of(cell)
        whole = options.coap_block_bytes == "none"
        later = 20.0 if options.mode == "con" else 0.0
        if cell.sweep == "bbr_large":
            return 251.0
        return 217.0 if options.protocol != "coap" else later + (90.0 if whole else non_ms)

    return mean


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    found = []
    for non_ms, ping_ms in ((343.0, 2.4), (51.0, 1.1)):
        path = tmp_path_factory.mktemp("paper")
        store = made(path / "results", with_non(non_ms), ping_ms)
        found.append(Ifip2020().write_report(store, path / "report").read_text())
    return found


def test_every_part_is_there(reports: list[str]):
    for text in reports:
        heads = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
        for part in (
            *("Claims", "Evidence", "Results", "Controls", "Method", "Serialisation of CurrentStatus"),
            *(
                "CoAP's large messages: blocks of 1,024 B, or one datagram",
                "Best case",
                "Machine and versions",
            ),
        ):
            assert part in heads, part
        assert "nan" not in re.findall(r"\w+", text)
        assert (
            "2 to 3 vehicles a cell, one message each 10 s over 20 s: 6 measured messages in the middle cell"
            in text
        )
        assert "{" not in text


def test_its_numbers_are_those_of_the_results(reports: list[str]):
    first, second = reports
    assert "| coap non | 343 [" in first
    assert "| coap non | 51.0 [" in second
    assert "| delayed | ping | 11 | 2.45" in first
    assert "| delayed | ping | 11 | 1.15" in second
    for text in reports:
        assert re.search(r"\| coap non \| one datagram \| (89|90)\.\d ms, 0\.0%", text)
        assert f"waits {PAPER_RTT} ms" in text
        assert re.search(r"\| large \| amqp auto \| 21[67] ms, 0\.0% \| 25[01] ms, 0\.0% \|", text)
        assert (
            "Of 30 pairs of cells 15 differ in the mean by more than noise (by vehicle, Holm): BBR is slower in 15"
            in text
        )


def test_a_claim_says_both_settings_and_how_many_repetitions(reports: list[str]):
    rows = {row[0]: row for row in map(_cells, reports[0].splitlines()) if len(row) == 5 and row[0].isdigit()}
    assert sorted(map(int, rows)) == list(range(1, 21))
    first = rows["1"]
    assert first[2] == "**cannot tell**"
    assert first[4] == "1 of at least 3 repetitions"
    evidence = reports[0].split("### 1. ")[1].split("### 2. ")[0]
    assert "| blocks of 1,024 B | mqtt qos0 - coap non, 0%: " in evidence
    assert "| one datagram | mqtt qos0 - coap non, 0%: " in evidence
    assert "](latency-over-loss.svg)" in evidence
    assert "![](" not in reports[0], "each picture has its caption"
    for number in ("18", "19"):
        assert rows[number][2] == "**not comparable**"
        assert LACK in rows[number][3]
    assert f"Not measured: {LACK}." in reports[0]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split(" | ")]
