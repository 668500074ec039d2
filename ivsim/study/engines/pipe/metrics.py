"""The figures of a measurement: what each is, and its value; what was not measured is None, never 0."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ivsim.runs.validity import Cause, judge_link, of_causes
from ivsim.study.engines.pipe.kills import BROKER, CONSUMER, PRODUCER
from ivsim.study.engines.pipe.ledger import CONSUMED, FATES, LOST, REFUSED, UNKNOWN, Integers
from ivsim.study.engines.pipe.measured import Measured, stopped_words
from ivsim.study.engines.pipe.site import WAYS
from ledger.metrics import QUANTILES, Metric
from schemas.quantiles import nearest_rank_ms, rank_index

Floats = npt.NDArray[np.float64]
STAGES: Final = ("build", "encode", "produce", "fetch", "decode", "read")
DRIFT_MS: Final = 1.0
# Of fewer than 1,000 values p99.9 is their maximum.
DELAY_QUANTILES: Final = {**QUANTILES, "p999": 0.999}
_STAGE_MEANING: Final = {
    "build": "make what the library takes out of a row",
    "encode": "make bytes of it",
    "produce": "the call that hands the record over",
    "fetch": "the call that returns records, by record",
    "decode": "make an object of bytes; most libraries make all values here",
    "read": "touch every field of that object, where decode has not made them",
}
_MEASURED: Final = "due after the warm-up"
_LATENCIES: Final = {
    "latency": ("consumed, open loop alone", "return of the consumer's call minus due"),
    "emission_lag": ("open loop alone", "handed to the library minus due"),
    "acknowledgement": ("acknowledged, open loop alone", "delivery report minus due"),
    "transit": (
        "consumed",
        "return of the consumer's call minus handed to the library; at full speed a queue's length, not a latency",
    ),
}


def _all() -> list[Metric]:
    found = [
        Metric(
            "records_per_s",
            "1/s",
            "full speed alone",
            "records consumed each second, from the warm-up's end to the last one sent",
        ),
        Metric("payload_mb_per_s", "MB/s", "full speed alone", "their payload"),
        Metric(
            "capacity_per_s",
            "1/s",
            "a share of the capacity alone",
            "records consumed each second at full speed, just before: the rate is a share of it",
        ),
        Metric(
            "wall_records_per_s",
            "1/s",
            "full speed alone",
            "all records over the time from the start to the last one consumed",
        ),
        Metric(
            "summed_records_per_s",
            "1/s",
            "full speed alone",
            "all records over the producers' time plus the consumers' mean time: the thesis's rule, which counts time twice",
        ),
        Metric("produced", "1", "all", "records made"),
        Metric("acknowledged", "1", "all", "with a delivery report that means that the platform has it"),
        Metric("consumed", "1", "all", "records that a consumer was given"),
        Metric("refused", "1", "all", "records that library or platform would not have"),
        Metric("lost", "1", "all", "not refused, and in no partition when all were read to their ends"),
        Metric(
            "unknown",
            "1",
            "all",
            "not consumed, and its partition not read to the end, or its answer not awaited",
        ),
        Metric(
            "undelivered_ratio",
            "ratio",
            f"{_MEASURED}, open loop alone",
            "no consumer was given it, whatever its producer was told",
        ),
        Metric(
            "in_time_ratio",
            "ratio",
            f"{_MEASURED}, with a limit alone",
            "consumed with a latency up to the limit",
        ),
        Metric(
            "timely_per_s",
            "1/s",
            f"{_MEASURED}, with a limit alone",
            "records consumed with a latency up to the limit, over the time in which they were due",
        ),
        Metric("acknowledged_lost", "1", "all", "acknowledged, then lost"),
        Metric("duplicates", "1", "arrivals", "arrivals of a record after its first"),
        Metric(
            "reordered",
            "1",
            "consumed",
            "first arrivals behind a later record of the same producer and partition",
        ),
        Metric("damaged", "1", "arrivals", "arrivals that could not be decoded"),
        Metric("largest_share", "ratio", "consumed", "share of the partition that has most"),
        Metric(
            "outage_s",
            "s",
            "with a kill alone",
            "from the kill until who was started again was ready; a broker, until it led all partitions",
        ),
        Metric(
            "recovery_s",
            "s",
            "with a kill of a broker alone",
            "from the kill until the first acknowledgement of a record emitted after it",
        ),
        Metric(
            "transit_outlier_ratio",
            "ratio",
            f"consumed, {_MEASURED}",
            "transits beyond 1.5 interquartile ranges (Tukey)",
        ),
    ]
    for name, (population, meaning) in _LATENCIES.items():
        found.append(Metric(f"{name}_mean_ms", "ms", f"{population}, {_MEASURED}", f"mean of {meaning}"))
        found += [
            Metric(f"{name}_{quantile}_ms", "ms", f"{population}, {_MEASURED}", meaning)
            for quantile in DELAY_QUANTILES
        ]
    found += [
        Metric(
            f"{stage}_us",
            "us",
            "one of 16 records after the warm-up" if stage in STAGES[:3] else "arrivals after the warm-up",
            f"CPU time of its thread: {meaning}",
        )
        for stage, meaning in _STAGE_MEANING.items()
    ]
    found += [
        Metric(
            "deliver_us",
            "us",
            "as its parts",
            "CPU time of the producers' processes beside build, encode and produce: what the library does in threads of"
            " its own, delivery reports, the loop",
        ),
        Metric("encode_decode_us", "us", "as its parts", "CPU time of encode and decode"),
        Metric(
            "encode_decode_share",
            "ratio",
            "full speed alone",
            "encode and decode of all records over the producers' time plus the consumers' mean time",
        ),
        Metric(
            "producer_cpu_us",
            "us",
            "records sent after the warm-up",
            "CPU time of the producers' processes, all threads",
        ),
        Metric(
            "consumer_cpu_us",
            "us",
            "records read after the warm-up",
            "CPU time of the consumers' processes, all threads",
        ),
        Metric("client_cpu_us", "us", "as its parts", "CPU time of producers and consumers"),
        Metric(
            "platform_cpu_us",
            "us",
            "records sent after the warm-up",
            "CPU time of the platform's processes, until the last record is read",
        ),
        Metric("producer_peak_mib", "MiB", "producers", _PEAK),
        Metric("consumer_peak_mib", "MiB", "consumers", _PEAK),
        Metric("platform_peak_mib", "MiB", "platform", "largest resident set seen, sum of processes"),
        Metric("payload_bytes", "B", "produced", "mean payload"),
        Metric(
            "wire_bytes",
            "B",
            "acknowledged",
            "what producers sent, by record: requests, protocol and repetitions included, compressed",
        ),
        *(
            Metric(
                f"link_bytes_{way}",
                "B",
                "consumed, with a link alone",
                f"captured at the producers' end of the link on the {way}, by record: IP headers, acknowledgements and"
                " repetitions included, the link's own probes taken out",
            )
            for way in WAYS
        ),
        Metric(
            "stored_bytes",
            "B",
            "consumed",
            "on the disks of all the platform's servers, by record: all copies and duplicates",
        ),
        Metric("batch_records", "records", "batches", "records of a batch, mean"),
        Metric("full_waits", "1", "all", "waits for room in a producer's queue"),
        Metric(
            "machine_busy_cores",
            "1",
            "machine",
            "processors that were busy, mean from the warm-up's end to the last record read",
        ),
        Metric(
            "other_busy_cores",
            "1",
            "machine",
            "of these, what producers, consumers and platform did not use: how loaded the machine was by others",
        ),
        Metric("clock_drift_ms", "ms", "run", "wall clock against monotonic clock"),
    ]
    return found


_PEAK: Final = "largest resident set, the mean of processes; memory that they share included"
PIPE_METRICS: Final[dict[str, Metric]] = {metric.name: metric for metric in _all()}


def figures_of(found: Measured) -> dict[str, Any]:
    """Return every figure of a measurement, and its validity."""
    figures: dict[str, Any] = dict.fromkeys(PIPE_METRICS)
    figures |= _counts(found) | _times(found) | _stages(found) | _processes(found) | _bytes(found)
    figures |= _speed(found, figures) if found.options.rate is None else _timely(found)
    figures |= _machine(found)
    figures["deliver_us"] = deliver_us(figures)
    figures["clock_drift_ms"] = found.clock_drift_ms
    if found.crossed is not None:
        figures |= {"certificate": found.crossed.certificate, "replay": found.crossed.replay}
    figures["capacity_per_s"] = found.capacity_per_s
    figures["validity"] = _validity(found, figures)
    return figures


def _counts(found: Measured) -> dict[str, Any]:
    ledger = found.ledger
    acknowledged = ledger.produced.acknowledged_at_ns > 0
    lost = ledger.fate == FATES.index(LOST)
    arrivals = {one: count - ledger.duplicates[one] for one, count in ledger.arrivals.items()}
    consumed = ledger.count(CONSUMED)
    killed = found.killed.role if found.killed is not None else None
    return {
        "produced": int(ledger.produced.number.size),
        "acknowledged": int(acknowledged.sum()) if found.acknowledges else None,
        **{fate: ledger.count(fate) for fate in (CONSUMED, REFUSED, LOST, UNKNOWN)},
        "acknowledged_lost": int((acknowledged & lost).sum()) if found.acknowledges else None,
        "duplicates": sum(ledger.duplicates.values()),
        "reordered": sum(ledger.reordered.values()),
        # A client that was killed told nobody what it had counted.
        "damaged": None if killed == CONSUMER else sum(one["damaged"] for one in found.consumers),
        "largest_share": max(arrivals.values()) / consumed if consumed else None,
        "full_waits": None if killed == PRODUCER else sum(one["full"] for one in found.producers),
        "outage_s": None if found.killed is None else found.killed.outage_s,
        "recovery_s": _recovery_s(found),
    }


def _recovery_s(found: Measured) -> float | None:
    """Return how long nothing new was acknowledged; an answer that was on its way when it was killed is not new."""
    if found.killed is None or found.killed.role != BROKER or not found.acknowledges:
        return None
    of, killed_at_ns = found.ledger.produced, found.killed.killed_at_ns
    answered = of.acknowledged_at_ns[(of.emitted_at_ns > killed_at_ns) & (of.acknowledged_at_ns > 0)]
    return float(answered.min() - killed_at_ns) / 1e9 if answered.size else None


def delays_ns(found: Measured) -> dict[str, Integers]:
    """Return the delays of the records due after the warm-up that have them, each in the records' order."""
    ledger = found.ledger
    of = ledger.produced
    warm = of.due_at_ns >= found.warm_at_ns
    consumed = warm & (ledger.fate == FATES.index(CONSUMED))
    delays = {"transit": (ledger.received_at_ns - of.emitted_at_ns)[consumed]}
    if found.options.rate is None:
        return delays
    delays["latency"] = (ledger.received_at_ns - of.due_at_ns)[consumed]
    delays["emission_lag"] = (of.emitted_at_ns - of.due_at_ns)[warm]
    if found.acknowledges:
        answered = warm & (of.acknowledged_at_ns > 0)
        delays["acknowledgement"] = (of.acknowledged_at_ns - of.due_at_ns)[answered]
    return delays


