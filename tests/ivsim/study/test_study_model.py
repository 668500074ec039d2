"""A study is refused as a whole, with the key and what is allowed, before anything starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ivsim.study.catalogue import studies, study_named
from ivsim.study.model import cells_of, holds, read_study
from ivsim.study.plan import sessions
from schemas.errors import Refusal

GOOD = """
title = "t"
question = "q"
engine = "echo"
metrics = ["latency_mean_ms"]
[scenario]
vehicles = 7
[axes]
mode = ["mqtt qos0", "coap non"]
loss = [0.0, 0.1]
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(text)
    return path


def test_cells_are_all_combinations(tmp_path: Path):
    cells = cells_of(read_study(written(tmp_path, GOOD)), "here")
    assert [cell.name for cell in cells] == [
        "mode=mqtt-qos0_loss=0.0",
        "mode=mqtt-qos0_loss=0.1",
        "mode=coap-non_loss=0.0",
        "mode=coap-non_loss=0.1",
    ]
    assert cells[3].options.protocol == "coap"
    assert cells[3].options.loss_ratio == 0.1


def test_a_study_has_eight_repetitions_unless_it_says_otherwise(tmp_path: Path):
    assert read_study(written(tmp_path, GOOD)).repetitions == 8
    few = read_study(written(tmp_path, "repetitions = 2" + GOOD))
    assert few.repetitions == 2
    with pytest.raises(Refusal, match="repetitions: Input should be greater than"):
        read_study(written(tmp_path, "repetitions = 0" + GOOD))


@pytest.mark.parametrize("name", ["early-ack", "format-and-trace", "qos-price", "tunnel"])
def test_eight_blocks_of_a_bundled_study_take_forty_minutes_at_most(name: str):
    study, path = study_named(name)
    planned = sessions(study, cells_of(study, str(path)), study.repetitions)
    assert study.repetitions == 8
    assert sum(map(study.measured_by.seconds, planned)) <= 40 * 60


def test_a_cells_name_does_not_depend_on_the_order_of_the_axes(tmp_path: Path):
    turned = GOOD.replace(
        'mode = ["mqtt qos0", "coap non"]\nloss = [0.0, 0.1]',
        'loss = [0.0, 0.1]\nmode = ["mqtt qos0", "coap non"]',
    )
    names = {cell.name for cell in cells_of(read_study(written(tmp_path, turned)), "here")}
    assert "mode=mqtt-qos0_loss=0.0" in names


def test_what_is_left_out_is_no_cell(tmp_path: Path):
    text = 'leave_out = [{mode = "coap non", loss = 0.1}]\n' + GOOD
    assert len(cells_of(read_study(written(tmp_path, text)), "here")) == 3


