"""`ivsim platform`: what is there, and fetching what set-up leaves out, all of it or nothing."""

from __future__ import annotations

import os
import sys

import pytest

from ivsim import cli
from ivsim.commands import platform
from ivsim.runs import display
from ivsim.study.engines.pipe.platforms import PLATFORMS, platform_named
from ivsim.testbed import pulsar
from ivsim.testbed.paths import jars_dir
from schemas.errors import Refusal


def called(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["ivsim", "platform", *words])
    with pytest.raises(SystemExit) as end:
        cli.main()
    return end.value.code, capsys.readouterr()


@pytest.fixture
def maven(monkeypatch, tmp_path):
    """Put a Maven of ours first in PATH, made of a few lines of shell; jars go into a directory of our own."""
    monkeypatch.setenv("IVSIM_JARS", str(tmp_path / "jars"))
    (tmp_path / "jars").mkdir()
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")

    def written(lines):
        script = tmp_path / "bin" / "mvn"
        script.write_text(
            f"#!/bin/sh\nfor word; do case $word in -Djars.dir=*) to=${{word#*=}} ;; esac; done\n{lines}\n"
        )
        script.chmod(0o755)

    return written


def test_every_platform_is_listed_with_what_is_missing(monkeypatch, capsys, maven):
    code, said = called(monkeypatch, capsys, "list")
    assert code == 0
    lines = {line.split()[0]: line for line in said.out.splitlines()[1:]}
    assert set(lines) == set(PLATFORMS)
    assert lines["null"].split()[1] == "yes"
    assert lines["pulsar"].split()[1] == "no"
    assert "run `ivsim platform install pulsar`" in lines["pulsar"]


def test_one_that_is_there_is_not_fetched(monkeypatch, capsys):
    monkeypatch.setattr(platform_named("null"), "install", pytest.fail, raising=False)
    code, said = called(monkeypatch, capsys, "install", "null")
    assert (code, said.out) == (0, "null: installed\n")


def test_an_unknown_one_is_refused(monkeypatch, capsys):
    code, said = called(monkeypatch, capsys, "install", "carrier-pigeon")
    assert code == 2
    assert said.err.count("\n") == 1
    assert f"allowed are {', '.join(PLATFORMS)}" in said.err


def test_one_that_set_up_fetches_says_so(monkeypatch):
    monkeypatch.setattr(platform_named("redis"), "missing", lambda: "no redis-server found", raising=False)
    with pytest.raises(Refusal, match="redis is fetched by `make setup`: no redis-server found"):
        platform_named("redis").install()


def test_a_download_that_fails_leaves_what_was_there(monkeypatch, capsys, maven):
    maven('mkdir -p "$to"; touch "$to/half.jar"; echo "[ERROR] no route to the registry" >&2; exit 1')
    code, said = called(monkeypatch, capsys, "install", "pulsar")
    assert code == 2
    assert "Maven could not fetch the jars: no route to the registry" in said.err
    assert not jars_dir("pulsar").exists()
    assert pulsar.KIND.version() is None


def test_jars_appear_all_at_once_and_name_their_version(monkeypatch, maven):
    maven('mkdir -p "$to"; touch "$to/pulsar-broker-4.2.4.jar" "$to/other-1.jar"')
    monkeypatch.setattr(pulsar.sys, "executable", "/bin/true")  # no pip: nothing else is to change here
    pulsar.install()
    assert sorted(path.name for path in jars_dir("pulsar").iterdir()) == [
        "other-1.jar",
        "pulsar-broker-4.2.4.jar",
    ]
    assert pulsar.KIND.version() == "4.2.4"
    assert pulsar.KIND.find() == f"2 in {jars_dir('pulsar')}"


def test_a_client_of_another_version_is_named_with_the_remedy(monkeypatch, maven):
    maven("exit 0")
    jars_dir("pulsar").mkdir()
    (jars_dir("pulsar") / "pulsar-broker-4.2.4.jar").touch()
    from ivsim.study.engines.pipe.platforms import pulsar as row  # noqa: PLC0415

    monkeypatch.setattr(row.metadata, "version", lambda _: "3.0.0")
    assert platform_named("pulsar").missing() == (
        "pulsar-client 3.0.0, wanted 3.13.0: run `ivsim platform install pulsar`"
    )


def test_a_series_tells_a_time_left_that_falls_within_each_of_its_parts(monkeypatch, tmp_path):
    now_s, said = [0.0], []

    class Shown:
        def __init__(self, *, quiet):
            assert quiet

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def phase(self, words):
            said.append(words)

    def series(path, tell):
        for over, at_s in ((0, 0.0), (0, 200.0), (1, 240.0), (1, 300.0), (2, 480.0)):
            now_s[0] = at_s
            tell(over, 3, "it goes on")
        return [path]

    monkeypatch.setattr(display, "Display", Shown)
    monkeypatch.setattr(platform.time, "monotonic", lambda: now_s[0])
    assert platform._shown(series, tmp_path / "out", "cut", "file", quiet=True) == (
        [tmp_path / "out"],
        tmp_path / "out",
    )
    assert said == [
        "cut 1 of 3: it goes on",
        "cut 1 of 3: it goes on",
        "cut 2 of 3: it goes on; about 8 min left",
        "cut 2 of 3: it goes on; about 7 min left",
        "cut 3 of 3: it goes on; about 4 min left",
    ]