def _times(found: Measured) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for name, values in delays_ns(found).items():
        if not values.size:
            continue
        ordered = np.sort(values)
        figures[f"{name}_mean_ms"] = float(values.mean()) / 1e6
        figures |= {f"{name}_{q}_ms": nearest_rank_ms(ordered, share) for q, share in DELAY_QUANTILES.items()}
        if name == "transit":
            low, high = (float(ordered[rank_index(ordered.size, share)]) for share in (0.25, 0.75))
            reach = 1.5 * (high - low)
            figures["transit_outlier_ratio"] = float(
                ((ordered < low - reach) | (ordered > high + reach)).mean()
            )
    return figures


def _timely(found: Measured) -> dict[str, Any]:
    """Return the shares of what was due after the warm-up that came, and that came in time."""
    ledger, options = found.ledger, found.options
    warm = ledger.produced.due_at_ns >= found.warm_at_ns
    due = int(warm.sum())
    consumed = warm & (ledger.fate == FATES.index(CONSUMED))
    lacking = warm & (ledger.fate == FATES.index(UNKNOWN))
    figures: dict[str, Any] = {}
    if due and not lacking.any():
        figures["undelivered_ratio"] = 1 - int(consumed.sum()) / due
    if due and options.limit_ms is not None and found.measured_s > 0:
        late_ns = ledger.received_at_ns - ledger.produced.due_at_ns > options.limit_ms * 1e6
        timely = int((consumed & ~late_ns).sum())
        figures["in_time_ratio"] = timely / due
        figures["timely_per_s"] = timely / found.measured_s
    return figures


