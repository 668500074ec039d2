"""One page for Prometheus while a run goes: the run's own figures, every part's processes, and what gateways and page say.

It is told how the run is from the run's own thread, once a second, and answers from a thread of its own. A scrape asks the
pages of gateways and twin service, which are on loopback, and nothing else of the run. Text exposition format 0.0.4 by
prometheus_client; seconds and bytes, as Prometheus' naming rules ask for.
"""

from __future__ import annotations

import asyncio
import http.client
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Final, Self

import psutil
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from ivsim.options import RunOptions
from ivsim.runs.counters import Sample, Sampler
from ivsim.runs.started import StartedRun
from schemas import direct_http
from schemas.errors import Refusal
from schemas.page_server import EXPOSITION, HOST, Answer, PageServer, listening_socket

ANSWER_S: Final = 1.0
# What the senders have counted, by the word of the label.
SENT: Final = ("emitted", "acknowledged", "refused", "unsent", "unanswered")
# The label `quantile` is kept for summaries, which have a sum and a count too.
RANKS: Final = {"p50": "p50 ms", "p99": "p99 ms"}


class Scrape(Collector):
    """A context manager that serves the page on 127.0.0.1; call it several times a second with the run.

    Args:
        port: 0 takes a free one; Refusal for one that is taken.
        run: its name.
        options: of the run.
    """

    def __init__(self, port: int, run: str, options: RunOptions) -> None:
        self._asked_port, self._run, self._options = port, run, options
        self._stack = ExitStack()
        self._lock = threading.Lock()
        self._sampler = Sampler()
        self._sample: Sample | None = None
        self._row: dict[str, Any] = {}
        self._totals: dict[str, int] = {}
        self._down: set[str] = set()
        self._late_ms: float | None = None
        self._pages: tuple[str, ...] = ()
        self.port = port

    def __enter__(self) -> Self:
        try:
            sock = listening_socket(self._asked_port)
        except OSError as error:
            raise Refusal(
                f"--metrics-port {self._asked_port}: {error.strerror}; 0 takes a free one"
            ) from None
        self.port = sock.getsockname()[1]
        loop, closing = asyncio.new_event_loop(), asyncio.Event()
        thread = threading.Thread(
            target=loop.run_until_complete, args=(self._serve(sock, closing),), name="scrape"
        )
        thread.start()
        self._stack.callback(loop.close)
        self._stack.callback(thread.join)
        self._stack.callback(loop.call_soon_threadsafe, closing.set)
        self._stack.enter_context(self._sampler)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def url(self) -> str:
        """Where Prometheus finds the page."""
        return f"http://{HOST}:{self.port}/metrics"

    def __call__(self, run: StartedRun) -> None:
        """Take what the run has counted so far."""
        taken = len(self._sampler.samples)
        self._sampler(run)
        if len(self._sampler.samples) == taken:
            return
        sample = self._sampler.samples[-1]
        children = run.components.children
        with self._lock:
            self._sample, self._row, self._totals = sample, run.publisher.row(), run.publisher.totals()
            self._late_ms = (run.replay.properties() or {}).get("applied_late_max_ms")
            self._down = {*children.down, *children.dead}
            self._pages = tuple(_pages(run))

    async def _serve(self, sock: socket.socket, closing: asyncio.Event) -> None:
        registry = CollectorRegistry()
        registry.register(self)
        async with PageServer(sock, lambda _target: Answer("200 OK", EXPOSITION, generate_latest(registry))):
            await closing.wait()

    def describe(self) -> Iterable[Metric]:
        """Return nothing: what there is differs from run to run, and is known when it is asked for."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield everything that is known now; before the first message is due that is the run's name alone."""
        options = self._options
        info = GaugeMetricFamily(
            "ivsim_run_info",
            "The run; always 1.",
            labels=["run", "protocol", "mode", "vehicles", "format", "link"],
        )
        words = (options.protocol, options.mode) if options.mix is None else ("mix", "mix")
        info.add_metric([self._run, *words, str(options.sending), options.format, options.link], 1)
        yield info
        with self._lock:
            sample, row, totals = self._sample, self._row, self._totals
            down, late_ms, pages = self._down, self._late_ms, self._pages
        if sample is None:
            return
        yield from _run_figures(sample, row, totals, late_ms)
        yield from _part_figures(sample, down)
        yield from merged(filter(None, map(_asked, pages)))


