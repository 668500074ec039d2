"""What the page shows of links and fates, how it winds back, and that no text runs into another; in Chromium, without Kafka."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from schemas.topics import vehicle_id

pytestmark = [pytest.mark.browser]
SECOND_NS = 1_000_000_000
WAIT_MS = 60_000
DASH = "\N{EN DASH}"
FATES = ("in the twin", "on the way", "overtaken", "refused", "unsent")


@dataclass
class Shown:
    """A page over a fleet that the test moves second by second; vehicle 1 is chosen."""

    page: Page
    served: Any
    errors: list[str]

    def second(self, *figures: dict[str, Any], **headers: Any) -> None:
        """Let every vehicle send once, then a second pass; return when the page has both."""
        stand, page = self.served.stand, self.page
        takers = {"emissions": stand.figures.take_emissions, "link": stand.figures.take_link}
        for figure in figures:
            takers[figure["of"]](json.dumps({k: v for k, v in figure.items() if k != "of"}).encode())
        stand.fleet.take([stand.record(k, **headers) for k in range(stand.vehicles)])
        state = stand.fleet.get(vehicle_id(1)).state
        self.served.tell()
        expect(self.tile("Epoch / seq.")).to_have_text(f"{state.epoch} / {state.sequence:,}")
        frames = self.frames()
        stand.now_ns += SECOND_NS
        expect(page.locator("#when")).to_have_attribute("max", str(frames + 1))

    def frames(self) -> int:
        return int(self.page.locator("#when").get_attribute("max") or 0)

    def tile(self, label: str) -> Locator:
        return (
            self.page.locator(".tiles > div")
            .filter(has=self.page.locator("dt", has_text=label))
            .locator("dd")
        )

    def speed(self) -> Locator:
        return self.page.locator(f"[data-id={vehicle_id(1)}]").get_by_role("gridcell").first

    def fate(self, word: str) -> Locator:
        return (
            self.page.locator(".fates dl > div")
            .filter(has=self.page.locator("dt", has_text=word))
            .locator("dd")
        )


@pytest.fixture
def shown(stand: Callable[..., Any], served: Callable[..., Any], chromium: Browser) -> Iterator[Shown]:
    fleet = stand(3)
    fleet.take_all()
    service = served(fleet)
    with chromium.new_context(viewport={"width": 1440, "height": 900}) as context:
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"{service.url}#vehicle={vehicle_id(1)}")
        made = Shown(page, service, errors)
        expect(made.tile("Epoch / seq.")).to_have_text("1 / 1")
        while not made.frames():  # its first second is noted with the service's next summary
            fleet.now_ns += SECOND_NS
            page.wait_for_timeout(200)
        yield made
    assert errors == []


def road(vehicle: int, second: int, uplink_bps: float | None, **more: float) -> dict[str, Any]:
    told = {"rtt_ms": 68.0, "uplink_loss_ratio": 0.01, "downlink_loss_ratio": 0.0, "downlink_rate_bps": 5e6}
    name = {"of": "link", "vehicle_id": vehicle_id(vehicle), "second": second}
    return {**name, "uplink_rate_bps": uplink_bps, **told, **more}


def test_what_a_vehicles_link_gives_now_is_shown(shown: Shown) -> None:
    expect(shown.tile("Link gives")).to_have_text(DASH)
    shown.second(road(1, 10, 1_990_646.0))
    expect(shown.tile("Link gives")).to_have_text("1.99 Mbit/s / 5.00 Mbit/s")
    expect(shown.tile("Link's RTT")).to_have_text("68 ms")
    expect(shown.tile("Link's loss")).to_have_text("0.010 / 0.000")
    expect(shown.page.locator(".chart h3", has_text="Link gives")).to_have_count(1)
    shown.second(road(1, 11, 0.0))
    expect(shown.tile("Link gives")).to_have_text("outage / 5.00 Mbit/s")
    shown.second(road(1, 12, None))
    expect(shown.tile("Link gives")).to_have_text("unlimited / 5.00 Mbit/s")
    shown.page.locator("#colour").select_option("link")
    expect(shown.page.locator("#legend")).to_contain_text("10 Mbit/s")


def test_fates_are_told_as_they_happen(shown: Shown) -> None:
    def emitted(vehicle: int, emitted: int, unsent: int = 0, refused: int = 0) -> dict[str, Any]:
        counts = {"emitted": emitted, "unsent": unsent, "refused": refused}
        return {"of": "emissions", "vehicle_id": vehicle_id(vehicle), "second": 10, **counts}

    expect(shown.fate("in the twin")).to_have_text(DASH)  # the emission log has not said anything
    # Ten emitted: six in the twin, one refused, one overtaken by a later one, two not there yet; one never left.
    shown.second(emitted(1, 10, unsent=1, refused=1), messages=7, duplicates=1, gaps=3)
    for word, count in zip(FATES, ("6", "2", "1", "1", "1"), strict=True):
        expect(shown.fate(word)).to_have_text(count)
    shares = shown.page.locator(".fate").evaluate_all(
        "parts => parts.map(part => Number(part.style.flexGrow))"
    )
    assert shares == pytest.approx([6 / 11, 2 / 11, 1 / 11, 1 / 11, 1 / 11])
    shown.second(messages=9, duplicates=1, gaps=3)
    for word, count in zip(FATES, ("8", "0", "1", "1", "1"), strict=True):
        expect(shown.fate(word)).to_have_text(count)
    # The fleet's are sums, and unknown while those of one vehicle are.
    shown.page.keyboard.press("Escape")
    expect(shown.page.locator("#detail-name")).to_have_text("Fleet over time")
    expect(shown.fate("in the twin")).to_have_text(DASH)
    for vehicle in (2, 3):
        figures = shown.served.stand.figures
        figures.take_emissions(
            json.dumps({k: v for k, v in emitted(vehicle, 9).items() if k != "of"}).encode()
        )
    shown.served.stand.now_ns += SECOND_NS
    shown.served.tell()
    expect(shown.fate("in the twin")).to_have_text("24")


def test_senders_and_parts_are_shown_while_the_run_goes(shown: Shown) -> None:
    def figure(label: str) -> Locator:
        return (
            shown.page.locator("#figures > div")
            .filter(has=shown.page.locator("dt", has_text=label))
            .locator("dd")
        )

    expect(figure("Offered")).to_have_text(f"{DASH} / {DASH}")
    told = {"fleet_offered": 1_200, "fleet_emitted": 1_190, "fleet_emission_lag_max_ms": 1.25}
    shown.second({"of": "emissions", **told, "cores_sender": 0.304, "cores_kafka": 0.1})
    expect(figure("Offered")).to_have_text("1,200 / 1,190")
    expect(figure("Emission lag")).to_have_text("1.3 ms")
    shown.page.keyboard.press("Escape")
    expect(shown.page.locator("#detail")).to_contain_text("CPU in cores: sender 0.30 · kafka 0.10")


def test_the_page_winds_back_while_the_run_goes_and_when_it_is_over(shown: Shown) -> None:
    page = shown.page
    slider, said = page.locator("#when"), page.locator("#said")
    expect(page.locator("#back")).to_have_attribute("aria-pressed", "true")
    seen = []
    for second in range(4):
        shown.second(road(1, 10 + second, 1e6 * (second + 1)))
        seen.append((shown.tile("Epoch / seq.").text_content(), shown.speed().text_content()))
    before = page.locator("#map").evaluate("c => c.toDataURL()")
    slider.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(said).to_contain_text("0:02 before the end")
    expect(slider).to_have_attribute("aria-valuetext", said.text_content() or "")
    expect(shown.tile("Epoch / seq.")).to_have_text(seen[1][0])
    expect(shown.speed()).to_have_text(seen[1][1])
    page.locator("#map").evaluate(
        """(map, before) => new Promise(done => {
            const look = () => map.toDataURL() === before ? requestAnimationFrame(look) : done();
            look(); })""",
        before,
    )
    # What comes in meanwhile moves nothing that is shown, and is there when one comes back.
    stand, frames = shown.served.stand, shown.frames()
    stand.take_all()
    shown.served.tell()
    stand.now_ns += SECOND_NS
    expect(slider).to_have_attribute("max", str(frames + 1))
    expect(shown.tile("Epoch / seq.")).to_have_text(seen[1][0])
    page.locator("#back").click()
    expect(said).to_have_text("now")
    expect(shown.tile("Epoch / seq.")).to_have_text("1 / 6")
    stand.now_ns += SECOND_NS
    expect(slider).to_have_attribute("max", str(frames + 2))
    # The run is over and its service gone.
    shown.served.stop()
    expect(page.locator("#connection")).to_contain_text("connection lost")
    slider.focus()
    page.keyboard.press("Home")
    expect(shown.tile("Epoch / seq.")).to_have_text("1 / 1")
    page.locator("#play").click()
    expect(page.locator("#play")).to_have_attribute("aria-label", "Pause")
    expect(shown.tile("Epoch / seq.")).to_have_text("1 / 6")
    expect(page.locator("#play")).to_have_attribute("aria-label", "Play from here")


def test_a_long_timeline_keeps_its_bounds_and_its_beginning(shown: Shown) -> None:
    kept = shown.page.evaluate(
        """async () => {
            const { Timeline } = await import("/page/timeline.js");
            const timeline = new Timeline(100);
            const vehicles = new Map([1, 2, 3].map((id) => [id, { id, row: [id], figures: null, live: null }]));
            let most = 0;
            for (let k = 0; k < 1000; k++) { timeline.add(1000 * (k + 1), {}, vehicles); most = Math.max(most, timeline.kept); }
            return [most, timeline.frames.map((frame) => frame.atMs / 1000)];
        }"""
    )
    assert kept[0] <= 100
    seconds = kept[1]
    assert seconds[0] == 1
    assert {b - a for a, b in pairwise(seconds)} == {32}
    assert seconds[-1] > 1000 - 32


def test_no_two_lines_of_a_chart_have_the_same_number(shown: Shown) -> None:
    """A ratio near 1 had three lines of 1.000."""
    said = shown.page.evaluate(
        """async () => {
            const { tick } = await import("/page/chart.js");
            const { ageTick } = await import("/page/format.js");
            const found = [];
            for (const low of [0, 0.9994, 1, 37, 12_345, 2_000_000])
                for (let span = Math.max(1e-4, low / 1e5); span < 1e7; span *= 3.7)
                    for (const text of [tick, ageTick]) found.push([0, 0.5, 1].map((share) => text(low + span * share, span / 2)));
            return found;
        }"""
    )
    assert len(said) > 100
    assert [lines for lines in said if len(set(lines)) < 3] == []


@pytest.mark.parametrize("width", [1100, 1440])
def test_no_value_runs_out_of_its_place(shown: Shown, width: int) -> None:
    """As wide as values get; of each text with its own box none is cut or lies over its neighbour."""
    shown.page.set_viewport_size({"width": width, "height": 900})
    big = {
        "of": "emissions",
        "vehicle_id": vehicle_id(1),
        "second": 10,
        "emitted": 1_234_567,
        "unsent": 98_765,
    }
    run = {"vehicle_id": vehicle_id(1), "window_start_s": None}
    late = {"end_to_end_latency_p50_ms": 123_456.0, "end_to_end_latency_p99_ms": 1_234_567.0}
    shown.served.stand.figures.take_metrics(json.dumps(run | late).encode())
    window = {"vehicle_id": "*", "window_start_s": 10, **late}
    shown.served.stand.figures.take_metrics(json.dumps(window).encode())
    shown.second(big, road(1, 10, 123_456_789.0), messages=1_134_567, gaps=12_345)
    expect(shown.tile("p50 / p99")).to_contain_text("123 / 1,235 s")
    expect(shown.page.locator("#figures")).to_contain_text("123 / 1,235 s")
    cut = shown.page.evaluate(
        """() => [...document.querySelectorAll(".tiles dd, .figures dd, .fates dd, #said")]
            .filter((cell) => cell.scrollWidth > cell.clientWidth && cell.clientWidth)
            .map((cell) => cell.textContent)"""
    )
    assert cut == []
    over = shown.page.evaluate(
        """() => {
            const cells = [...document.querySelectorAll(".tiles dt, .tiles dd")];
            const boxes = cells.map((cell) => [cell.textContent, cell.getBoundingClientRect()]);
            const across = (a, b) => a.left < b.right - 1 && b.left < a.right - 1;
            const meet = (a, b) => across(a, b) && a.top < b.bottom - 1 && b.top < a.bottom - 1;
            return boxes.flatMap(([text, a], k) =>
                boxes.slice(k + 1).filter(([, b]) => meet(a, b)).map(([other]) => [text, other]));
        }"""
    )
    assert over == []
