"""What the study measured beyond the thesis, as tables: costs by stage, idioms, codecs, settings, causes, the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import product
from typing import Any, Final

import numpy as np

from ivsim.papers.kafka_formats.cells import (
    AVRO,
    BATCH,
    FORMATS,
    JSON,
    LABELS,
    MSGPACK,
    PROTOBUF,
    S1,
    S2,
    S3,
    SCENARIOS,
    Cells,
)
from ivsim.papers.parts import ANY, DIFFERENCE, Figures, Part, differences, ratios
from ivsim.report.style import number
from ivsim.study.engines.pipe.idioms import IDIOMS
from ivsim.study.engines.pipe.metrics import STAGES
from ivsim.study.markdown import table
from ivsim.study.results import CellResult
from ivsim.study.summary import DASH

YEAR_S: Final = 365 * 86_400
# One record of a vehicle each so many seconds, for what a year of it costs.
INTERVAL_S: Final = 10
# The thesis's idiom of a format, and the fastest of those that the study sends through Kafka.
FASTEST: Final = {JSON: "orjson", MSGPACK: "msgspec", AVRO: "avro-plain", PROTOBUF: "protobuf-keywords"}
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


def interval_text(part: Part) -> str:
    """Return a ratio or difference with its interval; a dash where it was not measured."""
    found = part.interval()
    if found.estimate is None:
        return DASH
    if found.low is None or found.high is None:
        return f"{found.estimate:.3g}"
    return f"{found.estimate:.3g} [{found.low:.3g}, {found.high:.3g}]"


def ratio_text(above: Figures, below: Figures) -> str:
    """Return the ratio of two cells' figures, paired by repetition, with its interval."""
    return interval_text(Part("", ratios(above, below), 0.0, ANY))


def _of(found: Iterable[CellResult], sweep: str) -> list[CellResult]:
    return [one for one in found if one.cell.sweep == sweep and one.done]


def _mean(one: CellResult, metric: str) -> float | None:
    return one.interval(metric).estimate


def _times(value: float | None, factor: float) -> str:
    return number(None if value is None else value * factor)


def costs(found: Sequence[CellResult]) -> str:
    """Return what a record of the thesis's own design costs, stage by stage."""
    rows = []
    for one in _of(found, "core"):
        values = one.cell.values
        parts = [_mean(one, f"{stage}_us") for stage in (*STAGES[:3], "deliver", *STAGES[3:])]
        whole = [_mean(one, f"{name}_cpu_us") for name in ("producer", "consumer", "platform")]
        both = [_mean(one, f"{name}_cpu_us") for name in ("client", "platform")]
        known = [value for value in both if value is not None]
        rows.append(
            [
                str(values["record"]).upper(),
                SCENARIOS[str(values["profile"])],
                str(values["format"]),
                *(
                    number(_mean(one, name))
                    for name in ("wall_records_per_s", "summed_records_per_s", "payload_mb_per_s")
                ),
                *map(number, parts),
                *map(number, whole),
                number(sum(known)) if len(known) == len(both) else DASH,
            ]
        )
    head = [
        "record",
        "",
        "format",
        "records/s",
        "by the thesis's rule",
        "MB/s",
        *STAGES[:3],
        "deliver",
        *STAGES[3:],
    ]
    head += ["producer", "consumer", "brokers", "CPU s a million records"]
    return (
        "## What a record costs\n\nThe thesis's design at full speed. From *build* to *brokers* in µs of CPU time a record. A"
        " producer's whole is its four stages, of which *deliver* is what its library does in threads of its own, and its"
        " loop. A dash where a stage has nothing to do. By the thesis's rule a second in which producer and consumers are"
        " both at work counts twice.\n\n" + table(head, rows)
    )


def idioms(found: Sequence[CellResult]) -> str:
    """Return what every idiom costs, stage by stage, over files."""
    rows = []
    for one in _of(found, "stages"):
        name = str(one.cell.values["format"])
        times = [_mean(one, f"{stage}_us") for stage in STAGES if stage not in {"produce", "fetch"}]
        row = [str(one.cell.values["record"]).upper(), name, IDIOMS[name].summary]
        rows.append([*row, number(_mean(one, "payload_bytes")), *map(number, times)])
    rows.sort(key=lambda row: row[0])
    head = ["record", "idiom", "", "B", "build", "encode", "decode", "read"]
    return (
        "## What an idiom costs\n\nCPU µs a record, over the null platform; a dash where a stage has nothing to do.\n\n"
        + table(head, rows)
    )


