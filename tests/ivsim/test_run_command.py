"""`ivsim run` around the run: where options come from, thresholds and their exit code, and progress for programs."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from ivsim import cli
from ivsim.option_rules import run_options
from ivsim.options import RunOptions
from ivsim.runs.display import JsonDisplay
from ivsim.runs.outcome import Outcome
from ivsim.runs.phase_times import PhaseTimes

FIGURES = {
    "end_to_end_latency_p99_ms": 600.0,
    "delivery_ratio": 1.0,
    "lost": None,
    "validity": {"verdict": "valid"},
}


class Command:
    """The command with a run that comes to `outcome` at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.outcome = Outcome(directory=Path("made-up"), metrics=dict(FIGURES))
        self.asked: list[RunOptions] = []
        self._monkeypatch, self._capsys = monkeypatch, capsys
        monkeypatch.setattr("ivsim.library.runs.outcome_of", self._run)

    def _run(self, options: RunOptions, *_: Any, **__: Any) -> Outcome:
        self.asked.append(options)
        return self.outcome

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        self._monkeypatch.setattr(sys, "argv", ["ivsim", "run", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert isinstance(ended.value.code, int)
        return ended.value.code, *self._capsys.readouterr()


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(monkeypatch, capsys)


@pytest.mark.parametrize(
    ("threshold", "code", "says"),
    [
        ("end_to_end_latency_p99_ms<500", 3, "end_to_end_latency_p99_ms<500: missed: 600 ms"),
        ("end_to_end_latency_p99_ms<700", 0, "end_to_end_latency_p99_ms<700: met: 600 ms"),
        ("lost == 0", 3, "lost == 0: not measured"),
    ],
)
def test_a_threshold_that_is_not_met_is_exit_code_3(
    command: Command, threshold: str, code: int, says: str
) -> None:
    found, out, _ = command("--threshold", "delivery_ratio == 1", "--threshold", threshold)
    assert found == code
    assert out.splitlines()[-2:] == ["delivery_ratio == 1: met: 1", says]


def test_a_typed_threshold_takes_the_place_of_the_files_on_that_figure_alone(
    command: Command, tmp_path: Path
) -> None:
    file = tmp_path / "run.toml"
    file.write_text('threshold = ["p99(end_to_end) < 500ms", "delivery_ratio == 1", "lost == 0"]')
    found, out, _ = command("--config", str(file), "--threshold", "p99(end_to_end) < 1s")
    assert found == 3
    assert out.splitlines()[-3:] == [
        "p99(end_to_end) < 1s: met: 600 ms", "delivery_ratio == 1: met: 1", "lost == 0: not measured"
    ]  # fmt: skip


@pytest.mark.parametrize("worse", [1, 4, 130])
def test_a_run_that_failed_or_is_invalid_says_so_first(command: Command, worse: int) -> None:
    command.outcome.exit_code = worse
    assert command("--threshold", "lost == 0")[0] == worse


def test_with_json_the_figures_stand_alone_on_standard_output(command: Command) -> None:
    _, out, err = command("--json", "--threshold", "lost == 0")
    assert json.loads(out) == FIGURES
    assert err == "lost == 0: not measured\n"


def test_the_verdicts_are_written_for_ci(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "verdicts.xml"
    assert (
        command("--threshold", "delivery_ratio == 1", "--threshold", "lost == 0", "--junit", str(path))[0]
        == 3
    )
    suite = ET.parse(path).getroot()[0]
    assert suite.get("name") == "made-up"
    assert [case.get("name") for case in suite] == ["validity", "delivery_ratio == 1", "lost == 0"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--threshold", "latency < 5"], "--threshold 'latency < 5': no figure latency"),
        (["--junit", "/proc/x.xml"], "--junit /proc/x.xml: No such file"),
        (["--progress", "dots"], "--progress 'dots': allowed are terminal, json"),
        (["--abort-on", "delivery_ratio < 1"], "--abort-on 'delivery_ratio < 1': no figure delivery_ratio"),
        (["--config", "/nowhere.toml"], "--config /nowhere.toml: No such file"),
        (["--config", "/"], "--config /: Is a directory"),
    ],
)
def test_what_is_refused_starts_nothing(command: Command, arguments: list[str], says: str) -> None:
    code, out, err = command(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"ivsim: {says}")
    assert err.count("\n") == 1
    assert command.asked == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--quiet"], "--progress json: not with --quiet"),
        (["--annotations", "github"], "--progress json: not with --annotations, whose lines are no JSON"),
        (["--threshold", "latency < 5"], "--threshold 'latency < 5': no figure latency"),
        (["--vehicles", "many"], "--vehicles 'many': expected a whole number"),
        (["--nothing"], "No such option: --nothing"),
        (["--testbed"], "--testbed: no testbed is up"),
    ],
)
def test_a_refusal_is_an_object_too_for_a_program(
    command: Command, arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IVSIM_STATE_DIR", str(tmp_path))
    code, out, err = command("--progress", "json", *arguments)
    assert (code, out) == (2, "")
    (refused,) = map(json.loads, err.splitlines())
    assert refused["event"] == "error"
    assert refused["text"].startswith(says)
    assert command.asked == []


def test_a_program_reads_objects_alone_whatever_goes_wrong(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    command.outcome.error, command.outcome.exit_code = "gateway-0 died", 1
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    code, _, err = command("--progress=json", "--json", "--threshold", "lost == 0")
    assert code == 1
    said = [json.loads(line) for line in err.splitlines()]
    assert all(one.pop("at_s") >= 0 for one in said)
    assert said == [
        {"event": "error", "text": "gateway-0 died"},
        {"event": "threshold", "text": "lost == 0: not measured"},
    ]


def test_conditions_that_end_it_early_come_from_the_file_too_and_a_typed_one_goes_before(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched: list[list[str]] = []
    monkeypatch.setattr(
        "ivsim.runs.abort.Watch", lambda conditions: watched.append([one.text for one in conditions])
    )
    file = tmp_path / "run.toml"
    file.write_text('abort_on = ["p99(end_to_end) > 10s", "unsent > 5"]')
    command("--config", str(file), "--abort-on", "unsent > 9")
    assert watched == [["unsent > 9", "p99(end_to_end) > 10s"]]


@pytest.mark.parametrize("words", [["run"], ["load"], ["pipe"], ["study", "run"], ["study", "resume"]])
def test_commands_that_take_a_while_say_how_far_they_are_in_the_same_words(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setattr(sys, "argv", ["ivsim", *words, "--help"])
    with pytest.raises(SystemExit):
        cli.main()
    (line,) = (one for one in capsys.readouterr().out.splitlines() if "--progress" in one)
    assert "How progress is told on standard error: terminal, or json, an object a line, errors too." in line


def test_what_is_typed_goes_before_the_environment_and_that_before_the_file(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "run.toml"
    config.write_text(
        'protocol = "coap"\nmode = "non"\nvehicles = 3\nloss_ratio = 0.1\ninterval_s = 2.0\noutage = [[5, 2]]\n'
    )
    monkeypatch.setenv("IVSIM_RUN_VEHICLES", "4")
    monkeypatch.setenv("IVSIM_RUN_INTERVAL", "3")
    assert command("--config", str(config), "--interval", "4")[0] == 0
    (options,) = command.asked
    assert (options.protocol, options.mode, options.loss_ratio) == ("coap", "non", 0.1)
    assert (options.vehicles, options.interval_s, options.outage) == (4, 4.0, ((5.0, 2.0),))


def test_a_word_that_is_typed_chooses_the_mode_whatever_the_file_says(
    command: Command, tmp_path: Path
) -> None:
    config = tmp_path / "run.toml"
    config.write_text('mode = "qos0"\n')
    assert command("--config", str(config))[0] == command("--config", str(config), "--qos", "2")[0] == 0
    assert [options.mode for options in command.asked] == ["qos0", "qos2"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("loss = 0.1", "FILE: loss: no such option; options are protocol, mode"),
        ("loss_ratio = 2", "FILE: loss_ratio 2: input should be less than or equal to 1"),
        ('link = "direct"\nloss_ratio = 0.1', "FILE: loss_ratio 0.1: has no effect with FILE: link direct"),
        ("vehicles = ", "--config FILE: Invalid value"),
    ],
)
def test_what_is_wrong_in_the_file_is_named_as_it_stands_there(
    command: Command, tmp_path: Path, text: str, says: str
) -> None:
    config = tmp_path / "run.toml"
    config.write_text(text)
    code, _, err = command("--config", str(config))
    assert code == 2
    assert err.replace(str(config), "FILE").startswith(f"ivsim: {says}")


def test_a_file_may_say_thresholds_and_a_job_of_github_is_told(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "run.toml"
    config.write_text('threshold = ["end_to_end_latency_p99_ms<500"]\n')
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    code, _, err = command("--config", str(config))
    says = "end_to_end_latency_p99_ms<500: missed: 600 ms"
    assert (code, err.splitlines()[-1]) == (3, f"::error title=ivsim run%3A threshold::{says}")
    assert "::error" not in command("--config", str(config), "--annotations", "none")[2]


def test_a_program_that_follows_learns_how_long_it_usually_takes(tmp_path: Path) -> None:
    options, path = run_options(duration_s=30.0), tmp_path / "times.json"
    first = PhaseTimes(options, path)
    for phase in ("starting Kafka", "running", "writing the report"):
        first.begin(phase)
    first.keep()
    known = json.loads(path.read_text())
    (times,) = known.values()
    times |= {"starting Kafka": [4.0], "writing the report": [6.0]}
    path.write_text(json.dumps(known))
    out = io.StringIO()
    with JsonDisplay(out, PhaseTimes(options, path)) as display:
        display.phase("starting Kafka")
        display.phase("running")
        display.progress(0.5, 12.0, {})
    kafka, running, progress = (json.loads(line) for line in out.getvalue().splitlines())
    assert (kafka["usual_s"], kafka["all_left_s"]) == (4.0, pytest.approx(40.0, abs=1))
    assert (running["usual_s"], running["all_left_s"]) == (None, pytest.approx(36.0, abs=1))
    assert (progress["left_s"], progress["all_left_s"]) == (12.0, pytest.approx(18.0, abs=1))


def test_a_variable_that_is_no_options_is_refused(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IVSIM_RUN_LOSSES", "0.1")
    code, _, err = command()
    assert code == 2
    assert err.startswith("ivsim: IVSIM_RUN_LOSSES: no such option; there are IVSIM_RUN_ACK, ")


def test_progress_for_programs_is_an_object_a_line() -> None:
    out = io.StringIO()
    with JsonDisplay(out) as display:
        display.phase("starting Kafka")
        display.note("live page: http://127.0.0.1:1")
        for share in (0.5, 0.6):
            display.progress(share, 10.04, {"delivered": 3, "p99_ms": None}, {"sender": 0.3124})
    said = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [(one.pop("event"), one.pop("at_s") >= 0) for one in said] == [
        ("phase", True), ("note", True), ("progress", True),
    ]  # fmt: skip
    assert said[0] == {"text": "starting Kafka", "usual_s": None, "all_left_s": None}
    # The second one came within a second.
    assert said[2] == {
        "share": 0.5,
        "left_s": 10.0,
        "all_left_s": None,
        "figures": {"delivered": 3, "p99_ms": None},
        "cores": {"sender": 0.312},
    }
