"""Names and tags of runs: what they may be, where they stand, and how a result is found by them."""

from __future__ import annotations

import json
import string
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ivsim import cli
from ivsim.labels import checked_name, checked_tags, words_of
from ivsim.library.compare import compare_runs
from ivsim.library.folder import named
from ivsim.library.results import load_results
from ivsim.load.capacity_asked import asked
from ivsim.option_rules import run_options
from ivsim.options import RunOptions
from ivsim.report.page import write_page
from ivsim.runs.checksums import write_checksums
from ivsim.runs.directory import RunDirectory, make_run_directory
from ivsim.runs.outcome import Outcome
from ivsim.runs.runner import make_plan
from ivsim.study.engines.whole_run.engine import WholeRun
from schemas.errors import Refusal
from tests.ivsim.audit.made_up_result import made_up_result

ALNUM = string.ascii_letters + string.digits
NAMES = st.builds(
    lambda first, rest: first + rest, st.sampled_from(ALNUM), st.text(ALNUM + "._-", max_size=63)
).filter(lambda name: name != "studies")
VALUES = st.text(ALNUM + "._-+:/@", min_size=1, max_size=128)


def made_up_run(path: Path, **options: Any) -> Path:
    """A made-up result whose manifest has these options too."""
    made_up_result(path)
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["options"] |= options
    (path / "manifest.json").write_text(json.dumps(manifest))
    write_checksums(RunDirectory(path))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in whose `results` there are three runs, two of them with labels."""
    path = tmp_path_factory.mktemp("labels")
    (path / "results").mkdir()
    made_up_run(path / "results" / "20260101-000000-mqtt-qos1-abcdef")
    made_up_run(path / "results" / "baseline", name="baseline", tags=["firmware=2.1", "road=tunnel"])
    made_up_run(path / "results" / "new", name="new", tags=["firmware=2.2", "road=tunnel"])
    return path


def said(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[Any, str, str]:
    monkeypatch.setattr(sys, "argv", ["ivsim", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code, *capsys.readouterr()


@given(NAMES, st.dictionaries(NAMES, VALUES, max_size=5))
def test_what_is_allowed_is_kept_as_it_is_typed(name: str, tags: dict[str, str]) -> None:
    assert checked_name(name) == name
    words = [f"{key}={value}" for key, value in tags.items()]
    kept = checked_tags(words)
    assert sorted(kept) == sorted(words)
    assert checked_tags(reversed(words)) == kept == checked_tags(kept)
    options = RunOptions(name=name, tags=tuple(words))
    assert RunOptions(**options.model_dump(mode="json")) == options


@given(st.text(max_size=70))
def test_a_name_that_is_kept_is_one_part_of_a_path(text: str) -> None:
    try:
        name = checked_name(text)
    except ValueError:
        return
    assert Path("results", name).parent == Path("results")
    assert name.isascii()
    assert not name.startswith((".", "-"))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"name": ""}, "--name '': allowed is a letter or digit"),
        ({"name": "../x"}, "--name '../x': allowed is"),
        ({"name": "a b"}, "--name 'a b': allowed is"),
        ({"name": "-x"}, "--name '-x': allowed is"),
        ({"name": "tunnel\n"}, "--name 'tunnel\\n': allowed is"),
        ({"name": "straße"}, "--name 'straße': allowed is"),
        ({"name": "a" * 65}, "--name 'aaaa"),
        ({"name": "studies"}, "--name 'studies': is the folder of studies' results"),
        ({"tags": ["road"]}, "--tag 'road': write KEY=VALUE, such as road=tunnel"),
        ({"tags": ["road="]}, "--tag 'road=': write"),
        ({"tags": ["=tunnel"]}, "--tag '=tunnel': write"),
        ({"tags": ["road=a b"]}, "--tag 'road=a b': write"),
        ({"tags": ["road=<b>"]}, "--tag 'road=<b>': write"),
        ({"tags": ["road=a", "road=b"]}, "--tag 'road=b': road stands twice"),
    ],
)
def test_bad_characters_are_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(Refusal) as refused:
        run_options(**given)
    assert str(refused.value).startswith(says)
    assert "\n" not in str(refused.value)


def test_a_name_is_the_results_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert make_run_directory(None, "20260101-x", "tunnel").path == tmp_path / "results" / "tunnel"
    assert make_run_directory(None, "20260101-x").path == tmp_path / "results" / "20260101-x"


@pytest.mark.parametrize("taken", ["directory", "file", "dangling link"])
def test_a_name_that_is_taken_is_refused_before_anything_is_made(
    taken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    there = tmp_path / "results" / "tunnel"
    there.parent.mkdir()
    {
        "directory": there.mkdir,
        "file": there.touch,
        "dangling link": lambda: there.symlink_to(tmp_path / "nowhere"),
    }[taken]()
    with pytest.raises(Refusal, match=r"^--name tunnel: \S+/results/tunnel exists; take another name"):
        make_plan(RunOptions(name="tunnel"), None)
    assert list(there.parent.iterdir()) == [there]


def test_a_name_goes_with_no_other_directory(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match=r"^--name tunnel: is the result's directory below results; not with"):
        make_plan(RunOptions(name="tunnel"), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("label", [{"name": "tunnel"}, {"tags": ["road=tunnel"]}])
def test_what_is_many_runs_has_no_name_and_no_tags(label: dict[str, Any]) -> None:
    with pytest.raises(Refusal, match="has no effect with --find-capacity, which is many runs"):
        asked(label, None, None, None, None)
    assert not set(label) & set(WholeRun().fields())


@pytest.mark.parametrize("command", ["run", "load"])
def test_command_line_and_environment_and_file_give_them(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[RunOptions] = []

    def run(options: RunOptions, *_: Any, **__: Any) -> Outcome:
        seen.append(options)
        return Outcome()

    monkeypatch.setattr("ivsim.library.runs.outcome_of", run)
    said([command, "--name", "tunnel", "--tag", "road=tunnel", "--tag", "firmware=2"], monkeypatch, capsys)
    monkeypatch.setenv("IVSIM_RUN_NAME", "from-environment")
    monkeypatch.setenv("IVSIM_RUN_TAG", "road=tunnel firmware=2")
    said([command], monkeypatch, capsys)
    assert [one.name for one in seen] == ["tunnel", "from-environment"]
    assert {one.tags for one in seen} == {("firmware=2", "road=tunnel")}
    if command == "run":
        config = tmp_path / "run.toml"
        config.write_text('name = "from-file"\ntags = ["road=bridge"]\n')
        monkeypatch.delenv("IVSIM_RUN_NAME")
        said([command, "--config", str(config)], monkeypatch, capsys)
        assert (seen[-1].name, seen[-1].tags) == ("from-file", ("firmware=2", "road=tunnel"))


@pytest.mark.parametrize(
    ("tags", "found"),
    [
        ([], ["20260101-000000-mqtt-qos1-abcdef", "baseline", "new"]),
        (["road=tunnel"], ["baseline", "new"]),
        (["road=tunnel", "firmware=2.2"], ["new"]),
        (["road=bridge"], []),
    ],
)
def test_a_list_has_the_runs_with_all_the_tags(
    tags: list[str],
    found: list[str],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    arguments = ["results", "list", *(word for tag in tags for word in ("--tag", tag))]
    code, out, _ = said(arguments, monkeypatch, capsys)
    assert code == 0
    if not found:
        assert out == "results: no results with road=bridge\n"
        return
    assert [line.split()[0] for line in out.splitlines()] == [f"results/{name}" for name in found]
    assert ("firmware=2.2 road=tunnel" in out) == ("new" in found)
    objects = json.loads(said([*arguments, "--json"], monkeypatch, capsys)[1])
    assert [one["name"] for one in objects] == [name if len(name) < 9 else None for name in found]


def test_a_tag_that_is_none_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = said(["results", "list", str(folder / "results"), "--tag", "road"], monkeypatch, capsys)
    assert (code, out) == (2, "")
    assert err.startswith("ivsim: --tag 'road': write KEY=VALUE")


def test_a_name_stands_for_its_directory(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    assert said(["results", "show", "baseline"], monkeypatch, capsys)[0] == 0
    code, out, _ = said(["compare", "baseline", "new"], monkeypatch, capsys)
    assert code == 0
    assert "first: results/baseline\nsecond: results/new\n" in out
    assert "tags differ: firmware=2.1 road=tunnel and firmware=2.2 road=tunnel" in out
    assert said(["audit", "new"], monkeypatch, capsys)[0] in {
        0,
        2,
    }  # the manifest was changed: refused by its sum
    assert said(["export", "new", "--output", str(tmp_path / "out")], monkeypatch, capsys)[0] == 0
    code, _, err = said(["results", "show", "nowhere"], monkeypatch, capsys)
    assert (code, err) == (2, "ivsim: nowhere: no result of a run or a study\n")


def test_a_path_goes_before_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results" / "new").mkdir(parents=True)
    (tmp_path / "results" / "studies" / "tunnel").mkdir(parents=True)
    assert named(Path("new")) == Path("results/new")
    for path in ("results/new", "studies", "studies/tunnel", "../results", "/tmp", "."):
        assert named(Path(path)) == Path(path)
    (tmp_path / "new").mkdir()
    assert named(Path("new")) == Path("new")


def test_a_report_and_a_comparison_say_them(folder: Path) -> None:
    page = write_page(folder / "results" / "baseline").read_text()
    assert "name baseline, tags firmware=2.1 road=tunnel" in page
    one, two = (load_results(folder / "results" / name) for name in ("baseline", "new"))
    assert "the same options" in compare_runs(one, two).notes
    assert words_of({"name": None, "tags": []}) == words_of({}) == ""
    assert words_of({"tags": ["a=b"]}) == "tag a=b"
