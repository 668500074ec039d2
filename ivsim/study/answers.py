"""A study's answer in a sentence, computed from its figures; a study without words of its own gets the extremes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, Final

from ivsim.report.style import mode_style
from ivsim.study.model import mode_of
from ivsim.study.store import Store
from ivsim.study.summary import CellResult, scaled, short, written


def of(store: Store, found: Sequence[CellResult]) -> str:
    """Return the answer; says so when nothing was measured."""
    done = [result for result in found if result.done]
    if not done:
        return "Nothing was measured."
    return ANSWERS.get(store.name, _extremes)(store, done)


def _extremes(store: Store, done: Sequence[CellResult]) -> str:
    """Name the lowest and the highest cell of the first metric."""
    metric = store.study.metrics[0]
    known = [(value, r) for r in done if (value := r.interval(metric).estimate) is not None]
    if not known:
        return f"{metric} is defined in no cell."
    low, high = min(known, key=lambda pair: pair[0])[1], max(known, key=lambda pair: pair[0])[1]
    unit = scaled(metric, low.interval(metric))[1]
    words = [f"{name(r)} with {written(scaled(metric, r.interval(metric))[0])} {unit}" for r in (low, high)]
    return f"{metric} is lowest for {words[0].strip()} and highest for {words[1].strip()}."


def name(result: CellResult) -> str:
    """Return a cell in words."""
    return ", ".join(str(value) for value in result.cell.values.values())


def _mean(results: Sequence[CellResult], metric: str) -> float | None:
    values = [v for r in results if (v := r.interval(metric).estimate) is not None]
    return sum(values) / len(values) if values else None


def _by(done: Sequence[CellResult], key: Callable[[CellResult], Any]) -> dict[Any, list[CellResult]]:
    found: dict[Any, list[CellResult]] = {}
    for result in done:
        found.setdefault(key(result), []).append(result)
    return found


def _number(value: float | None) -> str:
    return "nothing defined" if value is None else short(value)


STEPS: Final = (
    ("mqtt qos0", "mqtt qos1"),
    ("mqtt qos1", "mqtt qos2"),
    ("amqp auto", "amqp manual"),
    ("amqp manual", "amqp manual-confirms-persistent"),
    ("coap non", "coap con"),
)
PRICES: Final = (
    ("latency_mean_ms", "ms"),
    ("message_overhead_bytes", "B"),
    ("pacer_cpu_us_per_message", "µs of CPU"),
)


def qos_price(store: Store, done: Sequence[CellResult]) -> str:
    """Say what each step costs against the step below it on the same road, the median over the roads."""
    del store
    at = {(mode_of(r.cell), r.cell.options.trace): r for r in done}
    roads = list(dict.fromkeys(trace for _, trace in at))
    words = []
    for low, high in STEPS:
        parts = []
        for metric, unit in PRICES:
            pairs = [(at.get((low, road)), at.get((high, road))) for road in roads]
            steps = [
                b - a
                for below, above in pairs
                if below is not None
                and above is not None
                and (a := below.interval(metric).estimate) is not None
                and (b := above.interval(metric).estimate) is not None
            ]
            parts.append(f"{median(steps):+,.0f} {unit}" if steps else f"undefined {unit}")
        words.append(f"{mode_style(low)['label']} to {mode_style(high)['label']} {', '.join(parts)}")
    return "Median over the roads, per message: " + "; ".join(words) + "."


def early_ack(store: Store, done: Sequence[CellResult]) -> str:
    """Say what waiting for Kafka adds to the acknowledgement, and whether anything was lost."""
    del store
    words = []
    for mode, results in _by(done, lambda r: mode_of(r.cell)).items():
        by = _by(results, lambda r: r.cell.options.early_ack)
        late, early = (_mean(by.get(flag, []), "acknowledgement_time_p50_ms") for flag in (False, True))
        if late is not None and early is not None:
            words.append(f"{mode_style(mode)['label']} {late - early:+,.1f} ms (of {late:,.1f})")
    lost = sum(int(one.figures.get("lost") or 0) for r in done if r.cell.options.early_ack for one in r.done)
    return (
        "The vehicle's acknowledgement comes later by, when the gateway waits for Kafka (medians): "
        + "; ".join(words)
        + f". With early acknowledgement {lost} messages were lost in these runs, in which nothing failed."
    )


def format_and_road(store: Store, done: Sequence[CellResult]) -> str:
    """Say what each format costs over the roads."""
    del store
    words = []
    for name_, results in _by(done, lambda r: r.cell.options.format).items():
        megabytes = _mean(results, "vehicle_month_bytes")
        latency = _mean(results, "latency_mean_ms")
        words.append(
            f"{name_} {_number(None if megabytes is None else megabytes / 1e6)} MB a vehicle-month and {_number(latency)} ms"
        )
    return "Mean over the roads: " + "; ".join(words) + "."


def tunnel(store: Store, done: Sequence[CellResult]) -> str:
    """Say how each protocol comes out of the outage."""
    del store
    words = []
    for mode, results in _by(done, lambda r: mode_of(r.cell)).items():
        recovery, peak = (_mean(results, m) for m in ("recovery_s", "age_peak_s"))
        ratio = _mean(results, "delivery_ratio")
        share = "undefined" if ratio is None else f"{ratio:.1%}"
        words.append(
            f"{mode_style(mode)['label']} has the whole backlog in the twin {_number(recovery)} s after the end"
            f" (peak age {_number(peak)} s, {share} delivered)"
        )
    return "; ".join(words) + "."


ANSWERS: Final[dict[str, Callable[[Store, Sequence[CellResult]], str]]] = {
    "qos-price": qos_price,
    "early-ack": early_ack,
    "format-and-road": format_and_road,
    "tunnel": tunnel,
}
