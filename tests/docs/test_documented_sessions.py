"""The tutorial and the how-tos, done as they say: their files, their commands, and what comes out."""

from __future__ import annotations

import ast
import json
import re
import tomllib
import types
from contextlib import suppress
from pathlib import Path

import cbor2
import msgspec
import pytest
from end_to_end_runs import ended_in_order
from hypothesis import example, given
from hypothesis import strategies as st
from playwright.sync_api import sync_playwright

from ivsim import run_options
from ivsim.options import OPTIONS
from ivsim.study.corpus import START_AT_NS, driving
from ivsim.thresholds import parse
from schemas.errors import PayloadError
from schemas.formats import FORMATS
from tests.docs.console import alike, follow, section, steps
from tests.ivsim.audit.made_up_result import made_up_result
from tests.twin.service.conftest import CHROMIUM, CHROMIUM_OPTIONS

DOCS = Path(__file__).resolve().parents[2] / "docs"
TUTORIAL = (DOCS / "tutorial.md").read_text()
STUDY = "First study of your own"
ON_A_LINK = ("Install", "First run", "Read the report", "What the certificate says")


def read_in_a_browser(report: Path) -> None:
    """The report shows what the tutorial says of it, and loads nothing from anywhere."""
    asked: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_OPTIONS)
        page = browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.goto(report.as_uri())
        for heading in re.findall(r"\*([^*]+)\*", section(TUTORIAL, "Read the report")):
            page.get_by_role("heading", name=heading, exact=True).wait_for()
        browser.close()
    assert asked == [report.as_uri()]


@pytest.mark.browser
def test_a_report_reads_as_the_tutorial_says(tmp_path: Path) -> None:
    read_in_a_browser(made_up_result(tmp_path / "made-up") / "report.html")


@pytest.mark.full
@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.broker
@pytest.mark.browser
@pytest.mark.netns
@pytest.mark.timeout(600)
def test_the_tutorials_run_is_as_it_says(tmp_path: Path) -> None:
    def busy(command: str, code: int) -> bool:
        """A machine with other work may make a run invalid by itself, and the page says that it then ends with 4."""
        metrics = tmp_path / "results/first/metrics.json"
        return (
            command.startswith("ivsim run")
            and metrics.is_file()
            and ended_in_order(code, json.loads(metrics.read_text()))
        )

    assert follow(section(TUTORIAL, *ON_A_LINK), tmp_path, busy) >= 4
    assert list((tmp_path / "state").iterdir()) == []
    read_in_a_browser(tmp_path / "results/first/report.html")


@pytest.mark.full
@pytest.mark.slow
def test_the_tutorials_study_is_as_it_says(tmp_path: Path) -> None:
    assert follow(section(TUTORIAL, STUDY), tmp_path) >= 3


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["how-to/own-trace", "how-to/papers-claim", "how-to/gate", "how-to/kafka-client", "studies"]
)
def test_a_page_is_as_it_says(name: str, tmp_path: Path) -> None:
    assert follow((DOCS / f"{name}.md").read_text(), tmp_path) >= 1


def test_every_session_of_these_pages_is_followed() -> None:
    headings = re.findall(r"^## (.+)$", TUTORIAL, re.MULTILINE)
    left = [heading for heading in headings if heading not in {STUDY, *ON_A_LINK}]
    assert list(steps(section(TUTORIAL, *left))) == []
    with_commands = {
        page.stem for page in DOCS.rglob("*.md") if any(s.command for s in steps(page.read_text()))
    }
    # traces.md has a test of its own: tests/simulator/traces/test_trace_docs.py.
    assert with_commands == {
        "tutorial",
        "own-trace",
        "papers-claim",
        "gate",
        "kafka-client",
        "studies",
        "traces",
    }


def test_dots_stand_for_anything_and_nothing_else_does() -> None:
    assert alike("a ... c\n", "a b\n  b c")
    assert alike("...\nlast", "first\nlast")
    assert not alike("a ... c", "a b d")
    assert not alike("", "unexpected")


def test_the_options_for_ci_are_options() -> None:
    shown = [step for step in steps((DOCS / "how-to/gate.md").read_text()) if step.file == "ci.toml"]
    assert run_options(**tomllib.loads(shown[0].text)).vehicles == 20


def test_every_threshold_that_is_shown_is_one() -> None:
    others = {"FIGURE COMPARISON VALUE", "p98(end_to_end) < 1s"}  # the form, and one whose refusal is shown
    shown = {
        text for page in DOCS.rglob("*.md") for text in re.findall(r"--threshold '([^']+)'", page.read_text())
    }
    assert len(shown - others) >= 3
    assert [parse(text).text for text in sorted(shown - others)] == sorted(shown - others)


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda path: path.stem)
def test_python_in_a_document_is_python_and_gives_runs_options_that_there_are(page: Path) -> None:
    for block in re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "run":
                names = {keyword.arg for keyword in node.keywords}
                assert names <= {*OPTIONS, "testbed", "output", "quiet"}, page.name


@pytest.fixture(scope="module")
def own_format():
    shown = [step for step in steps((DOCS / "how-to/own-format.md").read_text()) if step.file]
    assert [step.file for step in shown] == ["schemas/formats/cborjson.py"]
    example = DOCS.parent / "examples/ivsim-cborjson/ivsim_cborjson/__init__.py"
    assert example.read_text() == shown[0].text
    module = types.ModuleType("cborjson")
    exec(compile(shown[0].text, "cborjson.py", "exec"), module.__dict__)
    return module.CborJson()


def test_the_format_of_the_how_to_keeps_its_promises(own_format) -> None:
    vehicle = driving("rigid", seed=11)
    for k in range(1, 20):
        vehicle.advance(120_000_000_000 + k * 1_000_000_000)
        status = vehicle.status(k, 1, START_AT_NS + k * 1_000_000_000, vehicle.cause)
        payload = own_format.encode(status)
        assert own_format.decode(payload) == status
        peek = own_format.peek(payload)
        assert (peek.sequence, peek.epoch) == (k, 1)
        assert peek.vehicle_id.encode() in payload


@given(payload=st.binary(max_size=200))
@example(payload=b"\xa0")  # an empty map: a status without a header, as JSON's {} is one
def test_the_format_of_the_how_to_refuses_what_is_not_its_own(own_format, payload: bytes) -> None:
    with pytest.raises(PayloadError, match="cborjson"):
        own_format.peek(payload)
    with suppress(PayloadError):
        read = own_format.decode(payload)
        assert FORMATS["json"].decode(msgspec.json.encode(cbor2.loads(payload))) == read
