"""`ivsim trace` as typed: what it prints, writes and refuses."""

from __future__ import annotations

import hashlib
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ivsim.commands.trace import app
from schemas.errors import Refusal
from simulator.traces import BUNDLED, PROFILES, bundled, bundled_path, read_trace, to_csv
from simulator.traces.importers import IMPORTERS

runner = CliRunner()


def run(*words: str) -> str:
    result = runner.invoke(app, list(words), catch_exceptions=True)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("name", BUNDLED)
def test_the_command_in_a_header_makes_the_file_again(name, tmp_path):
    words = shlex.split(bundled(name).header["command"])
    assert words[:2] == ["ivsim", "trace"]
    run(*words[2:], "--output", str(tmp_path / "again.csv"))
    digests = {
        hashlib.sha256(path.read_bytes()).hexdigest() for path in (tmp_path / "again.csv", bundled_path(name))
    }
    assert len(digests) == 1


def test_generate_prints_without_out():
    assert run("generate", "--profile", "huang-2012-lte", "--duration", "3").count("\n") > 5


def test_generate_with_outage(tmp_path):
    out = tmp_path / "t.csv"
    words = ["--profile", "us-2024-car-ul-udp", "--duration", "60", "--outage", "20:10", "--output", str(out)]
    run("generate", *words)
    assert not read_trace(out).uplink_kbps[20:30].any()


def test_list_names_everything_there_is():
    text = run("list")
    for name in (*BUNDLED, *PROFILES, *IMPORTERS):
        assert f"  {name} " in text


@pytest.mark.parametrize("name", BUNDLED)
def test_show_stands_beside_the_real_drives(name):
    text = run("show", name)
    assert text.startswith(name)
    for column in bundled(name).columns():
        assert column in text
    assert "real" in text
    assert all(len(line) < 140 for line in text.splitlines() if not line.startswith(("profile_", "command")))


def test_show_of_a_recorded_drive_against_a_profile(real, tmp_path):
    out = tmp_path / "att.parquet"
    print_out = run("import", str(real / "mahimahi_saturator/ATT-LTE-driving.up"), "--output", str(out))
    assert "1012 s, 1012 steps, uplink_kbps" in print_out
    assert "policy: 1,500 bytes per line" in print_out
    row = next(
        line
        for line in run("show", str(out), "--against", "us-2012-car-ul-pooled3").splitlines()
        if line.startswith("uplink_kbps ")
    )
    # As the published table has it.
    assert row.split()[1:] == [
        "0.28",
        "833.9",
        "1,044",
        "0",
        "1,188",
        "1,296",
        "9.29",
        *[".84", ".71", ".52", ".40"],
    ]


def test_show_of_a_constant_has_no_correlation(tmp_path):
    path = tmp_path / "c.csv"
    path.write_text("time_s,uplink_kbps,loss_ratio\n0,500,0\n30,500,0\n")
    text = run("show", str(path))
    assert "- - - -" in text
    assert "real" not in text


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_plot_writes_a_picture_twice_the_same(kind, tmp_path):
    paths = [tmp_path / f"{k}.{kind}" for k in range(2)]
    for path in paths:
        run("plot", "tunnel", "--output", str(path))
    assert paths[0].read_bytes()[:5] == {"png": b"\x89PNG\r", "svg": b"<?xml", "pdf": b"%PDF-"}[kind]
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_import_with_stated_policies(real, tmp_path):
    out = tmp_path / "t.csv"
    source = real / "raca_4g_lte_2018/car/A_2018.01.17_10.01.01.csv"
    words = ["--column", "uplink_kbps", "--network-mode", "LTE", "--network-mode", "HSPA+", "--gaps", "cut"]
    run("import", str(source), "--output", str(out), *words)
    trace = read_trace(out)
    assert list(trace.columns()) == ["uplink_kbps"]
    assert trace.header["kept_network_modes"] == "LTE, HSPA+"
    assert trace.header["origin"] == "imported from A_2018.01.17_10.01.01.csv (gnettrack)"
    assert str(real) not in out.read_text()


def test_export_to_mahimahi_and_back(tmp_path):
    up = tmp_path / "t.up"
    assert "delivery opportunities in 120 s (uplink)" in run(
        "export", "tunnel", "--to", "mahimahi", "--output", str(up)
    )
    run("import", str(up), "--output", str(tmp_path / "t.csv"))
    assert read_trace(tmp_path / "t.csv").duration_s == 120


def test_export_between_csv_and_parquet(tmp_path):
    run("export", "tunnel", "--to", "parquet", "--output", str(tmp_path / "t.parquet"))
    run("export", str(tmp_path / "t.parquet"), "--to", "csv", "--output", str(tmp_path / "t.csv"))
    assert (tmp_path / "t.csv").read_text() == to_csv(bundled("tunnel"))


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("show car-1999", "neither a file nor a bundled trace .car-2024"),
        ("show none.csv", "none.csv: cannot be read"),
        ("show tunnel --against nobody", "profile 'nobody': must be one of"),
        ("plot tunnel --output x.gif", "x.gif: must end in .png or .svg or .pdf"),
        ("plot tunnel --output no/such/x.png", "the folder no/such does not exist"),
        ("export tunnel --to pcap --output x", "--to 'pcap': must be one of mahimahi, csv, parquet, geojson"),
        ("export tunnel --to csv --output x.up", "must end in .csv"),
        ("export tunnel --to geojson --output x.json", "must end in .geojson"),
        ("export tunnel --to csv --direction uplink --output x.csv", "--direction: for --to mahimahi alone"),
        ("export paper-rtt --output x.up", "has 0 rate columns"),
        ("export tunnel --direction up --output x.up", "--direction 'up': must be one of uplink, downlink"),
        ("export tunnel --direction downlink --output x.up", "downlink_kbps is missing"),
        ("generate --profile nobody", "profile 'nobody': must be one of"),
        ("generate --profile huang-2012-lte --outage 5", "--outage '5': must be START:SECONDS"),
        ("generate --profile huang-2012-lte --output x.txt", "must end in .csv or .parquet"),
        ("import none.up --output x.csv", "none.up: cannot be read"),
    ],
)
def test_refusals_name_what_is_wrong(words, reason, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Refusal, match=reason):
        run(*words.split())
    assert not list(Path().iterdir())
