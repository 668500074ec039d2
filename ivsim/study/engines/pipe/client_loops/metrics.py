"""What the engine `clients` measures."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ledger.metrics import Metric
from schemas.quantiles import rank_index

_QUANTILES: Final = {"p50": 0.5, "p99": 0.99}
_OF: Final = "one measurement"

CLIENT_METRICS: Final[dict[str, Metric]] = {
    one.name: one
    for one in (
        Metric(
            "produce_ms", "ms", _OF, "from before the first record to the answer to the last, flush included"
        ),
        Metric("send_ms", "ms", _OF, "of that, until the client library had taken all"),
        Metric("consume_ms", "ms", _OF, "from before the receiver is opened to the last record"),
        Metric("consume_span_ms", "ms", _OF, "from the first records that came to the last"),
        Metric("latency_mean_ms", "ms", "records that came", "from sending to having, mean"),
        Metric("latency_p50_ms", "ms", "records that came", "from sending to having, median"),
        Metric("latency_p99_ms", "ms", "records that came", "from sending to having, 99th percentile"),
        Metric(
            "produce_client_cpu_us",
            "us",
            "records",
            "CPU time of the client's processes by record sent (stream)",
        ),
        Metric("produce_broker_cpu_us", "us", "records", "CPU time of the platform by record sent (stream)"),
        Metric(
            "consume_client_cpu_us",
            "us",
            "records",
            "CPU time of the client's processes by record read (stream)",
        ),
        Metric("consume_broker_cpu_us", "us", "records", "CPU time of the platform by record read (stream)"),
        Metric(
            "burst_client_cpu_us",
            "us",
            "records",
            "CPU time of the client's processes by record, both ways (burst)",
        ),
        Metric(
            "burst_broker_cpu_us", "us", "records", "CPU time of the platform by record, both ways (burst)"
        ),
        Metric(
            "single_client_cpu_us",
            "us",
            "records",
            "CPU time of the client's processes by record, one at a time",
        ),
        Metric("single_broker_cpu_us", "us", "records", "CPU time of the platform by record, one at a time"),
        Metric(
            "resident_mib", "MiB", "the processes", "resident memory of the client's processes at the end"
        ),
        Metric("process_ms", "ms", "a new process", "from its start until the client library was imported"),
        Metric(
            "sender_open_ms",
            "ms",
            _OF,
            "making and opening a sender: metadata and connection, a JVM where it is not up",
        ),
        Metric("receiver_open_ms", "ms", _OF, "opening a receiver"),
        Metric("first_answer_ms", "ms", _OF, "from before the first record to the first answer"),
        Metric("first_tenth_us", "us", "first tenth", "time of handing a record to the library"),
        Metric("rest_us", "us", "the other records", "time of handing a record to the library"),
        Metric("unconfirmed", "1", "records", "without an answer, or with an error for one"),
        Metric("missing", "1", "records", "sent and not read"),
        Metric("duplicates", "1", "records", "read more than once"),
        Metric("wrong", "1", "records", "read with other bytes than were sent"),
    )
}


def latencies(found: array[int]) -> Mapping[str, Any]:
    """Return mean and quantiles, ms; None where no record came, or it is not a loop that has latencies."""
    data = np.sort(np.frombuffer(found, dtype=np.int64))
    data = data[data > 0]
    if not data.size:
        return {"latency_mean_ms": None, **{f"latency_{name}_ms": None for name in _QUANTILES}}
    quantiles = {
        f"latency_{name}_ms": float(data[rank_index(data.size, q)]) / 1e6 for name, q in _QUANTILES.items()
    }
    return {"latency_mean_ms": float(data.mean()) / 1e6, **quantiles}
