"""The page in headless Chromium over a real service: live, by keyboard alone, at 1,000 vehicles, behind a token."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from bench.twin_load import Load, state_headers
from ivsim.testbed.kafka_admin import create_topics
from ivsim.testbed.registry import RunRecord
from schemas.formats import FORMATS
from schemas.generated import current_status_pb2 as pb
from schemas.topics import KafkaTopics, vehicle_id
from tests.twin.service.test_service_kafka import WAIT_S, start

pytestmark = [pytest.mark.kafka, pytest.mark.browser]
WAIT_MS = WAIT_S * 1000
expect.set_options(timeout=WAIT_MS)
TOKEN = "a-token-of-the-test-alone"


@dataclass
class Shown:
    page: Page
    load: Load
    url: str
    seen: list[str]

    def rows(self) -> list[str]:
        return self.page.locator("#space .row").evaluate_all(
            "rows => rows.sort((a, b) => a.dataset.k - b.dataset.k).map(row => row.dataset.id)"
        )

    def open(self, vehicles: int) -> None:
        self.page.goto(self.url)
        expect(self.page.locator("#count")).to_have_text(f"{vehicles:,}")


@pytest.fixture
def shown(
    kafka: str, run_record: RunRecord, chromium: Browser, request: pytest.FixtureRequest
) -> Iterator[Shown]:
    """A page over a fleet of `request.param` vehicles that all have sent two states."""
    topics = KafkaTopics(f"page{uuid.uuid4().hex[:8]}.")
    create_topics(kafka, topics)
    load = Load(kafka, topics, getattr(request, "param", 12))
    load.all()
    load.all()
    child, client = start(kafka, topics, run_record, title="a test", stale_after_s=3_600.0)
    context = chromium.new_context(viewport={"width": 1440, "height": 900}, color_scheme="light")
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    seen: list[str] = []
    page.on("pageerror", lambda error: seen.append(str(error)))
    page.on("console", lambda message: seen.append(message.text) if message.type == "error" else None)
    page.on(
        "request",
        lambda asked: None if asked.url.startswith(str(client.base_url)) else seen.append(asked.url),
    )
    made = Shown(page, load, str(client.base_url), seen)
    yield made
    context.close()
    client.close()
    child.stop()
    assert seen == []


def test_the_fleet_is_shown_and_moves(shown: Shown) -> None:
    shown.open(12)
    expect(shown.page.locator("#connection")).to_have_text("live")
    expect(shown.page.locator("#title")).to_have_text("a test")
    assert shown.rows() == [vehicle_id(k) for k in range(1, 13)]
    before = shown.page.locator("#map").evaluate("c => c.toDataURL()")
    for _ in range(3):
        shown.load.all()
    shown.page.locator(f"[data-id={vehicle_id(3)}]").click()
    expect(shown.page.locator(".tiles")).to_contain_text("1 / 5")
    # Drawn with one of the next frames, not with the tiles. The page's policy forbids what wait_for_function does.
    shown.page.locator("#map").evaluate(
        """(map, before) => new Promise(done => {
            const look = () => map.toDataURL() === before ? requestAnimationFrame(look) : done();
            look(); })""",
        before,
    )


def test_the_fleet_that_is_found_is_no_update(shown: Shown) -> None:
    shown.open(12)
    # Whatever the figure says over three of its seconds, of a fleet in which nothing changes.
    said = shown.page.locator("#figures div").filter(has_text="Updates").locator("dd").evaluate(
        """dd => new Promise(done => {
            const said = new Set(), end = performance.now() + 3000;
            const look = () => {
              said.add(dd.textContent);
              performance.now() < end ? requestAnimationFrame(look) : done([...said]);
            };
            look(); })"""
    )  # fmt: skip
    assert "0 /s" in said
    assert set(said) <= {"0 /s", "\N{EN DASH}"}


def test_a_place_that_is_nowhere_is_counted_and_moves_no_map(shown: Shown) -> None:
    shown.open(12)
    page, load = shown.page, shown.load
    expect(page.locator("#unplaced")).to_be_hidden()
    status, sequence = load.fleet.status(4, time.time_ns())
    message = pb.CurrentStatus.FromString(FORMATS["protobuf"].encode(status))
    message.position.latitude_deg = 999.0
    headers = state_headers(sequence, time.time_ns(), given_up=3)
    load.send(vehicle_id(5), message.SerializeToString(), headers)
    load.send(vehicle_id(6), b"", headers)  # kept out
    load.flush()
    expect(page.locator("#unplaced")).to_have_text("position unknown: 1")
    page.locator("#which").select_option("unplaced")
    expect(page.locator("#count")).to_have_text("1 of 12")
    tile = page.locator(".tiles > div")
    expect(tile.filter(has_text="Given up")).to_contain_text("3")
    rejected = tile.filter(has_text="Rejected")
    expect(rejected).to_contain_text("1")
    expect(rejected).to_have_attribute("title", "bad_payload: 1")
    page.locator(f"[data-id={vehicle_id(5)}]").click()
    expect(page.locator(".badges")).to_contain_text("position out of range: latitude 999")
    load.one(4)  # it is somewhere again
    load.flush()
    expect(page.locator("#unplaced")).to_be_hidden()


def test_the_table_filters_and_sorts(shown: Shown) -> None:
    shown.open(12)
    shown.page.locator("#find").fill("hybrid")
    expect(shown.page.locator("#count")).to_have_text("4 of 12")
    shown.page.locator("#find").fill("hybrid 000003")
    expect(shown.page.locator("#count")).to_have_text("1 of 12")
    shown.page.locator("#find").fill("")
    header = shown.page.get_by_role("columnheader", name="km/h")
    for wanted, sign in (("descending", -1), ("ascending", 1)):
        header.get_by_role("button").click()
        expect(header).to_have_attribute("aria-sort", wanted)
        speeds = shown.page.locator("#space .row").evaluate_all(
            "rows => rows.sort((a, b) => a.dataset.k - b.dataset.k).map(row => Number(row.children[1].textContent))"
        )
        assert speeds == sorted(speeds, key=lambda speed: sign * speed)


def test_the_page_works_by_keyboard_alone(shown: Shown) -> None:
    shown.open(12)
    page = shown.page
    page.keyboard.press("/")
    expect(page.locator("#find")).to_be_focused()
    page.keyboard.press("ArrowDown")
    for key, k in {"ArrowDown": 2, "End": 12, "ArrowUp": 11, "Home": 1}.items():
        page.keyboard.press(key)
        row = page.locator(f"[data-id={vehicle_id(k)}]")
        expect(row).to_be_focused()
        assert row.evaluate("row => getComputedStyle(row).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    expect(page.locator(f"[data-id={vehicle_id(1)}]")).to_have_attribute("aria-selected", "true")
    expect(page.locator("#detail-name")).to_have_text(vehicle_id(1))
    page.keyboard.press("Escape")
    expect(page.locator("#detail-name")).to_have_text("Fleet over time")
    page.locator("#map").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#fit")).to_have_attribute("aria-pressed", "false")
    page.keyboard.press("f")
    expect(page.locator("#fit")).to_have_attribute("aria-pressed", "true")


def test_tab_reaches_everything_and_the_grid_is_one_stop(shown: Shown) -> None:
    shown.open(12)
    page = shown.page
    reached = []
    for _ in range(30):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate("(e => e.id || e.className || e.textContent)(document.activeElement)").split()[0]
        )
    for name in ("theme", "colour", "fit", "map", "find", "which", "row"):
        assert name in reached
    assert reached.count("row") <= 2


def test_a_vehicles_signals_are_drawn_over_time_and_can_be_chosen(shown: Shown) -> None:
    shown.open(12)
    page = shown.page
    page.locator(f"[data-id={vehicle_id(3)}]").click()
    expect(page.locator(".chart")).to_have_count(6)
    expect(page.locator(".chart h3").first).to_have_text("ground speed")
    page.locator("details summary").click()
    page.locator(".signals label").filter(has_text="yaw rate").locator("input").check()
    expect(page.locator(".chart")).to_have_count(7)
    before = page.locator(".chart output").first.text_content()
    for _ in range(4):
        shown.load.all()
    expect(page.locator(".chart output").first).not_to_have_text(before or "")
    assert page.url.endswith(f"#vehicle={vehicle_id(3)}")
    page.reload()
    expect(page.locator("#detail-name")).to_have_text(vehicle_id(3))


@pytest.mark.full
@pytest.mark.parametrize("shown", [1_000], indirect=True)
def test_a_thousand_vehicles_stay_smooth(shown: Shown) -> None:
    shown.open(1_000)
    page = shown.page
    assert page.locator("#space .row").count() < 60
    stop = threading.Event()

    def drive() -> None:
        while not stop.is_set():
            shown.load.all()

    driver = threading.Thread(target=drive)
    driver.start()
    try:
        # No timed promise: only that the page is not frozen while a thousand vehicles drive.
        page.evaluate(
            """() => new Promise(done => {
                let frames = 0;
                const count = () => ++frames > 10 ? done() : requestAnimationFrame(count);
                count(); })"""
        )
        page.locator("#find").fill("000999")
        expect(page.locator("#count")).to_have_text("1 of 1,000")
        page.locator("#find").fill("")
        page.locator("#grid").evaluate("grid => { grid.scrollTop = grid.scrollHeight; }")
        expect(page.locator(f"[data-id={vehicle_id(1000)}]")).to_be_visible()
    finally:
        stop.set()
        driver.join()


@pytest.mark.full
def test_dark_light_and_paper(shown: Shown, tmp_path: Path) -> None:
    shown.open(12)
    page = shown.page
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.emulate_media(color_scheme="dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    page.locator("#theme").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    page.pdf(path=tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").stat().st_size > 10_000
    expect(page.locator("html")).to_have_attribute("data-theme", "light")


def test_the_page_asks_for_the_token_and_does_not_leak_it(
    kafka: str, run_record: RunRecord, chromium: Browser, tmp_path: Path
) -> None:
    topics = KafkaTopics(f"lock{uuid.uuid4().hex[:8]}.")
    create_topics(kafka, topics)
    Load(kafka, topics, 2).all()
    (tmp_path / "token").write_text(TOKEN)
    child, client = start(kafka, topics, run_record, token_file=str(tmp_path / "token"))
    context = chromium.new_context()
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(str(client.base_url))
    page.locator("#token").fill("not-the-right-token")
    page.locator("#token").press("Enter")
    expect(page.locator("#login-error")).to_contain_text("not the token")
    page.locator("#token").fill(TOKEN)
    page.locator("#token").press("Enter")
    expect(page.locator("#count")).to_have_text("2")
    assert page.evaluate("document.cookie + JSON.stringify(localStorage)").find(TOKEN) < 0
    context.close()
    # Handed over behind the #, which no server sees.
    with chromium.new_context() as other:
        page = other.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{client.base_url}#token={TOKEN}")
        expect(page.locator("#count")).to_have_text("2")
        assert TOKEN not in page.url
    client.close()
    child.stop()
    assert not [url for url in asked if TOKEN in url.partition("#")[0]]
    assert TOKEN not in child.log_path.read_text()
