"""What earlier runs say of how long the phases of this one take; and that no file of times can break a run."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from ivsim.option_rules import run_options
from ivsim.runs import phase_times
from ivsim.runs.display import Display
from ivsim.runs.phase_times import PHASES, PhaseTimes, phase_of

OPTIONS = run_options(vehicles=10, duration_s=15.0)
TOOK_S = {
    "starting Kafka": 6.0,
    "starting Spark, and the link": 4.0,
    "waiting for Spark": 9.0,
    "connecting": 1.0,
    "running": 15.0,
    "draining": 3.0,
    "accounting for every message": 8.0,
    "writing the report": 2.0,
}


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(phase_times.time, "monotonic", found.monotonic)
    return found


def a_run(path: Path, clock: Clock, **longer_s: float) -> PhaseTimes:
    times = PhaseTimes(OPTIONS, path)
    for phase, took_s in TOOK_S.items():
        times.begin("connecting 10 vehicles" if phase == "connecting" else phase)
        clock.now_s += took_s + longer_s.get(phase.split()[0], 0.0)
    times.keep()
    return times


def test_nothing_is_said_before_a_run_of_its_like_has_ended(tmp_path: Path, clock: Clock) -> None:
    times = PhaseTimes(OPTIONS, tmp_path / "times.json")
    times.begin("starting Kafka")
    assert (times.usual_s("starting Kafka"), times.left_s(), times.left_s(3.0)) == (None, None, None)


def test_the_time_left_is_of_all_that_follows(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "cache" / "times.json"
    a_run(path, clock)
    times = PhaseTimes(OPTIONS, path)
    assert times.left_s() is None  # it has not begun
    times.begin("starting Kafka")
    assert times.usual_s("starting Kafka") == 6.0
    assert times.left_s() == 48.0
    clock.now_s += 2.0
    assert times.left_s() == 46.0
    clock.now_s += 20.0
    assert times.left_s() == 42.0  # it takes longer than usual: what follows is left, at least
    times.begin("connecting 10 vehicles")
    assert times.left_s() == 1.0 + 15.0 + 13.0
    times.begin("running")
    assert times.usual_s("running") is None
    clock.now_s += 5.0
    assert times.left_s(10.0) == times.left_s() == 10.0 + 13.0
    times.begin("draining")
    assert times.left_s(30.0) == 13.0
    assert times.left_s(1.0) == 11.0
    times.begin("accounting for every message")
    times.begin("accounting for every message: reading")
    clock.now_s += 9.0
    assert times.left_s() == 2.0


def test_what_usually_is_so_is_the_median_of_the_last_runs_of_its_like(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "times.json"
    for longer_s in (0.0, 1.0, 50.0):
        a_run(path, clock, draining=longer_s)
    assert PhaseTimes(OPTIONS, path).usual_s("draining") == 4.0
    for _ in range(20):
        a_run(path, clock)
    assert PhaseTimes(OPTIONS, path).usual_s("draining") == 3.0
    assert all(len(times) <= 9 for kind in json.loads(path.read_text()).values() for times in kind.values())
    larger = run_options(vehicles=1_000, duration_s=15.0)
    assert PhaseTimes(larger, path).usual_s("draining") is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda deeper: (
            st.lists(deeper)
            | st.dictionaries(st.sampled_from([*PHASES, "gateway/plain/False/True/10^2"]), deeper)
        ),
    )
)
def test_no_file_of_times_can_break_a_run(tmp_path_factory: pytest.TempPathFactory, content: object) -> None:
    path = tmp_path_factory.mktemp("times") / "times.json"
    path.write_text(json.dumps(content))
    times = PhaseTimes(OPTIONS, path)
    times.begin("draining")
    assert times.left_s() is None or times.left_s() >= 0.0
    times.keep()
    assert PhaseTimes(OPTIONS, path).usual_s("draining") is not None


def test_a_folder_that_cannot_be_written_is_as_good_as_none(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "file").write_text("")
    a_run(tmp_path / "file" / "times.json", clock)
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_every_word_of_a_run_is_of_a_phase() -> None:
    """The words are said in four modules; one that is spelt anew would lose its times."""
    root = Path(phase_times.__file__).parent
    said = {
        line.split("phase(")[1].split('"')[1]
        for name in ("components.py", "runner.py", "accounting.py")
        for line in (root / name).read_text().splitlines()
        if "phase(" in line and '"' in line
    }
    assert {phase_of(words) for words in said} == set(PHASES)


def test_a_terminal_says_what_is_usual_and_what_is_left(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "times.json"
    a_run(path, clock)
    out = io.StringIO()
    with Display(
        quiet=False, console=Console(file=out, width=80), times=PhaseTimes(OPTIONS, path)
    ) as display:
        display.phase("starting Kafka")
        display.phase("running")
        display.progress(0.1, 14.0, {"emitted": 3})
        drawn = io.StringIO()
        Console(file=drawn, width=80).print(display)
        display.phase("writing the report")
        display.ended()
    assert out.getvalue().splitlines() == [
        "starting Kafka (usually 6 s, about 48 s left)",
        "running (about 28 s left)",
        " 10%, about 27 s left: emitted 3",
        "writing the report (usually 2 s, about 2 s left)",
    ]
    assert "about 27 s left" in drawn.getvalue()