def test_sweeps_have_axes_and_a_scenario_of_their_own(tmp_path: Path):
    text = """
title = "t"
question = "q"
engine = "echo"
metrics = ["latency_mean_ms"]
[scenario]
vehicles = 7
[quick]
vehicles = 2
[sweeps.one.axes]
mode = ["mqtt qos0"]
[sweeps.two.axes]
mode = ["mqtt qos0"]
[sweeps.two.scenario]
vehicles = 3
"""
    study = read_study(written(tmp_path, text))
    assert [(c.name, c.options.vehicles) for c in cells_of(study, "here")] == [
        ("one_mode=mqtt-qos0", 7),
        ("two_mode=mqtt-qos0", 3),
    ]
    assert [c.options.vehicles for c in cells_of(study, "here", quick=True)] == [2, 2]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[axes]", "repetition = 3\n[axes]", "scenario.repetition: the engine echo has no such field"),
        ('title = "t"', 'titel = "t"', "titel"),
        (
            "loss = [0.0, 0.1]",
            "losses = [0.0]",
            "axes.losses: no such axis; axes of the engine echo are mode",
        ),
        ("loss = [0.0, 0.1]", "loss = []", "loss: a list of different values"),
        ("loss = [0.0, 0.1]", "loss = [0.1, 0.1]", "loss: a list of different values"),
        ("loss = [0.0, 0.1]", "loss = [2.0]", "loss 2.0: input should be less than or equal to 1"),
        ("mqtt qos0", "mqtt qos7", "axes.mode 'mqtt qos7': allowed are mqtt qos0"),
        ("latency_mean_ms", "latency", "metrics: latency: the engine echo has no such metric"),
        (
            'question = "q"',
            'question = "q"\nservice_levels = {latency_mean_ms = "250"}',
            "write a comparison",
        ),
        ('question = "q"', 'question = "q"\nsweeps = {a = {axes = {mode = ["mqtt qos0"]}}}', "one alone"),
        ("vehicles = 7", "early_ack = true", "scenario.early_ack: the engine echo has no such field"),
        ("vehicles = 7", 'topology = "gateway"', "scenario.topology: the engine echo has no such field"),
        ('"echo"', '"ekko"', "engine 'ekko': allowed are whole_run, echo, codec"),
        ('"echo"', '"codec"', "axes.mode: no such axis; axes of the engine codec are format, record"),
        ("latency_mean_ms", "recovery_s", "the engine echo has no such metric"),
        (
            'question = "q"',
            'question = "q"\nheadline = {kind = "best"}',
            "allowed are extremes, steps, choose",
        ),
        (
            'question = "q"',
            'question = "q"\nheadline = {kind = "choose", axis = "x", metrics = ["lost"]}',
            "axis 'x'",
        ),
        (
            'question = "q"',
            'question = "q"\nheadline = {kind = "choose", axis = "mode", metrics = ["fun"]}',
            "metric 'fun'",
        ),
        (
            'question = "q"',
            'question = "q"\nheadline = {kind = "choose", axis = "mode", metrics = ["lost"], higher = ["sent"]}',
            "headline.higher: 'sent': allowed are lost",
        ),
        (
            'question = "q"',
            'question = "q"\nheadline = {kind = "choose", axis = "mode", metrics = []}',
            "headline.metrics: List should have at least 1 item",
        ),
        (
            'question = "q"',
            'question = "q"\nheadline = {kind = "choose", axis = "mode", metrics = ["lost"]}',
            "headline: metric 'lost': the tables that it is about show latency_mean_ms",
        ),
        ("[scenario]", "[scenario", "study.toml"),
        (
            'question = "q"',
            'question = "q"\nleave_out = [{mode = "coap con"}]',
            "leave_out {'mode': 'coap con'}: matches no cell",
        ),
        (
            'question = "q"',
            'question = "q"\nleave_out = [{mode = "coap non"}, {losses = 0.1}]',
            "leave_out {'losses': 0.1}: matches no cell",
        ),
    ],
)
def test_bad_input_is_refused_by_name(tmp_path: Path, old: str, new: str, words: str):
    assert old in GOOD
    path = written(tmp_path, GOOD.replace(old, new))
    with pytest.raises(Refusal) as refused:
        cells_of(read_study(path), str(path))
    assert words in str(refused.value)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


WHOLE = """
title = "t"
question = "q"
metrics = ["delivery_ratio"]
[axes]
mode = ["mqtt qos0"]
"""


@pytest.mark.parametrize(
    ("metric", "lacks", "remedy"),
    [
        ("recovery_s", "needs an outage", "[scenario]\noutage = [[2.0, 3.0]]"),
        (
            "handshakes_full",
            "needs security tls or mtls",
            '[axes]\nmode = ["mqtt qos0"]\nsecurity = ["plain", "tls"]',
        ),
        (
            "acknowledgement_time_p50_ms",
            "needs a mode that is acknowledged",
            '[axes]\nmode = ["mqtt qos0", "mqtt qos1"]',
        ),
    ],
)
@pytest.mark.parametrize("key", ["metrics", "service_levels", "sweeps.a.metrics"])
def test_a_metric_that_has_a_value_in_no_cell_is_refused(
    tmp_path: Path, metric: str, lacks: str, remedy: str, key: str
) -> None:
    def asked(text: str) -> Path:
        if key == "metrics":
            return written(tmp_path, text.replace("delivery_ratio", metric))
        if key == "service_levels":
            return written(tmp_path, text.replace('"q"', f'"q"\nservice_levels = {{{metric} = "> 0"}}'))
        return written(
            tmp_path, text.replace("[axes]", "[sweeps.a.axes]") + f'\n[sweeps.a]\nmetrics = ["{metric}"]'
        )

    with pytest.raises(Refusal, match=f"{key}: {metric}: measured in no cell: it {lacks}"):
        cells_of(read_study(asked(WHOLE)), "here")
    mended = WHOLE.partition("[axes]")[0] + remedy if remedy.startswith("[axes]") else WHOLE + remedy
    assert cells_of(read_study(asked(mended)), "here")


