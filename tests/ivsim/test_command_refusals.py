"""Bad input to the smaller commands: one line, exit code 2, no traceback."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ivsim import cli
from ivsim.commands import link
from ivsim.commands.files import check_writable

TUNNEL = Path(__file__).resolve().parents[2] / "traces" / "tunnel.csv"
# /proc takes no files, whoever asks.
CASES = {
    "plot": ("trace plot tunnel --output /proc/x.png", "--output /proc/x.png: No such file"),
    "export": ("trace export tunnel --output /proc/x.up", "--output /proc/x.up: No such file"),
    "generate": ("trace generate --profile us-2024-car-ul-udp --output /proc/x.csv", "--output /proc/x.csv: No such file"),
    "import": (f"trace import {TUNNEL} --output /proc/x.csv", "--output /proc/x.csv: No such file"),
    "results of a study": ("study run tunnel --output /proc/x", "--output /proc/x: No such file"),
    "results of a platform": ("pipe --output /proc/x", "--output /proc/x: No such file"),
    "results of a run": ("run --output /proc/x", "--output /proc/x: /proc is on a file system that holds no ordinary files"),
    "a registry": ("pipe --registry nowhere", "--registry 'nowhere': "),
    "directory": ("trace show /", "/: cannot be read: Is a directory"),
    "no case": ("chaos --protocol coap --fault broker-kill", "--fault broker-kill: coap has no broker"),
    "chaos's place": ("chaos --protocol coap --mode con --fault link-cut --output /proc/x", "--output /proc/x: No such file"),
    "infinite": ("link verify --link direct --seconds inf", "--seconds 'inf': expected a number"),
    "seconds": ("link verify --link direct --seconds 3601", "'--seconds': Input should be less than or equal to 3600"),
    "kafka": ("twin serve --kafka nowhere", "--kafka nowhere: expected HOST:PORT of a Kafka broker"),
    "stale": ("twin serve --kafka 127.0.0.1:9 --stale-after -1", "--stale-after -1.0: input should be greater than 0"),
    "port": ("twin serve --kafka 127.0.0.1:9 --port 70000", "--port 70000: input should be less than or equal to 65535"),
    "verdicts' folder": ("study run tunnel --junit /proc/x.xml", "--junit /proc/x.xml: No such file"),
    "verdicts' file": ("study run tunnel --junit /", "--junit /: Is a directory"),
    "report's verdicts": ("study report nowhere --junit /", "--junit /: Is a directory"),
    "resume's verdicts": ("study resume nowhere --junit /", "--junit /: Is a directory"),
    "no gateway": ("chaos --protocol coap --gateways 0", "--gateways 0: allowed are 1 to 64"),
    "a campaign's gateways": ("chaos --campaign 5 --gateways 2", "--gateways: has no effect with --campaign"),
    "nothing to do": ("chaos", "ivsim: chaos: choose --all, a --protocol, --mode or --fault, or a --campaign"),
    "no campaign": ("chaos --campaign 0", "--campaign 0: must be at least 1"),
    "a campaign's mode": ("chaos --campaign 5 --protocol coap", "--protocol: has no effect with --campaign"),
    "a schedule's seed": ("chaos --schedule x.json --seed 2", "--seed: has no effect with --schedule"),
    "two campaigns": ("chaos --campaign 5 --schedule x.json", "--schedule: has no effect with --campaign"),
    "a schedule's file": ("chaos --schedule nowhere.json", "--schedule nowhere.json: No such file"),
    "link": ("link verify --link fibre", "--link 'fibre': allowed are auto, netem, uml, direct"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_it_is_one_line(
    case: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words, says = CASES[case]
    assert says in refused(words, monkeypatch, capsys, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_trace_is_not_imported_over_itself(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    drive = tmp_path / "drive.csv"
    drive.write_text("a recorded drive")
    said = refused(f"trace import {drive} --output {tmp_path}/./drive.csv", monkeypatch, capsys, tmp_path)
    assert "is the drive that is read" in said
    assert drive.read_text() == "a recorded drive"


def test_a_link_that_does_not_work_here_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(link, "ensure_privileges", lambda: None)
    monkeypatch.setattr(link, "why_not", lambda name: f"{name} is not for this machine")
    said = refused("link verify --link netem", monkeypatch, capsys, tmp_path)
    assert said == "ivsim: --link netem: netem is not for this machine\n"


def test_what_is_read_is_not_echoed_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    drive = tmp_path / "drive.csv"
    for content in ("x" * 5_000_000, "time_s," + "x y " * 1_000_000):
        drive.write_text(content)
        said = refused(f"trace show {drive}", monkeypatch, capsys, tmp_path)
        assert said.startswith(f"ivsim: {drive}:1: column 'x")
        assert len(said) < 5_000


def test_a_file_that_was_there_is_as_it_was_after_the_question_whether_it_can_be_written(
    tmp_path: Path,
) -> None:
    kept, new = tmp_path / "kept.xml", tmp_path / "new.xml"
    kept.write_text("earlier verdicts")
    check_writable("--junit", kept)
    check_writable("--junit", new)
    assert kept.read_text() == "earlier verdicts"
    assert not new.exists()


def refused(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], where: Path
) -> str:
    monkeypatch.chdir(where)
    monkeypatch.setattr(sys, "argv", ["ivsim", *words.split()])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, ""), err
    assert err.count("\n") == 1, err
    return err
