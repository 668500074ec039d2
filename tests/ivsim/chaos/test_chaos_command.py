"""`ivsim chaos` around cases that are made up: its exit code, its record, and how it goes on after a stop."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from ivsim.chaos.case import Case
from ivsim.chaos.promises import Judgement
from ivsim.commands import chaos
from ivsim.runs.outcome import Outcome
from schemas.errors import Refusal

COUNTS = {"due": 3, "delivered": 3, "late": 0, "lost": 0, "unsent": 0}


class Cases:
    """Stands in for run_case: what each fault comes to, and which were run."""

    def __init__(self, **ends: int | str) -> None:
        self.ends = ends
        self.run: list[str] = []

    def __call__(self, case: Case, output: Path, *, seed: int, testbed: object) -> tuple[Outcome, Judgement]:
        self.run.append(case.fault)
        end = self.ends.get(case.fault.replace("-", "_"), 0)
        judgement = Judgement(case.promise().word, dict(COUNTS))
        if isinstance(end, str):
            judgement.broken.append(end)
            end = 0
        return Outcome(exit_code=end), judgement


def call(monkeypatch: pytest.MonkeyPatch, cases: Cases, output: Path) -> int:
    monkeypatch.setattr(chaos, "run_case", cases)
    with pytest.raises(typer.Exit) as end:
        chaos.command(protocol="coap", mode="con", output=output)
    return end.value.exit_code


def test_no_breach_is_0(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = Cases()
    assert call(monkeypatch, cases, tmp_path) == 0
    assert cases.run == ["gateway-kill", "kafka-kill", "spark-kill", "link-cut"]
    shown = capsys.readouterr()
    assert "[4/4" in shown.err
    assert "[4/4" not in shown.out
    assert shown.out.count("kept") == 4


def test_one_broken_is_1_and_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, Cases(kafka_kill="the sky fell"), tmp_path) == 1
    assert "coap-con-kafka-kill broke its promise: the sky fell" in capsys.readouterr().out
    found = json.loads((tmp_path / "chaos.json").read_text())
    assert found["coap-con-kafka-kill"]["broken"] == ["the sky fell"]


def test_a_stop_keeps_what_is_judged_and_the_next_command_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, Cases(spark_kill=130), tmp_path) == 130
    assert "goes on from here" in " ".join(capsys.readouterr().err.split())
    again = Cases()
    assert call(monkeypatch, again, tmp_path) == 0
    assert again.run == ["spark-kill", "link-cut"]
    assert capsys.readouterr().out.count("kept") == 4


def test_a_foreign_chaos_json_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "chaos.json").write_text('{"a": {"colour": 1}}')
    monkeypatch.setattr(chaos, "run_case", Cases())
    with pytest.raises(Refusal, match=r"chaos\.json"):
        chaos.command(protocol="coap", output=tmp_path)


def test_nothing_chosen_is_refused() -> None:
    with pytest.raises(Refusal, match="--all"):
        chaos.command()


def test_a_client_library_that_there_is_not_is_refused_and_so_is_one_beside_a_campaign() -> None:
    with pytest.raises(
        Refusal, match="--kafka-client 'rust': allowed are confluent, aiokafka, python, jpype"
    ):
        chaos.command(protocol="coap", kafka_client="rust")
    with pytest.raises(Refusal, match="--kafka-client: has no effect with --campaign"):
        chaos.command(campaign=5, kafka_client="jpype")
    cases = chaos.cases_of("coap", "con", "kafka-kill", 1, "aiokafka")
    assert [case.name for case in cases] == ["coap-con-kafka-kill-by-aiokafka"]
