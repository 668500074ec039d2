"""Measures the twin service: memory of 10,000 vehicles, cost of an update, lists, change to event in Chromium."""

from __future__ import annotations

import json
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import Page, sync_playwright

from bench.bench_bridge import cpu_s, resident_mb
from bench.twin_load import Fleet, Load, state_headers
from ivsim.testbed.child import Child
from ivsim.testbed.kafka import KafkaServer
from ivsim.testbed.kafka_admin import create_topics
from ivsim.testbed.registry import RunRecord
from schemas.formats import FORMATS
from schemas.topics import KafkaTopics, vehicle_id

VEHICLES = 10_000
DRIVERS = 60
WAIT_S = 60.0
CHROMIUM = "/usr/bin/chromium"
OPTIONS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
# Ages of rows when their event arrives in the page: now minus Kafka's append stamp of the twin's state.
LISTEN = """seconds => new Promise(done => {
  const ages = []; let begun = null;
  const source = new EventSource("/api/events");
  source.addEventListener("rows", event => {
    const now = performance.timeOrigin + performance.now();
    begun ??= now;
    const rows = JSON.parse(event.data).rows;
    if (now - begun > 3000) for (const row of rows) ages.push(now - row[8]);
    if (now - begun > 3000 + seconds * 1000) { source.close(); done(ages); }
  });
})"""


