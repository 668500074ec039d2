"""Parts of other packages: found by their entry points, loaded when asked for, refused by name."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ivsim import plugins as every_table
from ivsim.papers import PAPERS, paper_of
from ivsim.study.engines import ENGINES
from ivsim.study.engines.base import engine_named
from schemas import plugins
from schemas.errors import Refusal
from schemas.formats import FORMATS, OWN_FORMATS
from schemas.plugins import Plugin, Table, checked, made
from simulator.scenario import Scenario

ROOT = Path(__file__).resolve().parents[2]
GOOD = "from schemas.formats.json import Json\nclass Shout(Json):\n    name = 'shout'\n"

Package = Callable[..., None]


def write_package(place: Path, name: str, entry_points: str, code: str) -> None:
    """Put what pip leaves of a package into a directory of the path."""
    module = name.replace("-", "_")
    (place / f"{module}.py").write_text(code)
    about = place / f"{module}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(entry_points)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Installs packages for one test; the tables forget them again."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def forget() -> None:
        plugins.installed.cache_clear()
        for group in every_table.TABLES:
            every_table.table_of(group)._loaded.clear()

    def install(name: str, entry_points: str, code: str) -> None:
        write_package(tmp_path, name, entry_points, code)
        forget()

    forget()
    yield install
    monkeypatch.undo()
    forget()


def command(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = "from ivsim.cli import main; main()"
    path = os.pathsep.join((str(ROOT), str(place)))
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True, text=True, check=False, cwd=ROOT, env={**os.environ, "PYTHONPATH": path, "COLUMNS": "200"},
    )  # fmt: skip


def test_a_format_of_a_package_is_a_format(package: Package) -> None:
    package("shouter", "[ivsim.formats]\nshout = shouter:Shout\n", GOOD)
    assert "shouter" not in sys.modules
    assert "shout" in FORMATS
    assert "shouter" not in sys.modules
    assert list(FORMATS) == [*OWN_FORMATS, "shout"]
    assert Scenario(format="shout").payload_format.name == "shout"
    assert FORMATS["shout"] is FORMATS["shout"]
    assert len(FORMATS) == len(OWN_FORMATS) + 1


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import nowhere_at_all\n", "ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("raise SystemExit(3)\n", "SystemExit: 3"),
        ("x = 1\n", "AttributeError: module 'shouter' has no attribute 'Shout'"),
        ("class Shout:\n    name = 'shout'\n", "has no content_type, blocks, header_only"),
        (GOOD.replace("'shout'", "'whisper'"), "calls itself 'whisper'"),
        ("class Shout:\n    def __init__(self):\n        1 / 0\n", "ZeroDivisionError: division by zero"),
    ],
)
def test_what_does_not_load_is_refused_where_it_is_asked_for(package: Package, code: str, says: str) -> None:
    package("shouter", "[ivsim.formats]\nshout = shouter:Shout\n", code)
    sys.modules.pop("shouter", None)
    with pytest.raises(Refusal) as refused:
        FORMATS["shout"]
    assert str(refused.value).startswith("plug-in shout of shouter 1.0 (ivsim.formats, shouter:Shout): ")
    assert says in str(refused.value)
    # Whoever asks for another part is not troubled.
    assert tuple(FORMATS) == OWN_FORMATS
    assert FORMATS["json"].name == "json"
    sys.modules.pop("shouter", None)


def test_a_name_that_is_there_stays_what_it_is(package: Package) -> None:
    package("jsoner", "[ivsim.formats]\njson = jsoner:Shout\n", GOOD)
    assert FORMATS["json"].content_type == "application/json"
    (found,) = every_table.listed()
    assert (
        found.refusal
        == "plug-in json of jsoner 1.0 (ivsim.formats, jsoner:Shout): ivsim has a part of that name"
    )
    assert tuple(FORMATS) == OWN_FORMATS


def test_two_packages_of_one_name_are_refused(package: Package) -> None:
    for name in ("shouter-a", "shouter-b"):
        package(name, f"[ivsim.formats]\nshout = {name.replace('-', '_')}:Shout\n", GOOD)
    with pytest.raises(Refusal, match=r"shouter-a 1\.0 .*: shouter-b 1\.0 has one of that name, too"):
        FORMATS["shout"]


def test_engines_and_papers_of_a_package(package: Package) -> None:
    code = (
        "from toy_study import Toy, ToyPaper as _Paper\nclass Words(_Paper):\n    '''Somebody, On Words'''\n"
    )
    package("weigher", "[ivsim.engines]\ntoy = weigher:Toy\n[ivsim.papers]\nwords = weigher:Words\n", code)
    assert engine_named("toy").summary == "weighs words"
    assert PAPERS["words"].citation == "Somebody, On Words"
    assert type(paper_of("words")).__name__ == "Words"
    assert {row.state for row in every_table.listed()} == {"usable"}
    assert "toy" in list(ENGINES)


def test_another_kind_of_thing_is_refused(package: Package) -> None:
    package("shouter", "[ivsim.protocols]\nshout = shouter:Shout\n[ivsim.formatz]\nx = shouter:Shout\n", GOOD)
    reasons = [row.refusal for row in every_table.listed()]
    assert reasons[0] is not None
    assert "ivsim.formatz, shouter:Shout): no such kind of part; there are ivsim.formats, " in reasons[0]
    assert reasons[1] is not None
    assert reasons[1].endswith("no Protocol but Shout")


def test_a_table_is_changed_like_a_dictionary() -> None:
    table: Table[int] = Table("ivsim.nothing", {"one": 1}, lambda plugin, found: found)
    table["two"] = 2
    assert dict(table) == {"one": 1, "two": 2}
    del table["one"]
    with pytest.raises(KeyError):
        table["one"]
    assert table.get("one") is None
    table.clear()
    assert len(table) == 0


def test_made_and_checked() -> None:
    assert made(dict) == {}
    with pytest.raises(ValueError, match="no dict but Plugin"):
        checked(Plugin("g", "n", "w", "p", "1"), "n", dict)


def test_the_command_lists_and_refuses(tmp_path: Path) -> None:
    write_package(tmp_path, "shouter", "[ivsim.formats]\nshout = shouter:Shout\n", GOOD)
    done = command(tmp_path, "plugins")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[1].split() == ["ivsim.formats", "shout", "shouter", "1.0", "usable"]
    write_package(
        tmp_path, "broken", "[ivsim.protocols]\nhoot = broken:Hoot\n", "raise OSError('no\\nhorn')\n"
    )
    done = command(tmp_path, "plugins")
    assert done.returncode == 2
    assert (
        done.stderr == "ivsim: plug-in hoot of broken 1.0 (ivsim.protocols, broken:Hoot): OSError: no horn\n"
    )
    # A run that does not ask for it goes on to what it is asked; one that does says why it cannot.
    assert "allowed are json, protobuf, flatbuffers, avro, msgpack, small, shout" in command(
        tmp_path, "run", "--format", "nothing").stderr  # fmt: skip
    asked = command(tmp_path, "run", "--protocol", "hoot")
    assert (asked.returncode, asked.stderr.count("\n")) == (2, 1)
    assert "plug-in hoot of broken 1.0" in asked.stderr


def test_help_reads_no_entry_points() -> None:
    program = (
        "import sys\nsys.argv = ['ivsim', '--help']\nfrom ivsim.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    print('plugins' if 'schemas.plugins' in sys.modules else 'none')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.splitlines()[-1] == "none"
