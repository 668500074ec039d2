"""The twenty claims of the thesis, and the rule by which each is decided; the numbers are those of its figures."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from typing import Final

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
    SINGLE,
    SIZES,
    Cells,
)
from ivsim.papers.parts import (
    ANY,
    DIFFERENCE,
    Figures,
    Pair,
    Part,
    differences,
    each_and_mean,
    found_of,
    ratios,
)
from ivsim.study.claims import Claim, Finding

SPEED: Final = "wall_records_per_s"
BOTH: Final = "encode_decode_us"
MEDIAN: Final = "transit_p50_ms"
MEAN: Final = "transit_mean_ms"
OUTLIERS: Final = "transit_outlier_ratio"
EVERY: Final = tuple(product(SIZES, SCENARIOS))
LARGER: Final = tuple(product((S2, S3), SCENARIOS))
# What "half" and "about 20 % below" allow, as a ratio.
NEAR: Final = 0.1


def _where(record: str, profile: str) -> str:
    return f"{record.upper()} {SCENARIOS[profile]}"


def _pair(cells: Cells, metric: str, at: tuple[str, str], names: tuple[str, str]) -> Pair:
    """Return a figure of the first format over the second's."""
    text = f"{_where(*at)} {LABELS[names[0]]}/{LABELS[names[1]]}"
    return Pair(text, *(cells.core(metric, *at, name) for name in names))


def _each(
    cells: Cells,
    metric: str,
    where: Sequence[tuple[str, str]],
    names: tuple[str, str],
    within: tuple[float, float] = (1.0, ANY),
) -> list[Part]:
    """Return the parts that a ratio lies between the bounds in each cell, and in their mean."""
    pairs = [_pair(cells, metric, at, names) for at in where]
    return each_and_mean(pairs, f"cells, {LABELS[names[0]]}/{LABELS[names[1]]}", *within)


def _above(
    cells: Cells, metric: str, where: Sequence[tuple[str, str]], first: str, others: Sequence[str]
) -> list[Part]:
    """Return that a format's figure is above the others'."""
    return [part for other in others for part in _each(cells, metric, where, (first, other))]


def _below(
    cells: Cells, metric: str, where: Sequence[tuple[str, str]], first: str, others: Sequence[str]
) -> list[Part]:
    return [part for other in others for part in _each(cells, metric, where, (first, other), (0.0, 1.0))]


def _but(name: str) -> list[str]:
    return [one for one in FORMATS if one != name]


def _payload(cells: Cells, record: str, name: str) -> Figures:
    """Return the bytes of a payload: of the thesis's formats, or of the one that stands for another."""
    metric = "payload_bytes"
    return cells.core(metric, record, BATCH, name) or cells.figures(
        metric, "types", record=record, format=name
    )


def _bytes(cells: Cells) -> list[Finding]:
    order = (PROTOBUF, AVRO, MSGPACK, JSON)
    parts = []
    for record in SIZES:
        sizes = {name: _payload(cells, record, name) for name in order}
        parts += [
            Part(f"{record.upper()} {LABELS[b]}/{LABELS[a]}", ratios(sizes[b], sizes[a]), 1.0, ANY)
            for a, b in pairwise(order)
        ]
    return found_of(parts)


def _cost_order(cells: Cells) -> list[Finding]:
    parts = _below(cells, BOTH, EVERY, PROTOBUF, [MSGPACK])
    parts += _below(cells, BOTH, EVERY, MSGPACK, [AVRO, JSON])
    return found_of(parts + _above(cells, BOTH, EVERY, JSON, [AVRO]))


def _cost_factors(cells: Cells) -> list[Finding]:
    parts = _each(cells, BOTH, EVERY, (JSON, PROTOBUF), (5.0, ANY))
    return found_of(parts + _each(cells, BOTH, EVERY, (MSGPACK, PROTOBUF), (0.0, 2.0)))


def _avro_cost(cells: Cells) -> list[Finding]:
    return found_of(_each(cells, BOTH, LARGER, (AVRO, JSON), (0.0, 1.0)))


def _json_slowest(cells: Cells) -> list[Finding]:
    return found_of(_below(cells, SPEED, EVERY, JSON, _but(JSON)))


def _msgpack_twice(cells: Cells) -> list[Finding]:
    return found_of(_each(cells, SPEED, EVERY, (MSGPACK, JSON), (2.0, ANY)))


def _fastest_small(cells: Cells) -> list[Finding]:
    where = [(S1, profile) for profile in SCENARIOS]
    return found_of(_above(cells, SPEED, where, PROTOBUF, _but(PROTOBUF)))