def _run_figures(
    sample: Sample, row: Mapping[str, Any], totals: Mapping[str, int], late_ms: float | None
) -> Iterator[Metric]:
    yield GaugeMetricFamily("ivsim_run_elapsed_seconds", "Since second 0 of the run.", value=sample.at_s)
    messages = CounterMetricFamily(
        "ivsim_run_messages",
        "Messages at each point of their way: emitted, acknowledged, refused, unsent, unanswered by the vehicles' logs;"
        " received by the gateways; appended in Kafka, the twin's warm-up included; in_twin, each once.",
        labels=["point"],
    )
    counts: dict[str, int | None] = {name: totals.get(name, 0) for name in SENT}
    counts |= {"received": sample.received, "appended": sample.appended, "in_twin": sample.in_twin}
    for point, count in counts.items():
        if count is not None:
            messages.add_metric([point], count)
    yield messages
    if (captured := totals.get("ip_bytes")) is not None:
        yield CounterMetricFamily(
            "ivsim_run_wire_bytes", "IP bytes at the vehicles' end, both directions.", value=captured
        )
    latency = GaugeMetricFamily(
        "ivsim_run_end_to_end_latency_seconds",
        "From due to twin, over all messages so far.",
        labels=["rank"],
    )
    for rank, name in RANKS.items():
        if row.get(name) is not None:
            latency.add_metric([rank], row[name] / 1e3)
    yield latency
    if late_ms is not None:
        yield GaugeMetricFamily(
            "ivsim_link_change_late_seconds",
            "How late the latest change of the link was.",
            value=late_ms / 1e3,
        )


def _part_figures(sample: Sample, down: set[str]) -> Iterator[Metric]:
    up = GaugeMetricFamily(
        "ivsim_part_up", "0 while the part is down on purpose, or has died.", labels=["part"]
    )
    cpu = CounterMetricFamily("ivsim_part_cpu_seconds", "CPU time of the part's processes.", labels=["part"])
    memory = GaugeMetricFamily(
        "ivsim_part_resident_memory_bytes", "Resident memory of the same.", labels=["part"]
    )
    for part in sorted({*sample.cpu_s, *down}):
        up.add_metric([part], int(part not in down))
    for part, seconds in sample.cpu_s.items():
        cpu.add_metric([part], seconds)
    for part, count in sample.memory_bytes.items():
        memory.add_metric([part], count)
    yield from (up, cpu, memory)
    yield CounterMetricFamily(
        "ivsim_machine_busy_seconds", "CPU time of all cores, for whatever program.", value=sample.busy_s
    )
    yield GaugeMetricFamily("ivsim_machine_cores", "Cores of the machine.", value=psutil.cpu_count() or 0)


def _pages(run: StartedRun) -> Iterator[str]:
    """Yield where gateways and the live page answer, as they have said themselves."""
    components = run.components
    for name in components.gateways:
        port = components.children[name].latest.get("ready", {}).get("metrics_port")
        if port is not None:
            yield f"http://{HOST}:{port}/metrics"
    page = components.children.get("page")
    if page is not None and (url := page.latest.get("ready", {}).get("url")):
        yield f"{url.rstrip('/')}/metrics"


def _asked(url: str) -> str | None:
    """Return the page of a part; None from one that does not answer, such as one that is down."""
    try:
        return direct_http.answer(url, ANSWER_S).decode()
    except (OSError, http.client.HTTPException):
        return None


def merged(texts: Iterable[str]) -> list[Metric]:
    """Return the metrics of several pages; those of one name are one metric with the samples of all."""
    found: dict[str, Metric] = {}
    for text in texts:
        for metric in text_string_to_metric_families(text):
            if metric.name.startswith("ivsim_"):  # not what every Python process says of itself
                found.setdefault(metric.name, metric)
                if found[metric.name] is not metric:
                    found[metric.name].samples += metric.samples
    return list(found.values())