def _stages(found: Measured) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for clients in (found.producers, found.consumers):
        for stage in clients[0]["stages_us"]:
            figures[f"{stage}_us"] = _weighted([(one["stages_us"][stage], one["records"]) for one in clients])
    encode, decode = figures["encode_us"], figures["decode_us"]
    figures["encode_decode_us"] = None if encode is None or decode is None else encode + decode
    return figures


def deliver_us(figures: Mapping[str, Any]) -> float | None:
    """Return what a producer's process takes beside the stages of its loop; None where the stages were not taken."""
    whole, produce = figures["producer_cpu_us"], figures["produce_us"]
    if whole is None or produce is None:
        return None
    # Payloads made before have nothing to build or encode.
    return float(whole - produce - sum(figures[f"{one}_us"] or 0.0 for one in ("build", "encode")))


def _weighted(parts: Sequence[tuple[float | None, int]]) -> float | None:
    """Return the mean of processes' means, by their records; None where none has one."""
    known = [(value, weight) for value, weight in parts if value is not None and weight]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total else None


def _processes(found: Measured) -> dict[str, Any]:
    producer, consumer = (_cpu_us(clients) for clients in (found.producers, found.consumers))
    sent = int((found.ledger.produced.due_at_ns >= found.warm_at_ns).sum())
    spent_s = sum(found.platform_cpu_s.values())
    return {
        "producer_cpu_us": producer,
        "consumer_cpu_us": consumer,
        "client_cpu_us": None if producer is None or consumer is None else producer + consumer,
        "platform_cpu_us": spent_s * 1e6 / sent if sent and found.platform_cpu_s else None,
        "producer_peak_mib": _peak_mib(found.producers),
        "consumer_peak_mib": _peak_mib(found.consumers),
        "platform_peak_mib": sum(found.platform_peak_mib.values()) if found.platform_peak_mib else None,
    }


