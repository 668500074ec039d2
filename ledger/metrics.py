"""Every figure of a run: its name, unit, population and meaning; the one place that report and glossary print from."""

from __future__ import annotations

from typing import Final, NamedTuple


class Metric(NamedTuple):
    """A figure of a run; counts have the unit "1", ratios "ratio". A figure that is undefined is null, never 0."""

    name: str
    unit: str
    population: str
    meaning: str


HOPS: Final = ("vehicle", "link", "broker", "gateway", "uplink", "kafka", "platform")
# Who answers a vehicle, and so may refuse its message.
REFUSING_HOPS: Final = ("broker", "gateway")
DIRECTIONS: Final = ("uplink", "downlink")
# Nearest rank (inverse of the distribution function): the smallest value with at least this share at or below it.
QUANTILES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}

# latency -> (column of the ledger, population, meaning)
LATENCIES: Final = {
    "one_way_delay": (
        "one_way_delay_ns",
        "delivered, emission logged",
        "gateway receive stamp minus emission stamp",
    ),
    "bridge_delay": (
        "bridge_delay_ns",
        "delivered",
        "Kafka append stamp (ingest: the platform's confirmation) minus gateway receive stamp",
    ),
    "processing_delay": (
        "processing_delay_ns",
        "delivered",
        "append of the twin state minus append of the message",
    ),
    "end_to_end_latency": (
        "end_to_end_latency_ns",
        "delivered",
        "append of the twin state (ingest: receipt by the consumer) minus due time",
    ),
    "acknowledgement_time": (
        "acknowledgement_time_ns",
        "acknowledged",
        "acknowledgement minus emission stamp",
    ),
}

_WINDOW: Final = "due in the window"
# Every message due meets exactly one of these; the order is that of tables and charts.
_FATES: Final = {
    "delivered": "emitted and contained in the twin, received within the loss timeout (at the edge: by Kafka)",
    "late": "contained in the twin, received after the loss timeout (at the edge: by Kafka)",
    "lost": "emitted, not contained in the twin by the end, and nobody said so",
    "refused": "emitted, and the peer's last word was that it will not keep it; nobody behind the peer has it",
    "unsent": "due, but the client would not take it",
    "unknown": "what would decide it could not be read, or its loss timeout was not over at the stop",
}
FATES: Final = tuple(_FATES)
ACCOUNT: Final = "due = " + " + ".join(FATES)
_LAST_SEEN: Final = {
    "vehicle": "still in the vehicle's client: emitted without a connection, never acknowledged",
    "link": "given to a connected client, never acknowledged, never at the gateway",
    "broker": "acknowledged by the broker or wholly at its host by TCP's word, never at the gateway",
    "gateway": "in the gateway's receive log, not in Kafka",
    "uplink": "in a request that a gateway at the edge had sent and Kafka had not answered at the end, not in Kafka",
    "kafka": "a record exists, the twin does not contain it",
    "platform": "confirmed by the platform, never at the consumer (topology ingest)",
}


def _table() -> list[Metric]:
    return [
        Metric("window_from_s", "s", "the run", "begin of the measurement window, after the start"),
        Metric("window_to_s", "s", "the run", "end of the measurement window, after the start"),
        Metric("due", "1", _WINDOW, f"messages due; {ACCOUNT}"),
        *(Metric(name, "1", _WINDOW, meaning) for name, meaning in _FATES.items()),
        Metric("duplicates", "1", _WINDOW, "further records in Kafka of a message that is already there"),
        Metric("delivery_ratio", "ratio", _WINDOW, "delivered / due"),
        *(Metric(f"lost_at_{hop}", "1", "lost", f"last seen: {_LAST_SEEN[hop]}") for hop in HOPS),
        *(Metric(f"refused_by_{hop}", "1", "refused", f"the {hop} refused it") for hop in REFUSING_HOPS),
        *_latencies(),
        Metric(
            "emission_lag_p99_ms",
            "ms",
            "emitted in the window",
            "emission stamp minus due time, 99th percentile",
        ),
        *_wire(),
        Metric("twin_updates", "1", "the run", "records appended to twin.state"),
        Metric(
            "run_due",
            "1",
            "the run",
            "messages due before it ended or stopped, warm-up and those after the window included",
        ),
        Metric(
            "run_received",
            "1",
            "the run",
            "delivered or late, warm-up and those after the window included: what the twins have",
        ),
        Metric("rejected_records", "1", "the run", "records of vehicle.status that may not enter the twin"),
        Metric(
            "unknown_records", "1", "the run", "good records of vehicle.status that no message due explains"
        ),
        Metric(
            "unlogged_emissions",
            "1",
            _WINDOW,
            "delivered or late without an emission stamp (the sender died)",
        ),
        Metric("clock_drift_ms", "ms", "the run", "movement of the wall clock against the monotonic clock"),
        *_connections(),
        *_link(),
    ]


