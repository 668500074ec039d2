"""A part from outside the package is one line in its table: command line, refusals and contract pick it up."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pytest
import toy_parts
import typer
from pydantic import Field
from typer.testing import CliRunner

from ivsim import cli
from ivsim.commands import run as run_command
from ivsim.doctor import examine
from ivsim.option import Option, declared, ineffective, needs_some
from ivsim.option_reference import reference
from ivsim.option_signature import given_of, option_parameters, taking
from ivsim.options import OPTIONS, PANELS, VEHICLES, RunOptions, option_name
from ivsim.runs.processes import capture_config

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PROGRAM = "import toy_parts; toy_parts.add(); from ivsim.cli import main; main()"


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(HERE))), "COLUMNS": "200"},
    )


@pytest.fixture(scope="module")
def toys() -> Iterator[None]:
    """The tables with the toys in them; what the command line made of them at import is made anew."""
    kept = [dict(table) for table in toy_parts.TABLES]
    toy_parts.add()
    importlib.reload(run_command)
    yield
    for table, rows in zip(toy_parts.TABLES, kept, strict=True):
        table.clear()
        table.update(rows)
    importlib.reload(run_command)


class Ended(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def ivsim(
    toys: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Ended]:
    """The command line with the toys in it."""

    def call(*arguments: str) -> Ended:
        monkeypatch.setenv("COLUMNS", "200")
        monkeypatch.setattr(sys, "argv", ["ivsim", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return Ended(int(str(ended.value.code)), *capsys.readouterr())

    return call


def test_help_knows_the_toys(ivsim: Callable[..., Ended]) -> None:
    text = ivsim("run", "-h").stdout
    assert "mqtt, amqp, coap, toy, toy-brokered" in text
    assert "small, hexjson" in text
    assert re.search(
        r"--answered +--unanswered .*Toy: Acknowledged messages, or not\..*\(default answered\)", text
    )
    assert re.search(r"\n  toy +Greet\.\n", ivsim("-h").stdout)
    assert ivsim("toy", "--loud").stdout == "HELLO\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("run", "--protocol", "toy", "--qos", "1"), "--qos does not belong to toy: allowed --answered"),
        (("run", "--answered"), "--answered does not belong to mqtt: allowed --qos, --mqtt-version"),
        (
            ("run", "--protocol", "toy", "--security", "tls"),
            "--security tls: has no effect with --protocol toy, only with mqtt, amqp",
        ),
        (("run", "--protocol", "toy", "--keepalive", "5"), "--keepalive 5: has no effect with --protocol toy"),
        (("run", "--protocol", "toy-brokered"), "no toy-broker found: it is a toy"),
        (("run", "--format", "hex"), "--format 'hex': allowed are json, protobuf, flatbuffers, avro, msgpack, small, hexjson"),
        (("chaos", "--protocol", "toy", "--mode", "qos1"), "toy has asked, told"),
        (("trace", "import", "nowhere", "--from", "toi", "--output", "x.csv"), "nowhere"),
    ],
)  # fmt: skip
def test_refusals_know_the_toys(ivsim: Callable[..., Ended], arguments: tuple[str, ...], says: str) -> None:
    done = ivsim(*arguments)
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_capture_is_told_the_ports_of_the_toy(toys: None, tmp_path: Path) -> None:
    config = capture_config(device="v0", directory=tmp_path, echo=False)
    assert config.datagram_ports == {"coap": [5683], "toy": [7]}


def test_the_doctor_names_the_server_and_who_needs_it(toys: None) -> None:
    (found,) = (finding for finding in examine() if finding.part == "toy-broker")
    assert (found.needed_for, found.found) == ("--protocol toy-brokered", None)


def test_a_study_may_name_the_metric_the_mode_and_the_format(tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(
        'schema_version = 2\ntitle = "t"\nquestion = "q"\nmetrics = ["toy_share"]\n[scenario]\nvehicles = 2\n'
        '[axes]\nmode = ["toy asked", "toy told"]\nformat = ["json", "hexjson"]\n'
    )
    done = python("-c", PROGRAM, "study", "check", str(study))
    assert done.returncode == 0, done.stderr
    assert "4 cells" in done.stdout


def test_the_importer_is_detected_and_named(ivsim: Callable[..., Ended], tmp_path: Path) -> None:
    drive, out = tmp_path / "drive.txt", tmp_path / "drive.csv"
    drive.write_text("toy 100\ntoy 200\n")
    done = ivsim("trace", "import", str(drive), "--output", str(out))
    assert done.returncode == 0, done.stderr
    assert out.read_text().splitlines()[-2:] == ["0,100", "1,200"]
    assert re.search(r"^  toy +a rate a line$", ivsim("trace", "list").stdout, re.MULTILINE)


SUITES = (
    "tests/contract/test_protocols.py",
    "tests/schemas/test_formats.py",
    "tests/schemas/test_formats_fuzz.py",
    "tests/simulator/traces/test_importers_refusals.py",
)


@pytest.mark.full
@pytest.mark.slow
def test_the_contract_suites_run_over_the_toys() -> None:
    chosen = "hexjson or (toy and not brokered) or (brokered and tables)"
    done = python("-m", "pytest", "-v", "-p", "toy_parts", "-p", "no:cacheprovider", *SUITES, "-k", chosen)
    assert done.returncode == 0, done.stdout
    for suite in SUITES:
        assert re.search(rf"{suite}.*PASSED", done.stdout), suite


def test_an_option_is_one_field() -> None:
    class Wider(RunOptions):
        horn_s: Annotated[
            float | None,
            Field(gt=0, le=60),
            Option("Time for which a vehicle sounds its horn.", VEHICLES, "s", word="horn", absent="silent"),
        ] = None
        horn_count: Annotated[
            int,
            Field(ge=1),
            Option("How many times it does.", VEHICLES, axis="horn_count", effective=(needs_some("horn_s"),)),
        ] = 1

    known = declared(Wider)
    assert set(known) - set(OPTIONS) == {"horn_s", "horn_count"}
    seen: dict[str, Any] = {}
    app = typer.Typer()

    @app.command()
    @taking(option_parameters(known, PANELS))
    def run(**given: Any) -> None:
        seen.update(given_of(Wider, given)[0])

    text = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).stdout
    assert re.search(r"--horn +SECONDS +Time for which a vehicle sounds its horn\. \(default silent\)", text)
    assert CliRunner().invoke(app, ["--horn", "3", "--vehicles", "2"]).exit_code == 0
    assert seen == {"horn_s": 3.0, "vehicles": 2}
    (found,) = ineffective(Wider(horn_count=1), known, option_name)
    assert found.refusal == "--horn-count 1: needs --horn-s"
    assert (
        "| `--horn` | `horn_s` | Time for which a vehicle sounds its horn. | silent | above 0 to 60 |"
        in reference(known)
    )