def _fastest_large(cells: Cells) -> list[Finding]:
    return found_of(_above(cells, SPEED, LARGER, MSGPACK, _but(MSGPACK)))


def _avro_like_protobuf(cells: Cells) -> list[Finding]:
    return found_of(_each(cells, SPEED, LARGER, (AVRO, PROTOBUF), (1 / 1.2, 1.2)))


def _cause_setattr(cells: Cells) -> list[Finding]:
    parts = []
    for record, profile in LARGER:
        prebuilt = [
            cells.figures(SPEED, "prebuilt", record=record, profile=profile, format=name)
            for name in (PROTOBUF, MSGPACK)
        ]
        where = _where(record, profile)
        parts.append(Part(f"{where} prebuilt, Protobuf/MessagePack", ratios(*prebuilt), 1.0, ANY))
        without = [_without_build(cells, record, profile, name) for name in (PROTOBUF, MSGPACK)]
        parts.append(Part(f"{where} time without build, Protobuf/MessagePack", ratios(*without), 0.0, 1.0))
    return found_of(parts)


def _without_build(cells: Cells, record: str, profile: str, name: str) -> Figures:
    """Return the time of a record, less the CPU time of its build, in us."""
    speed, build = (cells.core(metric, record, profile, name) for metric in (SPEED, "build_us"))
    return {one: 1e6 / speed[one] - build[one] for one in speed.keys() & build.keys() if speed[one] > 0}


def _shares(cells: Cells) -> list[Finding]:
    parts = []
    for name, profile in product(FORMATS, SCENARIOS):
        small, large = (cells.core("encode_decode_share", record, profile, name) for record in (S1, S3))
        low, high = (0.0, 1.0) if name == PROTOBUF else (1.0, ANY)
        text = f"{LABELS[name]} {SCENARIOS[profile]}, share at S3/S1"
        parts.append(Part(text, ratios(large, small), low, high))
    return found_of(parts)


def _scenarios(cells: Cells, metric: str, names: tuple[str, str], low: float, high: float) -> list[Finding]:
    """Decide the ratio of one scenario to the other, of each format and size."""
    what = f"{SCENARIOS[names[0]]}/{SCENARIOS[names[1]]}"
    pairs = [
        Pair(
            f"{LABELS[name]} {record.upper()}, {what}",
            *(cells.core(metric, record, profile, name) for profile in names),
        )
        for name, record in product(FORMATS, SIZES)
    ]
    return found_of(each_and_mean(pairs, f"cells, {what}", low, high))


def _batch_like_single(cells: Cells) -> list[Finding]:
    return _scenarios(cells, SPEED, (SINGLE, BATCH), 0.85, 1.15)


def _batch_waits(cells: Cells) -> list[Finding]:
    return _scenarios(cells, MEDIAN, (BATCH, SINGLE), 9.0, ANY)


def _protobuf_soonest(cells: Cells) -> list[Finding]:
    where = [(record, BATCH) for record in SIZES]
    parts = [
        part for metric in (MEDIAN, MEAN) for part in _below(cells, metric, where, PROTOBUF, _but(PROTOBUF))
    ]
    for record in SIZES:
        near = 0.5 if record == S1 else 0.8
        parts += _each(cells, MEDIAN, [(record, BATCH)], (PROTOBUF, JSON), (near - NEAR, near + NEAR))
    return found_of(parts)


def _json_sooner(cells: Cells) -> list[Finding]:
    return found_of(
        [part for name in (AVRO, MSGPACK) for part in _each(cells, MEDIAN, [(S2, BATCH)], (name, JSON))]
    )


def _json_latest(cells: Cells) -> list[Finding]:
    return found_of(
        [
            part
            for name in _but(JSON)
            for part in _each(cells, MEDIAN, [(S1, SINGLE)], (JSON, name), (3.0, ANY))
        ]
    )


def _json_both_ends(cells: Cells) -> list[Finding]:
    at = [(S2, SINGLE)]
    parts = [*_below(cells, MEDIAN, at, JSON, _but(JSON)), *_above(cells, MEAN, at, JSON, _but(JSON))]
    return found_of(parts)


def _largest_single(cells: Cells) -> list[Finding]:
    at = [(S3, SINGLE)]
    parts = [*_below(cells, MEDIAN, at, AVRO, _but(AVRO)), *_below(cells, MEAN, at, PROTOBUF, _but(PROTOBUF))]
    for metric in (MEDIAN, MEAN):
        parts += _above(cells, metric, at, MSGPACK, [JSON])
    return found_of(parts)


