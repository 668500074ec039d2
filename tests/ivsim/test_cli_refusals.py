"""Bad input: one clear line, exit code 2, nothing started."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from ivsim import cli
from ivsim.option_rules import run_options
from ivsim.runs import memory, preflight
from schemas.errors import Refusal

CASES = {
    "protocol": (["--protocol", "http"], ["--protocol", "mqtt"]),
    "qos": (["--qos", "3"], ["--qos", "0, 1, 2"]),
    "foreign word": (["--protocol", "coap", "--qos", "1"], ["--qos"]),
    "foreign flag": (["--con"], ["con", "mqtt"]),
    "interval": (["--interval", "-1"], ["--interval", "greater than 0"]),
    "messages": (["--interval", "1e-9"], ["--interval 1e-09: 1.2e+12 messages would be due", "up to 1e+08"]),
    "page port": (["--page", "--page-port", "BUSY"], ["--page-port", "in use", "0 takes a free one"]),
    "spark master": (
        ["--spark-master", "spark://127.0.0.1:1", "--spark-checkpoint", "file:///twins"],
        ["--spark-master", "no answer from 127.0.0.1:1"],
    ),
    "spark port": (
        ["--spark-master", "spark://127.0.0.1", "--spark-checkpoint", "file:///twins"],
        ["expected spark://HOST:PORT"],
    ),
    "spark elsewhere": (["--spark-master", "spark://nowhere:7077"], ["--spark-master", "--spark-checkpoint"]),
    "interval nan": (["--interval", "nan"], ["--interval 'nan': expected a number"]),
    "vehicles": (["--vehicles", "0"], ["--vehicles"]),
    "format": (["--format", "xml"], ["--format", "protobuf"]),
    "loss": (["--loss", "1.5"], ["--loss"]),
    "rtt word": (["--rtt", "fast"], ["--rtt", "milliseconds"]),
    "rtt range": (["--rtt", "-5"], ["--rtt"]),
    "link": (["--link", "wire"], ["--link", "direct"]),
    "trigger": (["--trigger", "never"], ["--trigger", "realtime"]),
    "trace missing": (["--trace", "nowhere.csv"], ["--trace", "nowhere.csv"]),
    "kafka form": (["--kafka", "localhost"], ["--kafka", "HOST:PORT"]),
    "a power for a port": (["--kafka", "localhost:9\u00b2"], ["--kafka", "HOST:PORT"]),
    "unknown option": (["--protocoll", "mqtt"], ["--protocoll"]),
    "no number": (["--vehicles", "many"], ["--vehicles 'many': expected a whole number"]),
    "separators": (["--vehicles", "1_000"], ["--vehicles '1_000': expected a whole number"]),
    "a fraction for a whole number": (["--vehicles", "5.0"], ["--vehicles '5.0': expected a whole number"]),
    "digits of another script": (["--seed", "\u0663"], ["--seed '\u0663': expected a whole number"]),
    "a space before": (["--vehicles", " 5"], ["--vehicles ' 5': expected a whole number"]),
    "separators in a number": (["--duration", "1_0.5"], ["--duration '1_0.5': expected a number"]),
    "outage": (["--outage", "5"], ["--outage", "START:SECONDS"]),
    "warm-up": (["--warmup", "60", "--duration", "60"], ["--warmup", "--duration"]),
    "tls on coap": (["--protocol", "coap", "--security", "tls"], ["--security", "coap"]),
    "echo and gateways": (
        ["--topology", "echo", "--gateways", "2"],
        ["--gateways 2: needs --topology gateway"],
    ),
}


def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]) -> str:
    monkeypatch.setattr(sys, "argv", ["ivsim", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("ivsim: ")
    assert err.count("\n") == 1, err
    return err


@pytest.mark.parametrize("case", CASES)
def test_a_refusal_is_one_line_that_names_what_is_allowed(
    case: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, words = CASES[case]
    with socket.create_server(("127.0.0.1", 0)) as busy:
        busy_port = str(busy.getsockname()[1])
        arguments = [busy_port if argument == "BUSY" else argument for argument in arguments]
        line = refused(monkeypatch, capsys, ["run", *arguments])
    for word in words:
        assert word in line
    assert list(tmp_path.iterdir()) == []


def test_one_of_several_spark_masters_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as master:
        preflight.check_spark_master(f"spark://127.0.0.1:1,127.0.0.1:{master.getsockname()[1]}")


@pytest.mark.parametrize("found", ["4.2.0", "4.30.0", "5.0.0"])
def test_a_pyspark_of_another_release_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], found: str
) -> None:
    monkeypatch.setattr(preflight, "version", lambda package: found if package == "pyspark" else "0")
    line = refused(monkeypatch, capsys, ["run", "--link", "direct"])
    assert f"PySpark {found} is installed: ivsim works with Spark 4.3.x" in line


def test_a_broken_trace_is_named_with_its_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    trace = tmp_path / "broken.csv"
    trace.write_text("time_s,uplink_kbps\n0,100\n1,-5\n")
    line = refused(monkeypatch, capsys, ["run", "--trace", str(trace)])
    assert "broken.csv" in line
    assert "3" in line


def test_an_output_directory_in_use_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "kept").write_text("someone's result")
    monkeypatch.setattr("ivsim.runs.runner.preflight", lambda _: None)
    line = refused(monkeypatch, capsys, ["run", "--output", str(tmp_path)])
    assert "--output" in line
    assert (tmp_path / "kept").read_text() == "someone's result"


def test_a_kafka_that_does_not_answer_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    line = refused(monkeypatch, capsys, ["run", "--kafka", "127.0.0.1:1"])
    assert "--kafka 127.0.0.1:1" in line
    assert list(tmp_path.iterdir()) == []


def test_help_names_every_option_with_its_default(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "argv", ["ivsim", "run", "--help"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    text = capsys.readouterr().out
    words = "protocol qos vehicles interval duration format trace loss rtt link trigger kafka seed output json quiet"
    for word in words.split():
        assert f"--{word} " in text, word


def test_a_fleet_that_needs_more_open_files_than_allowed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight.resource, "getrlimit", lambda _which: (1_024, 4_096))
    with pytest.raises(Refusal, match=r"--vehicles 5000: mosquitto needs 5512 open files, 4096 are allowed"):
        preflight.preflight(run_options(vehicles=5_000))


def test_a_soft_limit_is_raised_for_what_a_run_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    raised = []
    monkeypatch.setattr(preflight.resource, "getrlimit", lambda _which: (1_024, 4_096))
    monkeypatch.setattr(preflight.resource, "setrlimit", lambda _which, limits: raised.append(limits))
    preflight.check_open_files(run_options(vehicles=2_000))
    preflight.check_open_files(run_options(vehicles=20))
    assert raised == [(4_096, 4_096)]


def test_a_relay_that_would_run_out_of_ports_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """TCP alone takes a port for each vehicle: 60990 to 60999 are ten of them."""
    ports = tmp_path / "range"
    ports.write_text("60990\t60999\n")
    monkeypatch.setattr(preflight, "LOCAL_PORTS", ports)
    target = {"target": "mqtt://127.0.0.1:1883", "interval_s": 10.0}
    preflight.check_local_ports(run_options(vehicles=10, **target))
    preflight.check_local_ports(run_options(vehicles=11))
    preflight.check_local_ports(
        run_options(vehicles=11, protocol="coap", mode="con", topology="peer", target="coap://127.0.0.1")
    )
    with pytest.raises(Refusal) as refused:
        preflight.check_local_ports(run_options(vehicles=11, **target))
    assert str(refused.value) == (
        "--vehicles 11: the relay needs 11 ports towards mqtt://127.0.0.1:1883, this kernel has 10 for that, enough for 10"
        " vehicles: widen net.ipv4.ip_local_port_range, or --agent"
    )


def test_a_run_that_needs_more_memory_than_there_is_starts_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The words are those of tests/ivsim/runs/test_memory.py; here the command ends with them."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "meminfo").write_text("MemAvailable: 2000000 kB\n")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(memory, "ROOT", tmp_path)
    monkeypatch.setattr("subprocess.Popen.__init__", lambda *_, **__: pytest.fail("something was started"))
    line = refused(monkeypatch, capsys, ["run", "--vehicles", "50000", "--interval", "100"])
    assert line.startswith("ivsim: --vehicles 50000: needs at least ")
    assert " GB of memory, 2.0 GB are available; allowed here: up to " in line
    assert line.endswith(" vehicles, or --agent\n")
    assert list((tmp_path / "here").iterdir()) == []


def test_an_echos_receivers_need_open_files_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight.resource, "getrlimit", lambda _which: (1_024, 4_096))
    with pytest.raises(Refusal, match=r"--vehicles 2000: mosquitto needs 4512 open files"):
        preflight.check_open_files(run_options(vehicles=2_000, topology="echo"))
