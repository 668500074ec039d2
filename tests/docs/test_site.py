"""The site: it is built, every link in it leads somewhere, it asks nobody for anything, and it can be read at two widths."""

from __future__ import annotations

import importlib.util
import posixpath
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import Page, sync_playwright

import ivsim
from gateways.protocols import PROTOCOLS
from ivsim.commands import COMMANDS
from ivsim.option_signature import mode_words
from ivsim.options import OPTIONS
from tests.twin.service.conftest import CHROMIUM, CHROMIUM_OPTIONS

ROOT = Path(__file__).resolve().parents[2]
SHOWN = (
    "index",
    "tutorial",
    "options",
    "results",
    "glossary",
    "reference/library",
    "reference/commands/run",
    "gallery/studies",
)


def _builder():
    spec = importlib.util.spec_from_file_location("build_site", ROOT / "setup/build_site.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


class Links(HTMLParser):
    """What a page refers to and what may be referred to in it."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if given.get("id"):
            self.anchors.add(str(given["id"]))
        if tag == "a" and given.get("href"):
            self.targets.append(str(given["href"]))
        elif tag in {"img", "script", "link", "iframe", "source"}:
            self.loaded += [str(given[name]) for name in ("src", "href") if given.get(name)]


# --- without building it ---------------------------------------------------------------------------------------------
def test_a_link_is_turned_to_where_its_target_stands() -> None:
    builder = _builder()
    there = builder.documents()
    turned = builder.turned(
        "[a](../../studies/tunnel/report.md#results) [b](../link.md)", "how-to/gate.md", there
    )
    assert turned == "[a](../gallery/tunnel/report.md#results) [b](../link.md)"
    assert builder.turned("[a](docs/link.md)", "contributing.md", there) == "[a](link.md)"
    assert builder.turned("[a](../Makefile)", "link.md", there) == "[a](../Makefile)"


def test_every_page_is_in_the_navigation() -> None:
    builder = _builder()
    listed = {f"{page}.md" for pages in builder.NAVIGATION.values() for page in pages}
    pages = {name for name in builder.documents() if name.endswith(".md") and name.count("/") <= 1}
    elsewhere = ("decisions/", "gallery/", "index.md")  # in lists of their own, and the first page itself
    assert sorted(page for page in pages - listed if not page.startswith(elsewhere)) == []


def test_every_link_of_a_page_leads_to_another_of_the_site() -> None:
    builder = _builder()
    there = builder.documents()
    pages = set(there) | set(builder.made())
    nowhere = []
    for site, file in there.items():
        if not site.endswith(".md") or site in builder.OUTSIDE:
            continue
        for target, _ in builder.LINK.findall(builder.turned((ROOT / file).read_text(), site, there)):
            if posixpath.normpath(posixpath.join(posixpath.dirname(site), target)) not in pages:
                nowhere.append(f"{file}: {target}")
    assert nowhere == []


def test_every_command_option_and_public_name_has_its_place() -> None:
    made = _builder().made()
    assert {f"reference/commands/{name}.md" for name in COMMANDS} <= set(made)
    run = made["reference/commands/run.md"]
    typed = [one.word for one in OPTIONS.values() if one.option.cli and not one.option.hidden]
    typed += [word.typed.partition("/")[0] for word in mode_words(PROTOCOLS.values())]
    assert [word for word in typed if f"`{word}" not in run] == []
    assert [name for name in ivsim.__all__ if f":: ivsim.{name}" not in made["reference/library.md"]] == []


def test_the_front_page_names_what_the_site_alone_has() -> None:
    assert _builder().ONLY_HERE[0] in (ROOT / "docs/index.md").read_text()


def test_every_report_of_a_study_is_in_the_gallery() -> None:
    gallery = (ROOT / "docs/gallery.md").read_text()
    assert [
        report
        for report in _builder().reports()
        if f"../studies/{report.parent.name}/report.md" not in gallery
    ] == []


# --- built -----------------------------------------------------------------------------------------------------------
# Of the session: tests come in the order of their marks, with those of other files in between.
@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, ROOT / "setup/build_site.py", target], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return target


@pytest.mark.slow
def test_every_link_of_a_document_leads_to_a_file() -> None:
    """Places within a page, and the site as a whole, are `make test-all`'s: Sphinx takes half a minute for them."""
    builder = _builder()
    pages = {ROOT / path for path in builder.documents().values() if path.endswith(".md")} | {
        ROOT / "README.md"
    }
    links = [
        (page, match[1])
        for page in pages
        for match in builder.LINK.finditer(page.read_text(encoding="utf-8"))
    ]
    assert len(links) > 100
    assert [(page.name, link) for page, link in links if not (page.parent / unquote(link)).exists()] == []


@pytest.mark.full
@pytest.mark.slow
def test_every_link_of_the_site_leads_somewhere_in_it(site: Path) -> None:
    pages = {page: Links(page) for page in site.rglob("*.html")}
    assert len(pages) > 50
    lost = []
    for page, links in pages.items():
        for target in [*links.targets, *links.loaded]:
            parts = urlsplit(target)
            if parts.scheme in {"https", "http", "mailto"} and target in links.targets:
                continue  # a link to read elsewhere is not followed; nothing is loaded from there
            file = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            there = not parts.scheme and file.is_file()
            if not there or (
                parts.fragment and file in pages and unquote(parts.fragment) not in pages[file].anchors
            ):
                lost.append((str(page.relative_to(site)), target))
    assert lost == []


@pytest.mark.slow
@pytest.mark.parametrize("link", ["nowhere.md", "index.md#nowhere", "../Makefile"])
def test_a_broken_link_ends_the_build(link: str, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "index.md").write_text(f"# A page\n\n[broken]({link})\n")
    assert _builder().build(source, tmp_path / "site") != 0


@pytest.fixture(scope="module", params=[(1280, 900), (400, 800)], ids=["wide", "narrow"])
def page(request: pytest.FixtureRequest, site: Path) -> Iterator[Page]:
    """A browser's page of one size; what it asks of anybody but the folder, and what goes wrong in it, is kept."""
    width, height = request.param
    seen: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_OPTIONS)
        opened = browser.new_page(viewport={"width": width, "height": height})
        opened.on("pageerror", lambda error: seen.append(str(error)))
        opened.on(
            "request",
            lambda asked: None if asked.url.startswith(("file:", "data:")) else seen.append(asked.url),
        )
        yield opened
        browser.close()
    assert seen == []


@pytest.mark.full
@pytest.mark.browser
@pytest.mark.parametrize("name", SHOWN)
def test_a_page_fits_its_window_and_its_pictures_are_there(page: Page, site: Path, name: str) -> None:
    page.goto((site / f"{name}.html").as_uri())
    assert page.locator("h1").first.is_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert (
        page.evaluate("[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)") == []
    )


@pytest.mark.full
@pytest.mark.browser
def test_the_search_finds_a_word_without_a_server(page: Page, site: Path) -> None:
    page.goto((site / "search.html").as_uri() + "?q=certificate")
    page.locator("#search-results li a[href^='tutorial.html']").first.wait_for()