def _machine(found: Measured) -> dict[str, Any]:
    if found.machine is None or found.machine.span_s <= 0:
        return {}
    busy_s, span_s = found.machine
    # What a process that was killed had used, nobody knows. Of none else, others may come out a little below 0: ticks.
    clients_s = None if found.killed is not None else _spent_s((*found.producers, *found.consumers))
    platform_s = sum(found.platform_cpu_s.values())
    return {
        "machine_busy_cores": busy_s / span_s,
        "other_busy_cores": None if clients_s is None else (busy_s - clients_s - platform_s) / span_s,
    }


def _spent_s(clients: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the CPU time of processes after the warm-up; None where one of them did not come to its end."""
    if not all("warm_cpu_ns" in one["marks"] for one in clients):
        return None
    return sum(float(one["marks"]["end_cpu_ns"] - one["marks"]["warm_cpu_ns"]) for one in clients) / 1e9


def _cpu_us(clients: Sequence[Mapping[str, Any]]) -> float | None:
    marks = [one["marks"] for one in clients if "warm_cpu_ns" in one["marks"]]
    records = sum(one["end_records"] - one["warm_records"] for one in marks)
    spent_ns: int = sum(one["end_cpu_ns"] - one["warm_cpu_ns"] for one in marks)
    return spent_ns / 1e3 / records if records else None


def _peak_mib(clients: Sequence[Mapping[str, Any]]) -> float:
    return float(np.mean([one["peak_kib"] / 1024 for one in clients]))


def _bytes(found: Measured) -> dict[str, Any]:
    ledger = found.ledger
    consumed = ledger.count(CONSUMED)
    acknowledged = int((ledger.produced.acknowledged_at_ns > 0).sum()) if found.acknowledges else 0
    sums = {
        name: _known_sum([one["statistics"][name] for one in found.producers])
        for name in ("wire_bytes", "batches", "batch_records")
    }
    crossed = {way: None if found.crossed is None else found.crossed.wire_bytes(way) for way in WAYS}
    batches, batched, wire = sums["batches"], sums["batch_records"], sums["wire_bytes"]
    return {
        "payload_bytes": float(ledger.produced.payload_bytes.mean()) if ledger.produced.number.size else None,
        "wire_bytes": wire / acknowledged if wire is not None and acknowledged else None,
        **{
            f"link_bytes_{way}": count / consumed if count is not None and consumed else None
            for way, count in crossed.items()
        },
        "stored_bytes": found.stored_bytes / consumed
        if found.stored_bytes is not None and consumed and found.complete
        else None,
        "batch_records": batched / batches if batched is not None and batches else None,
    }


def _known_sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _speed(found: Measured, figures: Mapping[str, Any]) -> dict[str, Any]:
    received = np.sort(found.ledger.received_at_ns[found.ledger.received_at_ns > 0])
    if not received.size:
        return {}
    sent_to_ns = int(found.ledger.produced.emitted_at_ns.max())
    inside = int(((received >= found.warm_at_ns) & (received <= sent_to_ns)).sum())
    span_s = (sent_to_ns - found.warm_at_ns) / 1e9
    producing_s = max(one["ended_at_ns"] for one in found.producers) / 1e9 - found.start_at_ns / 1e9
    summed_s = producing_s + _consuming_s(found)
    wall_s = (int(received[-1]) - found.start_at_ns) / 1e9
    speed = inside / span_s if inside else None
    both = figures["encode_decode_us"]
    return {
        "records_per_s": speed,
        "payload_mb_per_s": None if speed is None else speed * figures["payload_bytes"] / 1e6,
        "wall_records_per_s": received.size / wall_s,
        "summed_records_per_s": received.size / summed_s,
        "encode_decode_share": None if both is None else both / 1e6 * received.size / summed_s,
    }


def _consuming_s(found: Measured) -> float:
    """Return the mean time of the consumers, each from its first record to its last."""
    times, at = [], 0
    for one in found.consumers:
        own = found.arrived.received_at_ns[at : at + one["records"]]
        at += one["records"]
        if own.size:
            times.append((int(own[-1]) - int(own[0])) / 1e9)
    return float(np.mean(times)) if times else 0.0


def _used_up(found: Measured) -> bool:
    """Return whether producers ended because the platform's memory would have held no more."""
    return any(one.get("room_used_up") for one in found.producers)


def _refusal(found: Measured) -> str:
    """Return why most of the refused records were refused."""
    whys: Counter[str] = Counter()
    for one in found.producers:
        whys.update(one["refusals"])
    return whys.most_common(1)[0][0] if whys else "by the platform"


def _wrong(found: Measured, figures: Mapping[str, Any]) -> Iterator[Cause]:
    """Yield what makes the figures those of something else than was asked for."""

    def invalid(name: str, words: str) -> Cause:
        return Cause(name, "invalid", words)

    if sum(figures[fate] for fate in FATES) != figures["produced"]:
        yield invalid("account_open", "the fates do not add up to what was produced")
    if found.ledger.foreign:
        yield invalid("unknown_records", f"{found.ledger.foreign:,} arrivals that nobody produced")
    if figures["damaged"]:
        yield invalid("damaged_records", f"{figures['damaged']:,} arrivals could not be decoded")
    if found.died is not None:
        yield invalid("platform_died", f"{found.died.line} {found.died.after_s:.1f} s after the start")
    if figures["refused"] and found.killed is None:
        yield invalid("refused_records", f"{figures['refused']:,} records were refused: {_refusal(found)}")
    if _used_up(found) and figures.get("records_per_s") is None:
        words = "the platform's memory was full before a record was measured"
        yield invalid("platform_full", words)


def _short(found: Measured, figures: Mapping[str, Any]) -> Iterator[Cause]:
    """Yield in what load and end fall short of what was asked for."""

    def degraded(name: str, words: str) -> Cause:
        return Cause(name, "degraded", words)

    if not found.complete:
        yield degraded("consumers_behind", "consumers did not reach the ends of their partitions")
    if not found.answered:
        yield degraded("unanswered_records", "producers still waited for answers at the end")
    if found.stopped is not None and found.stopped.after_s < found.options.duration_s:
        yield degraded("stopped", stopped_words(found))
    lag, limit = figures["emission_lag_p99_ms"], found.options.emission_limit_ms
    if lag is not None and lag > limit:
        words = f"emission lag p99 {lag:.1f} ms (limit {limit:g} ms): the load was not what was asked for"
        yield degraded("generator_limited", words)
    if abs(found.clock_drift_ms) > DRIFT_MS:
        moved = f"the wall clock moved {found.clock_drift_ms:+.1f} ms against the monotonic clock"
        yield degraded("clock_moved", f"{moved} (limit {DRIFT_MS:g} ms)")


def _validity(found: Measured, figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return whether the figures may be used: they add up, and load, link and end were as asked for; the worst first."""
    of_link = () if found.crossed is None else judge_link(figures, found.crossed.capture_drops)
    causes = (*_wrong(found, figures), *of_link, *_short(found, figures))
    return of_causes(sorted(causes, key=lambda cause: cause.severity != "invalid")).as_dict()