def test_a_missing_file_and_an_unknown_name_are_refused(tmp_path: Path):
    with pytest.raises(Refusal, match="No such file"):
        read_study(tmp_path / "none.toml")
    with pytest.raises(Refusal, match="neither a study"):
        study_named("no-such-study")


@pytest.mark.parametrize("name", studies())
def test_every_study_that_comes_with_the_project_is_sound(name: str):
    study, path = study_named(name)
    assert cells_of(study, str(path))
    assert cells_of(study, str(path), quick=True)


def test_a_service_level_holds_or_not():
    assert holds("< 250", 249.9)
    assert not holds("< 250", 250.0)
    assert holds(">= 0.99", 0.99)
    assert not holds("< 250", None)


def test_a_list_of_titles_loads_no_engine():
    """Engines bring scipy, matplotlib and pyroute2, which take seconds to load."""
    code = (
        "import sys; sys.argv = ['ivsim', 'study', 'list']\n"
        "from ivsim import cli\n"
        "try:\n    cli.main()\nexcept SystemExit as ended:\n    assert ended.code == 0\n"
        "print([name for name in ('scipy', 'pyroute2', 'matplotlib', 'numpy', 'pyspark') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *titles, loaded = ran.stdout.splitlines()
    assert [line.split()[0] for line in titles] == list(studies())
    assert loaded == "[]"


SWEEPS = """
title = "t"
question = "q"
engine = "echo"
repetitions = 4
metrics = ["latency_mean_ms"]
[scenario]
vehicles = 7
[quick]
vehicles = 3
[sweeps.few]
repetitions = 2
quick = {vehicles = 4}
[sweeps.few.scenario]
vehicles = 9
[sweeps.few.axes]
mode = ["mqtt qos0"]
[sweeps.all.axes]
mode = ["coap non"]
"""


def test_the_studys_quick_look_goes_before_the_scenario_of_a_sweep(tmp_path: Path):
    study = read_study(written(tmp_path, SWEEPS.replace("quick = {vehicles = 4}\n", "")))
    assert [cell.options.vehicles for cell in cells_of(study, "here", quick=True)] == [3, 3]


def test_a_sweep_has_repetitions_and_a_quick_look_of_its_own(tmp_path: Path):
    study = read_study(written(tmp_path, SWEEPS))
    cells = cells_of(study, "here")
    assert [(cell.options.vehicles, study.repetitions_of(cell)) for cell in cells] == [(9, 2), (7, 4)]
    assert [cell.options.vehicles for cell in cells_of(study, "here", quick=True)] == [4, 3]
    assert [study.repetitions_of(cell, quick=True) for cell in cells] == [1, 1]
    planned = [task.name for session in sessions(study, cells, 4) for task in session.tasks]
    few = [name for name in planned if name.startswith("few")]
    assert sorted(few) == ["few_mode=mqtt-qos0/1", "few_mode=mqtt-qos0/2"]
    assert len(planned) == 6


def test_a_sweep_has_no_more_repetitions_than_the_study(tmp_path: Path):
    path = written(tmp_path, SWEEPS.replace("repetitions = 2", "repetitions = 5"))
    with pytest.raises(Refusal, match=r"sweeps.few.repetitions 5: at most the study's 4"):
        read_study(path)


def cells_with(tmp_path: Path, payloads: list[str]) -> list[str]:
    said = ", ".join(f'"{one}"' for one in payloads)
    text = GOOD.replace("loss = [0.0, 0.1]", f"trace = [{said}]")
    return [cell.name for cell in cells_of(read_study(written(tmp_path, text)), "t")]


def test_cells_whose_values_no_file_can_be_named_by_have_names_of_their_own(tmp_path: Path) -> None:
    names = ["高速.csv", "市区.csv", "a b.csv", "a-b.csv", "plain.csv", f"{'long' * 60}.csv"]
    for name in names:
        (tmp_path / name).write_text(
            "time_s,uplink_kbps,downlink_kbps,rtt_ms\n0,1000,1000,50\n1,1000,1000,50\n"
        )
    traces = [str(tmp_path / name) for name in names]
    found = cells_with(tmp_path, traces)
    assert len(found) == len(set(found)) == 2 * len(names)
    assert all(len(name) < 200 for name in found)
    assert [name for name in found if name.endswith("plain.csv")], "and every other name stays"
    # A name does not depend on the order of values.
    assert set(cells_with(tmp_path, traces[::-1])) == set(found)