def fastest(cells: Cells) -> str:
    """Return what the fastest idiom of each format changes."""
    rows = []
    for record, name in product((S1, S3), FORMATS):
        idiom = FASTEST[name]

        def of(metric: str, record: str = record, idiom: str = idiom) -> Figures:
            return cells.core(metric, record, BATCH, idiom) or cells.figures(
                metric, "fast", record=record, format=idiom
            )

        was = {metric: cells.core(metric, record, BATCH, name) for metric in _SPEEDS}
        rows.append(
            [
                record.upper(),
                LABELS[name],
                idiom,
                *(ratio_text(of(metric), was[metric]) for metric in _SPEEDS),
            ]
        )
    head = ["record", "format", "fastest idiom", "records/s", "CPU of clients", "CPU of the brokers"]
    return (
        "## The fastest idioms\n\nThe same records through Kafka, batched, with another way of encoding the same format: its"
        " figure over that of the thesis's way.\n\n" + table(head, rows)
    )


_SPEEDS: Final = ("wall_records_per_s", "client_cpu_us", "platform_cpu_us")


def codecs(cells: Cells) -> str:
    """Return how far compression levels the formats."""
    rows = []
    for codec in CODECS:

        def of(metric: str, name: str, codec: str = codec) -> Figures:
            return cells.figures(metric, "codecs", codec=codec, format=name)

        stored = [of("stored_bytes", name) for name in FORMATS]
        rows.append(
            [
                codec,
                *(number(float(np.mean(list(one.values()))) if one else None) for one in stored),
                ratio_text(stored[0], stored[-1]),
                *(ratio_text(of(metric, JSON), of(metric, PROTOBUF)) for metric in _SPEEDS),
            ]
        )
    head = ["codec", *(f"{LABELS[name]}, B" for name in FORMATS), "JSON/Protobuf: bytes"]
    head += ["records/s", "CPU of clients", "CPU of the brokers"]
    return "## Codecs\n\nBytes of an S1 record on the brokers' disks, linger 50 ms.\n\n" + table(head, rows)


def million(found: Sequence[CellResult]) -> str:
    """Return what a million records come to where batches are as full as they get."""
    metrics = ("wire_bytes", "stored_bytes", "client_cpu_us", "platform_cpu_us")
    rows = [
        [*_format_and_codec(one), *(number(_mean(one, metric)) for metric in metrics)]
        for one in _by_format(found, "codecs")
    ]
    head = ["format", "codec", "MB sent", "MB on disk", "CPU s of clients", "CPU s of the brokers"]
    return (
        "## A million records\n\nRecords of S1 at full speed, linger 50 ms, three brokers, one copy.\n\n"
        + table(head, rows)
    )


def year(found: Sequence[CellResult]) -> str:
    """Return what a vehicle's records of a year come to in batches as a fleet fills them."""
    records = YEAR_S // INTERVAL_S
    metrics = ("wire_bytes", "stored_bytes", "client_cpu_us", "platform_cpu_us")
    rows = [
        [
            *_format_and_codec(one),
            number(_mean(one, "batch_records")),
            *(_times(_mean(one, metric), records / 1e6) for metric in metrics),
        ]
        for one in _by_format(found, "fleet")
    ]
    head = ["format", "codec", "records a batch", "MB sent", "MB on disk", "CPU s of clients"]
    return (
        f"## A vehicle's year\n\nA vehicle that sends a record of S1 each {INTERVAL_S} s has {records:,} a year. Their batches"
        " here are those of a gateway of 5,000 such vehicles: 500 records/s, linger 50 ms; three brokers, one copy. The"
        " brokers' CPU is that of 500 records/s, idle work included.\n\n"
        + table([*head, "CPU s of the brokers"], rows)
    )


def _format_and_codec(one: CellResult) -> list[str]:
    return [LABELS[str(one.cell.values["format"])], str(one.cell.values["codec"])]


def _by_format(found: Iterable[CellResult], sweep: str) -> list[CellResult]:
    order = list(LABELS)
    return sorted(_of(found, sweep), key=lambda one: order.index(str(one.cell.values["format"])))


# What changes, the sweep in which it does, and its value there; beside the cells of `codecs` without compression.
_FACTORS: Final[tuple[tuple[str, str, dict[str, Any]], ...]] = (
    ("TLS / plain text", "tls", {"security": "tls"}),
    ("linger 5 ms / 50 ms", "linger", {"linger": 5.0}),
    ("1 partition / 3", "partitions", {"partitions": 1}),
    ("3 producers and 3 consumers / 1 of each", "clients", {"producers": 3}),
)


