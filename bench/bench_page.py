"""Measures the twin service's page in Chromium: frames/s of the whole page, and one drawing of its map and its charts.

`python -m bench.bench_page --libraries DIR` also draws the same with uPlot and Leaflet, whose packages are unpacked in
DIR/uplot and DIR/leaflet (`npm pack uplot@1.6.32 leaflet@1.9.4`).
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from playwright.sync_api import Page, sync_playwright

from bench.bench_service import CHROMIUM, OPTIONS
from bench.twin_load import Fleet as Drivers
from bench.twin_load import state_headers
from schemas.formats import FORMATS
from schemas.topics import vehicle_id
from twin.service.api import make_app
from twin.service.config import ServiceConfig
from twin.service.fleet import Fleet, Record
from twin.service.live_metrics import Figures
from twin.service.queries import Ask
from twin.service.stream import Changed

VEHICLES = (1_000, 5_000)
DRIVERS = 60
SECONDS = 10
PAGE = Path(__file__).parents[1] / "twin" / "service" / "page"
COUNT = """async seconds => {
  const { FleetMap } = await import("/page/map.js");
  const draw = FleetMap.prototype.draw;
  const took = [];
  FleetMap.prototype.draw = function () { const t = performance.now(); draw.call(this); took.push(performance.now() - t); };
  const began = performance.now();
  await new Promise(done => setTimeout(done, seconds * 1000));
  FleetMap.prototype.draw = draw;
  took.sort((a, b) => a - b);
  return [1000 * took.length / (performance.now() - began), took[took.length >> 1], took[Math.floor(took.length * .95)]];
}"""
DRAW = (Path(__file__).parent / "page_drawings.js").read_text(encoding="utf-8").partition("\n")[2]


def main() -> None:
    """Print what each figure is, and the bound that there is for it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--libraries", type=Path)
    libraries = parser.parse_args().libraries
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        print(
            "frames of the map a second, the whole page open, each vehicle sends once a second (at least 30 with 5,000)"
        )
        for vehicles in VEHICLES:
            with driven(vehicles) as url:
                page = browser.new_page(viewport={"width": 1440, "height": 900})
                page.goto(url)
                page.locator("#space .row").first.wait_for(timeout=60_000)
                page.wait_for_timeout(3_000)
                per_s, median_ms, p95_ms = page.evaluate(COUNT, SECONDS)
                print(
                    f"  {vehicles:6,} vehicles: {per_s:5.1f}/s, a drawing takes {median_ms:.1f} ms, p95 {p95_ms:.1f} ms",
                    flush=True,
                )
                page.close()
        print("one drawing, its pixels read, ms (median)")
        with driven(1) as url:
            for name, took_ms in drawn(browser.new_page(), url, libraries).items():
                print(f"  {name:24} {took_ms:7.2f}", flush=True)
        browser.close()
    print("bytes of script, gzip")
    for name, files in scripts(libraries).items():
        print(f"  {name:24} {sum(len(gzip.compress(file.read_bytes())) for file in files):7,}")


def drawn(page: Page, url: str, libraries: Path | None) -> dict[str, float]:
    """Return what each drawing takes, on an empty page of the service's origin."""
    files = {file.name: file for part in scripts(libraries).values() for file in part} if libraries else {}

    def answer(route: Any) -> None:
        name = route.request.url.rpartition("/")[2]
        if "/library/" in route.request.url:
            route.fulfill(path=files.get(name) or _style(libraries, name))
        else:
            route.fulfill(body="<!doctype html><body>", content_type="text/html")

    page.route("**/library/*", answer)
    page.route("**/empty.html", answer)
    page.goto(f"{url}empty.html")
    found: dict[str, float] = page.evaluate(DRAW, libraries is not None)
    page.close()
    return found


def _style(libraries: Path | None, name: str) -> Path:
    assert libraries is not None
    return next(libraries.glob(f"*/package/dist/{name}"))


def scripts(libraries: Path | None) -> dict[str, list[Path]]:
    """Return the script files of our charts and map, and of what would stand in their place."""
    found = {"chart: own": [PAGE / "chart.js"], "map: own": [PAGE / "map.js", PAGE / "grid.js"]}
    if libraries is not None:
        found["chart: uPlot"] = [libraries / "uplot/package/dist/uPlot.iife.min.js"]
        found["map: Leaflet"] = [libraries / "leaflet/package/dist/leaflet.js"]
    return found


@contextmanager
def driven(vehicles: int) -> Iterator[str]:
    """Serve the page over a fleet in memory in which each vehicle sends once a second."""
    config = ServiceConfig(bootstrap="127.0.0.1:1", stale_after_s=3_600.0)
    fleet, figures, changed = Fleet(config), Figures(config.max_vehicles), Changed()
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    app = make_app(Ask(config, fleet, figures), changed, None, "", port)
    server = uvicorn.Server(
        uvicorn.Config(app, log_level="warning", lifespan="off", ws="none", timeout_graceful_shutdown=1)
    )
    stop = threading.Event()

    async def serve() -> None:
        changed.open()
        await server.serve([listening])

    threads = [
        threading.Thread(target=lambda: asyncio.run(serve())),
        threading.Thread(target=_drive, args=(fleet, changed, vehicles, stop)),
    ]
    for thread in threads:
        thread.start()
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        stop.set()
        server.should_exit = True
        for thread in threads:
            thread.join()
        listening.close()


def _drive(fleet: Fleet, changed: Changed, vehicles: int, stop: threading.Event) -> None:
    """Let a tenth of the fleet send each tenth of a second: payloads of a few drivers under the names of all."""
    drivers, turn, began_s = Drivers(min(DRIVERS, vehicles)), 0, time.monotonic()
    while not stop.is_set():
        at_ns = time.time_ns() - 40_000_000
        sequence, first = turn // 10 + 1, turn % 10
        payloads = [
            FORMATS["protobuf"].encode(drivers.status(d, at_ns)[0]) for d in range(min(DRIVERS, vehicles))
        ]
        headers: list[tuple[str, bytes | None]] = [*state_headers(sequence, at_ns)]
        fleet.take(
            Record(
                vehicle_id(k + 1).encode(),
                payloads[k % len(payloads)].replace(
                    vehicle_id(k % len(payloads) + 1).encode(), vehicle_id(k + 1).encode()
                ),
                headers,
                at_ns // 1_000_000 + 40,
            )
            for k in range(first, vehicles, 10)
        )
        changed.announce()
        turn += 1
        stop.wait(max(0.0, began_s + turn / 10 - time.monotonic()))


if __name__ == "__main__":
    main()
