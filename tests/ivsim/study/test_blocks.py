"""A study goes on, block by block, until the intervals of its headline's differences are narrow; never by a verdict."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import toy_study

from ivsim import Refusal, StudyStopped, load_study, resume_study, run_study
from ivsim.study import blocks
from ivsim.study.engines import ENGINES
from ivsim.study.engines.base import Outcome
from ivsim.study.execution import seconds_left
from ivsim.study.store import Store


class Scales(toy_study.Toy):
    """Weighs with an error that depends on the block."""

    error = staticmethod(lambda block, heavy: 0.0)

    def measure(self, session, results, tick):
        for one in super().measure(session, results, tick):
            word = one.task.cell.options[0]
            weight = 100.0 * len(word) + self.error(one.task.repetition, word != "a")
            yield Outcome(one.task, {"weight_g": weight})


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setitem(ENGINES, "toy", f"{__name__}:Scales")
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "words" / "study.toml"
    path.parent.mkdir()
    path.write_text(toy_study.STUDY)
    return path


def erring(monkeypatch: pytest.MonkeyPatch, error: Callable[[int, bool], float]) -> None:
    monkeypatch.setattr(Scales, "error", staticmethod(error))


def alternating(block: int, heavy: bool) -> float:
    return 10.0 * (-1) ** block if heavy else 0.0


def head(directory: Path) -> dict:
    return json.loads((directory / "study.json").read_text())


def test_narrow_intervals_end_a_study_after_four_blocks(study: Path) -> None:
    found = run_study(study, until_width="1%")
    assert found.finished
    assert [len(cell.done) for cell in found.cells] == [4, 4]
    assert found.study.repetitions == 4
    until = head(found.directory)["until"]
    assert (until["width"], until["blocks"], until["reached"]) == ("1%", 4, True)
    assert until["widest"] == {"metric": "weight_g", "width": 0.0}
    said = "stopped after 4 blocks: every headline interval is at most 1.00 % wide (widest 0 %, weight_g)"
    assert said in (found.directory / "report.md").read_text()
    store = Store.open(found.directory)
    assert seconds_left(store, store.cells()) == 0


def test_wide_ones_ask_for_a_block_more_each(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors of 10 g by turns: Student's t has 37 g at four blocks, 27 at five, and 23 at six."""
    erring(monkeypatch, alternating)
    found = run_study(study, until_width="24")
    assert found.study.repetitions == 6
    assert {cell.interval("weight_g").repetitions for cell in found.cells} == {6}
    text = (found.directory / "report.md").read_text()
    assert (
        "stopped after 6 blocks: every headline interval is at most 24.0 wide in its metric's unit (widest 23.0 g, weight_g)"
        in text
    )
    # What is measured in vain is not there.
    assert not list(found.directory.glob("cells/*/7"))


def test_a_clear_difference_does_not_end_it(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """200 g are more than noise from the first look on; the width alone decides, and twelve blocks are the most."""
    erring(monkeypatch, alternating)
    found = run_study(study, until_width="1%")
    assert found.finished
    assert [len(cell.done) for cell in found.cells] == [12, 12]
    text = (found.directory / "report.md").read_text()
    assert (
        "wanted is every headline interval at most 1.00 % wide; 12 blocks did not reach it: widest 13" in text
    )


@pytest.mark.parametrize("sessions", [5, 8])
def test_a_study_that_was_stopped_goes_on_by_the_same_rule(
    study: Path, monkeypatch: pytest.MonkeyPatch, sessions: int
) -> None:
    """Within the third block, and at the end of the fourth."""
    erring(monkeypatch, alternating)
    whole, left = toy_study.Toy.measure, [sessions]

    def measure(self, session, results, tick):
        yield from whole(self, session, results, tick)
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as killed:
        killed.setattr(toy_study.Toy, "measure", measure)
        with pytest.raises(StudyStopped) as stopped:
            run_study(study, until_width="24")
    found = load_study(stopped.value.results.directory)
    assert not found.finished
    found.write_report()
    assert (
        "blocks until every headline interval is at most 24.0 wide"
        in (found.directory / "report.md").read_text()
    )
    again = resume_study(found.directory)
    assert again.finished
    assert again.study.repetitions == 6
    # A study that has ended does not go on.
    before = head(found.directory)["until"]
    assert resume_study(found.directory).study.repetitions == 6
    assert head(found.directory)["until"] == before


def test_a_difference_without_an_interval_is_wider_than_any(study: Path) -> None:
    found = run_study(study, until_width="1%")
    rule = blocks.width_of("1%")
    cells = [cell for cell in found.cells if setattr(cell, "kept", cell.kept[:1]) is None]
    assert blocks.widest(found.study, cells, rule) == blocks.Widest("weight_g", None)
    assert blocks.widest(found.study, [], rule) == blocks.Widest("weight_g", None)


@pytest.mark.parametrize(
    ("change", "asked", "says"),
    [
        (("", ""), {"until_width": "narrow"}, "--until-width narrow: a number above 0"),
        (("", ""), {"until_width": "-5%"}, "--until-width -5%: a number above 0"),
        (("", ""), {"until_width": "5%", "quick": True}, "no effect with --quick"),
        (('["a", "abc"]', '["a"]'), {"until_width": "5%"}, "study.toml: headline: compares no two cells"),
    ],
)
def test_what_cannot_be_a_rule_is_refused(study: Path, change, asked, says: str) -> None:
    study.write_text(toy_study.STUDY.replace(*change))
    with pytest.raises(Refusal, match=says):
        run_study(study, **asked)
    assert not Path("results").exists()


def test_a_sweep_of_fewer_repetitions_has_no_more_than_the_blocks(study: Path) -> None:
    study.write_text(
        toy_study.STUDY.replace("[axes]", "[sweeps.some.axes]").replace("repetitions = 2", "repetitions = 9")
        + "[sweeps.other]\nrepetitions = 6\n[sweeps.other.axes]\nword = ['b']\n"
    )
    found = run_study(study, until_width="1%")
    assert Store.open(found.directory).study.repetitions == 4
    assert [len(cell.done) for cell in found.cells] == [4, 4, 4]