def _connections() -> list[Metric]:
    run = "the run"
    return [
        Metric("connections", "1", run, "handshakes of vehicles that succeeded (CoAP: sockets opened)"),
        Metric("connect_failures", "1", run, "attempts to connect that failed"),
        Metric("disconnections", "1", run, "connections of vehicles that were lost"),
        Metric("sessions_resumed", "1", run, "connections at which the peer still had the vehicle's session"),
        Metric("buffered", "1", _WINDOW, "messages that could not go when due and waited in the vehicle"),
        Metric("backlog_max", "1", run, "most messages that waited in one vehicle at a time"),
        *(
            Metric(
                f"handshake_time_{quantile}_ms",
                "ms",
                "connections",
                f"attempt begun to connected, {quantile}",
            )
            for quantile in QUANTILES
        ),
        *(
            Metric(
                f"time_to_connected_{quantile}_ms",
                "ms",
                "vehicles, with --connect-rate",
                f"connection due to first connected, failed attempts and waits included, {quantile}",
            )
            for quantile in QUANTILES
        ),
    ]


def _latencies() -> list[Metric]:
    return [
        Metric(f"{name}_{quantile}_ms", "ms", population, f"{meaning}, {quantile}")
        for name, (_, population, meaning) in LATENCIES.items()
        for quantile in QUANTILES
    ]


def _wire() -> list[Metric]:
    after = "due after the warm-up, delivered"
    return [
        *(
            Metric(
                f"wire_bytes_{way}",
                "B",
                "seconds after the warm-up",
                f"bytes captured on the {way}, IP headers included, the link's own probes taken out",
            )
            for way in DIRECTIONS
        ),
        *(
            Metric(
                f"probe_bytes_{way}",
                "B",
                "seconds after the warm-up",
                f"bytes of the link's own probes on the {way}, IP headers included",
            )
            for way in DIRECTIONS
        ),
        Metric(
            "overhead_bytes_per_message",
            "B",
            after,
            "(wire bytes of both directions - payload bytes, of an echo twice) / delivered",
        ),
        Metric(
            "goodput_bps",
            "bit/s",
            "delivered in the window",
            "payload bits of delivered messages per second of window",
        ),
    ]


def _link() -> list[Metric]:
    second = "seconds and vehicles of the run"
    return [
        metric
        for way in DIRECTIONS
        for metric in (
            Metric(
                f"link_rate_{way}_asked_bps", "bit/s", f"{second} with a rate", "mean rate asked of the link"
            ),
            Metric(
                f"link_rate_{way}_achieved_bps",
                "bit/s",
                second,
                "mean rate that left the link's queue (or the capture)",
            ),
            Metric(f"link_delay_{way}_asked_ms", "ms", second, "mean delay asked of the link"),
            Metric(
                f"link_delay_{way}_achieved_ms", "ms", "probes", "mean one-way delay of the link's own probes"
            ),
            Metric(f"link_loss_{way}_asked_ratio", "ratio", second, "mean loss asked of the link"),
            Metric(
                f"link_loss_{way}_achieved_ratio",
                "ratio",
                "packets offered",
                "drops / (drops + packets passed)",
            ),
        )
    ]


METRICS: Final[dict[str, Metric]] = {metric.name: metric for metric in _table()}