def settings(cells: Cells) -> str:
    """Return what each setting changes by itself."""
    rows = []

    def row(text: str, name: str, changed: Callable[[str], Figures], base: Callable[[str], Figures]) -> None:
        rows.append([text, LABELS[name], *(ratio_text(changed(one), base(one)) for one in _SPEEDS)])

    for (text, sweep, values), name in product(_FACTORS, (JSON, PROTOBUF)):
        row(
            text,
            name,
            partial(cells.figures, sweep=sweep, format=name, **values),
            partial(cells.figures, sweep="codecs", codec="none", format=name),
        )
    for name in (JSON, PROTOBUF):
        one, every = (partial(cells.figures, sweep="acks", acks=acks, format=name) for acks in ("1", "all"))
        row("acks 1 / acks all, three copies", name, one, every)
    head = ["setting", "format", "records/s", "CPU of clients", "CPU of the brokers"]
    return (
        "## One setting at a time\n\nRecords of S1 at full speed, linger 50 ms, one producer, one consumer and 3 partitions"
        " where the row says nothing else.\n\n" + table(head, rows)
    )


def causes(cells: Cells) -> str:
    """Return the figures of the cells that isolate the causes that claims 10 and 20 name."""
    rows = []
    for record, profile in product((S2, S3), SCENARIOS):

        def both(get: Callable[[str], Figures]) -> str:
            return ratio_text(get(PROTOBUF), get(MSGPACK))

        def built(metric: str, record: str = record, profile: str = profile) -> str:
            return both(lambda name: cells.core(metric, record, profile, name))

        def prebuilt(metric: str, record: str = record, profile: str = profile) -> str:
            return both(
                lambda name: cells.figures(metric, "prebuilt", record=record, profile=profile, format=name)
            )

        where = f"{record.upper()} {SCENARIOS[profile]}"
        speeds, costs_us = ((get("wall_records_per_s"), get("client_cpu_us")) for get in (built, prebuilt))
        rows.append([where, *speeds, *costs_us])
    head = ["", "built: records/s", "CPU of clients", "prebuilt: records/s", "CPU of clients"]
    text = f"### Claim 10: Protobuf over MessagePack, with and without building\n\n{table(head, rows)}"
    head = [
        "format",
        "outliers as it was, %",
        "even partitions, %",
        "change",
        "and half the load, %",
        "change",
    ]
    rows = [_outliers(cells, name) for name in (PROTOBUF, MSGPACK)]
    return f"## Causes by themselves\n\n{text}\n\n### Claim 20: outliers of S1, batched; changes in points\n\n{table(head, rows)}"


def _outliers(cells: Cells, name: str) -> list[str]:
    metric = "transit_outlier_ratio"
    before = cells.core(metric, S1, BATCH, name)
    later = [cells.figures(metric, sweep, format=name) for sweep in ("even", "half_load")]
    row = [LABELS[name], _percent(before)]
    for one in later:
        less = [100 * value for value in differences(one, before)]
        row += [_percent(one), interval_text(Part("", less, -ANY, ANY, DIFFERENCE))]
    return row


def _percent(figures: Figures) -> str:
    return f"{100 * np.mean(list(figures.values())):.2f}" if figures else DASH


def load(found: Sequence[CellResult], cores: int) -> str:
    """Return how loaded a machine of so many cores was by others while the study ran."""
    others = [float(value) for one in found for value in one.values("other_busy_cores")]
    verdicts: dict[str, int] = {}
    for kept in (kept for one in found for kept in one.done):
        verdict = _verdict(kept.figures)
        verdicts[verdict] = verdicts.get(verdict, 0) + 1
    if not others:
        return ""
    median, tail = np.quantile(others, (0.5, 0.95))
    counted = ", ".join(f"{count:,} {verdict}" for verdict, count in sorted(verdicts.items()))
    return (
        "## How loaded the machine was\n\nProcessors that were busy with what was not producers, consumers or platform,"
        f" of {cores}: median {median:.2f}, 95 % of measurements below {tail:.2f}, at most {max(others):.2f}."
        f" Measurements: {counted}."
    )


def _verdict(figures: dict[str, Any]) -> str:
    return str((figures.get("validity") or {}).get("verdict", "without a verdict"))