def _outliers(cells: Cells) -> list[Finding]:
    order = (PROTOBUF, MSGPACK, AVRO, JSON)
    parts = []
    for profile in SCENARIOS:
        shares = {name: cells.core(OUTLIERS, S1, profile, name) for name in order}
        parts += [
            Part(
                f"{_where(S1, profile)} outlier share, {LABELS[a]} minus {LABELS[b]}",
                differences(shares[a], shares[b]),
                0.0,
                ANY,
                DIFFERENCE,
            )
            for a, b in pairwise(order)
        ]
    parts += [
        part for name in (PROTOBUF, MSGPACK) for part in _each(cells, MEAN, [(S1, SINGLE)], (name, JSON))
    ]
    return found_of(parts)


def _cause_outliers(cells: Cells) -> list[Finding]:
    parts = []
    for name in (PROTOBUF, MSGPACK):
        before = cells.core(OUTLIERS, S1, BATCH, name)
        for sweep, what in (("even", "of even partitions"), ("half_load", "at half load")):
            less = differences(cells.figures(OUTLIERS, sweep, format=name), before)
            text = f"S1 B {LABELS[name]}, outlier share {what} minus as it was"
            parts.append(Part(text, less, -ANY, 0.0, DIFFERENCE))
    return found_of(parts)


_ORDER: Final = "ratios in every cell"
# Decided in two settings each: the thesis says neither its types nor its Avro schema.
OF_TYPES: Final = (1,)
OF_SCHEMAS: Final = (2, 4, 5, 9)
CLAIMS: Final[tuple[Claim, ...]] = (
    Claim(
        1,
        "bytes of each size: Protobuf < Avro < MessagePack < JSON",
        "ratios of payloads; Protobuf with float, and with double",
        _bytes,
    ),
    Claim(
        2,
        "encode + decode, every cell: Protobuf lowest, MessagePack second, JSON highest",
        _ORDER,
        _cost_order,
    ),
    Claim(
        3,
        "encode + decode: JSON at least 5 times Protobuf, MessagePack at most 2 times",
        _ORDER,
        _cost_factors,
    ),
    Claim(
        4,
        "encode + decode: Avro below JSON at S2 and S3",
        "ratios; with a nullable and with a plain schema",
        _avro_cost,
    ),
    Claim(5, "records/s: JSON is the lowest of the four", _ORDER, _json_slowest),
    Claim(6, "records/s: MessagePack at least twice JSON", _ORDER, _msgpack_twice),
    Claim(7, "records/s at S1: Protobuf is the highest", "ratios, B and O", _fastest_small),
    Claim(8, "records/s at S2 and S3: MessagePack is the highest", "ratios, B and O", _fastest_large),
    Claim(
        9, "records/s at S2 and S3: Avro and Protobuf alike", "ratio within 1/1.2 to 1.2", _avro_like_protobuf
    ),
    Claim(
        10,
        "cause of 8: setattr",
        "messages prebuilt: Protobuf above MessagePack; and so without the CPU time of build",
        _cause_setattr,
    ),
    Claim(
        11,
        "share of encode + decode, S1 to S3: falls for Protobuf, rises for the others",
        "ratio of shares, by the thesis's total",
        _shares,
    ),
    Claim(
        12,
        "B and O alike for records/s",
        "ratio within 0.85 to 1.15, each format and size",
        _batch_like_single,
    ),
    Claim(13, "median transit, B over O: more than 9 times", "ratio, each format and size", _batch_waits),
    Claim(
        14,
        "B: Protobuf lowest median and mean; half of JSON's median at S1, 20 % below at S2, S3",
        f"ratios; half and 20 % below within {NEAR:g}",
        _protobuf_soonest,
    ),
    Claim(15, "B, S2: medians of Avro and MessagePack above JSON's", "ratios", _json_sooner),
    Claim(16, "O, S1: JSON's median at least 3 times the others'", "ratios", _json_latest),
    Claim(17, "O, S2: JSON has the lowest median and the highest mean", "ratios", _json_both_ends),
    Claim(
        18,
        "O, S3: Avro lowest median, Protobuf lowest mean, MessagePack highest of both",
        "ratios",
        _largest_single,
    ),
    Claim(
        19,
        "S1: outliers fall in the order Protobuf, MessagePack, Avro, JSON; O: means of the first two above JSON's",
        "differences of shares (Tukey's rule), ratios of means",
        _outliers,
    ),
    Claim(
        20,
        "cause of the outliers: uneven partitions, or consumers slower than producers",
        "share with even partitions, and at half of the capacity too, below",
        _cause_outliers,
    ),
)
