"""What the codec engine measures, and how its figures come out of the samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ivsim.study.corpus import SIZE, time_metric
from ivsim.study.engines.codec.memory import Peak
from ivsim.study.engines.codec.observations import CodecObservations
from ivsim.study.engines.codec.timing import OPERATIONS
from ledger.metrics import Metric

_TIMED: Final = "repetitions"
CODEC_METRICS: Final[dict[str, Metric]] = {
    metric.name: metric
    for metric in (
        Metric(SIZE, "B", "messages", "mean payload"),
        *(
            Metric(time_metric(operation), "us", _TIMED, f"mean time {meaning}; stubs left out")
            for operation, meaning in OPERATIONS.items()
        ),
        *(
            Metric(
                f"{way}_memory_kib",
                "KiB",
                "messages kept",
                f"resident memory that the work of a process added, per message ({way})",
            )
            for way in ("encode", "decode")
        ),
        *(
            Metric(f"{way}_peak_mib", "MiB", "the process", f"peak resident memory of a process ({way})")
            for way in ("encode", "decode")
        ),
    )
}


def figures_of(observations: CodecObservations, peaks: Sequence[Peak]) -> dict[str, Any]:
    """Return the figures of one repetition of a cell; None where undefined."""
    found: dict[str, Any] = {}
    for name in (SIZE, *(time_metric(operation) for operation in OPERATIONS)):
        interval = observations.interval(name)
        found[name] = None if interval is None else interval.estimate
    for peak in peaks:
        found[f"{peak.direction}_memory_kib"] = (peak.peak_kib - peak.before_kib) / peak.messages
        found[f"{peak.direction}_peak_mib"] = peak.peak_kib / 1024
    return found
