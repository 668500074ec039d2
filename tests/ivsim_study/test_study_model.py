"""A study is refused as a whole, with the key and what is allowed, before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from ivsim.study.catalogue import studies, study_named
from ivsim.study.model import cells_of, holds, read_study
from schemas.errors import Refusal

GOOD = """
title = "t"
question = "q"
metrics = ["latency_mean_ms"]
[scenario]
topology = "echo"
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


def test_parts_have_axes_and_a_scenario_of_their_own(tmp_path: Path):
    text = """
title = "t"
question = "q"
metrics = ["latency_mean_ms"]
[scenario]
topology = "echo"
vehicles = 7
[quick]
vehicles = 2
[parts.one.axes]
mode = ["mqtt qos0"]
[parts.two.axes]
mode = ["mqtt qos0"]
[parts.two.scenario]
vehicles = 3
"""
    study = read_study(written(tmp_path, text))
    assert [(c.name, c.options.vehicles) for c in cells_of(study, "here")] == [
        ("one_mode=mqtt-qos0", 7),
        ("two_mode=mqtt-qos0", 3),
    ]
    assert [c.options.vehicles for c in cells_of(study, "here", quick=True)] == [2, 3]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[axes]", "repetition = 3\n[axes]", "repetition 3: extra inputs"),
        ('title = "t"', 'titel = "t"', "titel"),
        ("loss = [0.0, 0.1]", "losses = [0.0]", "losses: no such axis; axes are mode"),
        ("loss = [0.0, 0.1]", "loss = []", "loss: a list of different values"),
        ("loss = [0.0, 0.1]", "loss = [0.1, 0.1]", "loss: a list of different values"),
        ("loss = [0.0, 0.1]", "loss = [2.0]", "--loss"),
        ("mqtt qos0", "mqtt qos7", "axes.mode 'mqtt qos7': allowed are mqtt qos0"),
        ("latency_mean_ms", "latency", "ivsim study metrics"),
        (
            'question = "q"',
            'question = "q"\nservice_levels = {latency_mean_ms = "250"}',
            "write a comparison",
        ),
        ('question = "q"', 'question = "q"\nentry = "os:remove"', "one alone"),
        ('topology = "echo"', 'topology = "echo"\nearly_ack = true', "needs --topology gateway"),
        ('topology = "echo"', 'topology = "gateway"\nmessage_bytes = 100', "needs --topology echo"),
        ("[scenario]", "[scenario", "study.toml"),
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


def test_a_missing_file_and_an_unknown_name_are_refused(tmp_path: Path):
    with pytest.raises(Refusal, match="No such file"):
        read_study(tmp_path / "none.toml")
    with pytest.raises(Refusal, match="neither a study"):
        study_named("no-such-study")


@pytest.mark.parametrize("name", studies())
def test_every_study_that_comes_with_the_project_is_sound(name: str):
    study, path = study_named(name)
    if study.entry is None:
        assert cells_of(study, str(path))
        assert cells_of(study, str(path), quick=True)


def test_a_service_level_holds_or_not():
    assert holds("< 250", 249.9)
    assert not holds("< 250", 250.0)
    assert holds(">= 0.99", 0.99)
    assert not holds("< 250", None)