class Many(Load):
    """Many vehicles for the price of a few: payloads of 60 drivers under the names of all."""

    def __init__(self, bootstrap: str, topics: KafkaTopics, vehicles: int, format_name: str) -> None:
        super().__init__(bootstrap, topics, DRIVERS, format_name)
        self.drivers, self.vehicles = Fleet(DRIVERS), vehicles
        self.rounds: list[list[bytes]] = []

    def payload(self, k: int, sequence: int) -> bytes:
        while len(self.rounds) < sequence:
            known = FORMATS[self.format]
            at_ns = time.time_ns()
            self.rounds.append([known.encode(self.drivers.status(d, at_ns)[0]) for d in range(DRIVERS)])
        made = self.rounds[sequence - 1][k % DRIVERS]
        return made.replace(vehicle_id(k % DRIVERS + 1).encode(), vehicle_id(k + 1).encode())

    def state(self, k: int, sequence: int) -> None:
        at_ns = time.time_ns() - 40_000_000
        headers = state_headers(sequence, at_ns, format=self.format)
        self.send(vehicle_id(k + 1), self.payload(k, sequence), headers)

    def pace(self, per_s: int, stop: threading.Event) -> None:
        """Send `per_s` states a second, round after round, until told."""
        start_s, sent = time.monotonic(), self.vehicles
        while not stop.is_set():
            due = self.vehicles + int((time.monotonic() - start_s) * per_s)
            while sent < due:
                self.state(sent % self.vehicles, sent // self.vehicles + 1)
                sent += 1
            time.sleep(0.002)
        self.flush()


class Stand:
    """One Kafka, topics and a service of its own for each measurement."""

    def __init__(
        self, record: RunRecord, kafka: str, format_name: str = "protobuf", vehicles: int = VEHICLES
    ) -> None:
        run = uuid.uuid4().hex[:8]
        self.topics = KafkaTopics(f"{run}.")
        create_topics(kafka, self.topics)
        self.load = Many(kafka, self.topics, vehicles, format_name)
        for k in range(vehicles):
            self.load.state(k, 1)
        self.load.flush()
        path = record.directory / f"{run}.json"
        path.write_text(json.dumps({"bootstrap": kafka, "topics_prefix": self.topics.prefix}))
        began_s = time.monotonic()
        self.child = Child(f"twin-service-{run}", ["twin.service", str(path)], record)
        self.url = self.child.wait_for("ready", WAIT_S)["url"]
        self.client = httpx.Client(base_url=self.url, timeout=WAIT_S, trust_env=False)
        while self.client.get("/health").json()["vehicles"] < vehicles:
            time.sleep(0.02)
        self.rebuilt_s = time.monotonic() - began_s

    @property
    def pid(self) -> int:
        return self.child.popen.pid

    def close(self) -> None:
        self.client.close()
        self.child.stop()

    @contextmanager
    def loaded(self, per_s: int) -> Iterator[None]:
        stop = threading.Event()
        thread = threading.Thread(target=self.load.pace, args=(per_s, stop))
        thread.start()
        yield
        stop.set()
        thread.join()


def rank(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def timed(stand: Stand, path: str, count: int, **parameters: Any) -> list[float]:
    found = []
    for _ in range(count):
        began_s = time.perf_counter()
        stand.client.get(path, params=parameters).raise_for_status()
        found.append((time.perf_counter() - began_s) * 1000)
    return found


def memory(record: RunRecord, kafka: str) -> None:
    for name in FORMATS:
        stand = Stand(record, kafka, name)
        size = len(stand.load.payload(0, 1))
        at_first = resident_mb(stand.pid)
        with stand.loaded(4_000):
            time.sleep(8)
        print(
            f"  {name:<12} {size:>7} B  rebuilt in {stand.rebuilt_s:4.1f} s  {at_first:6.0f} MB,"
            f" after 8 s at 4,000/s {resident_mb(stand.pid):6.0f} MB",
            flush=True,
        )
        stand.close()


def lists(stand: Stand) -> None:
    cases: dict[str, tuple[str, dict[str, Any]]] = {
        "list of 100 vehicles": ("/api/vehicles", {"limit": 100}),
        "100 things, whole": ("/api/2/search/things", {"option": "size(100)"}),
        "one thing": (f"/api/2/things/ivsim:{vehicle_id(77)}", {}),
        "100 fastest of 10,000": ("/api/vehicles", {"limit": 100, "sort": "-speedKmh"}),
        "search over 10,000": (
            "/api/2/search/things", {"filter": "gt(features/position/properties/groundSpeedKmh,80)", "fields": "thingId"},
        ),
    }  # fmt: skip
    for title, (path, parameters) in cases.items():
        count = 300 if "10,000" not in title and "whole" not in title else 8
        timed(stand, path, 3, **parameters)  # connections, threads, first decoding
        idle = timed(stand, path, count, **parameters)
        with stand.loaded(1_000):
            busy = timed(stand, path, count, **parameters)
        texts = [f"p50 {rank(v, 0.5):6.1f} p99 {rank(v, 0.99):6.1f} ms" for v in (idle, busy)]
        print(f"  {title:<24} idle {texts[0]}   at 1,000 updates/s {texts[1]}", flush=True)


def update_cost(stand: Stand) -> None:
    with stand.loaded(10_000):
        time.sleep(2)
        records, before = stand.client.get("/health").json()["stateRecords"], cpu_s(stand.pid)
        time.sleep(8)
        done, after = stand.client.get("/health").json()["stateRecords"] - records, cpu_s(stand.pid)
    used = (after - before) / 8
    print(f"  {done / 8:,.0f} updates/s taken: {used * 100:.0f} % of a core, {(after - before) / done * 1e6:.0f} us each"
          f", {resident_mb(stand.pid):.0f} MB", flush=True)  # fmt: skip


def to_browser(page: Page, stand: Stand, per_s: int, seconds: int = 10) -> None:
    page.goto(stand.url)
    page.locator("#space .row").first.wait_for(timeout=WAIT_S * 1000)
    with stand.loaded(per_s):
        ages = page.evaluate(LISTEN, seconds)
    page.goto("about:blank")
    texts = [
        f"{name} {rank(ages, share):6.0f}" for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
    ]
    print(
        f"  {stand.load.vehicles:>6,} vehicles, {per_s:>6,} updates/s: {len(ages):>7,} changes, {', '.join(texts)} ms",
        flush=True,
    )


def main() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="ivsim-bench-") as scratch,
        RunRecord(f"bench-{uuid.uuid4().hex[:8]}", Path(scratch)) as record,
        KafkaServer(record, jit="full") as server,
    ):
        print(f"memory of {VEHICLES:,} vehicles (limit 300 MB), each format", flush=True)
        memory(record, server.bootstrap)
        stand = Stand(record, server.bootstrap)
        print("requests (limit: list of 100 in 20 ms)", flush=True)
        lists(stand)
        print("cost of updates, nobody looking", flush=True)
        update_cost(stand)
        stand.close()
        print(
            "Kafka's append of the twin's state to event in Chromium, the page open (limit p99 250 ms)",
            flush=True,
        )
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            for vehicles, per_s in ((100, 100), (1_000, 1_000), (VEHICLES, 1_000), (VEHICLES, 10_000)):
                small = Stand(record, server.bootstrap, vehicles=vehicles)
                to_browser(page, small, per_s)
                small.close()
            browser.close()


if __name__ == "__main__":
    main()
