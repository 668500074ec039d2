"""The study's report as Markdown, from its results alone."""

# ruff: noqa: ISC004 - tables read better unbroken

from __future__ import annotations

from collections import defaultdict
from statistics import fmean
from typing import Any, Final

from ivsim.serialisation.figures import PUBLISHED
from ivsim.serialisation.timing import OPERATIONS

# Persson Proos and Carlsson, IFIP Networking 2020: C++, microseconds and MB.
PAPER_US: Final = {"protobuf": (708.0, 69.0), "flatbuffers": (1_048.0, 0.09)}
PAPER_MB: Final = {"protobuf": (5.87, 5.28), "flatbuffers": (3.76, 2.04)}


def mean_times(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return format -> operation -> mean over the variants that drive (a stub is a tenth of a message)."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row["variant"] != "stub":
            found[row["format"]][row["operation"]].append(row["mean_us"])
    return {
        name: {operation: fmean(by_operation[operation]) for operation in OPERATIONS}
        for name, by_operation in found.items()
    }


def text(found: dict[str, Any]) -> str:
    """Return the whole report."""
    parts = [_head(found), _sizes(found), _times(found), _memory(found), _thesis(found), _claims(found)]
    return "\n\n".join(parts) + "\n"


def _table(head: list[str], rows: list[list[Any]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def _head(found: dict[str, Any]) -> str:
    stack = ", ".join(f"{name} {version}" for name, version in found["machine"].items())
    warning = "\n\n**A quick run: figures for nothing but a look.**" if found["quick"] else ""
    return f"""# Serialisation of CurrentStatus

Written by `python -m ivsim.serialisation` ({stack}).{warning}

Times are of this machine and of Python; the published ones are C++'s, so compare ratios. Each operation ran
{found["repetitions"]:,} times on each of {found["vehicles_per_variant"]} messages of each variant, the formats in
random order within every repetition, so that a slow moment hits all, and with caches that the other formats
have just used: a loop over one format is about twice as fast (`make bench`). ± is the 95 % interval of the mean.
The machine's load was {found["load"]:.1f} on {found["cores"]} cores when this began."""


def _sizes(found: dict[str, Any]) -> str:
    rows = []
    for name, by_variant in found["sizes"].items():
        for variant, f in by_variant.items():
            cells = [f"{f[k]:,.0f}" for k in ("messages", "mean", "sd", "min", "p5", "p50", "p95", "max")]
            published = f"{PUBLISHED[name]:,}" if variant == "all" and name in PUBLISHED else ""
            rows.append([name, variant, *cells, published])
    head = ["format", "variant", "messages", "mean", "sd", "min", "p5", "p50", "p95", "max", "published mean"]
    return f"""## Sizes, bytes

![Histograms of payload sizes: two peaks and a few small outliers](sizes.svg)

{_table(head, rows)}

Two peaks, rigid trucks below, hybrids and trucks with trailer above, and a few small outliers (vehicles that
have only switched the ignition on). FlatBuffers writes every scalar, defaults too, so that each can be patched
where it lies. Avro's 10 bytes of schema fingerprint are counted."""


def _times(found: dict[str, Any]) -> str:
    rows = [
        [r["format"], r["variant"], r["operation"], f"{r['mean_us']:.2f} ± {r['half_width_us']:.2f}",
         f"{r['median_us']:.2f}"]
        for r in found["times"]
    ]  # fmt: skip
    means = mean_times(found["times"])
    summary = [[name, *(f"{means[name][o]:.1f}" for o in OPERATIONS)] for name in means]
    meanings = "\n".join(f"- `{name}`: {meaning}" for name, meaning in OPERATIONS.items())
    return f"""## Times, µs

![Mean times of each operation by format](times.svg)

{meanings}

"Build and serialise" (what the paper timed) is `build_encode`; "serialise what is built" is `encode`.
Mean over rigid, trailer and hybrid:

{_table(["format", *OPERATIONS], summary)}

Protobuf's `decode` has checked the whole wire form when it returns, and makes a section's records when they
are first read: `decode_all` is the like of the others' `decode`.

<details><summary>Every variant</summary>

{_table(["format", "variant", "operation", "mean", "median"], rows)}

</details>"""


def _memory(found: dict[str, Any]) -> str:
    rows = [
        [m["format"], m["direction"], m["messages"], f"{m['peak_kib'] / 1024:.1f}", f"{_each_kib(m):.2f}"]
        for m in found["memory"]
    ]
    return f"""## Peak memory (getrusage), each in a process of its own

{_table(["format", "direction", "messages", "peak, MiB", "for each message, KiB"], rows)}

The interpreter, all libraries and, when encoding, the readings are in the peak. The last column is what the
work added, divided by the messages, all of which are kept: encoding, the payload and what the encoder keeps to
renew it; decoding, what decode gives (of Protobuf, the library's message, its records not yet made)."""


def _each_kib(row: dict[str, Any]) -> float:
    return float(row["peak_kib"] - row["before_kib"]) / float(row["messages"])


def _thesis(found: dict[str, Any]) -> str:
    rows = [
        [r["format"], r["groups"], f"{r['size_bytes']:,}", f"{r['encode_us']:.1f}", f"{r['decode_us']:.1f}"]
        for r in found["thesis"]
    ]
    return f"""## The sizes of the serialisation thesis

One flat record and two records of 4 and 8 groups; a group has 16 floats, 16 integers, 8 booleans and 4
strings, and JSON has 1,176, 4,696 and 9,312 B to the byte. Built anew each time, by the libraries' ordinary
way (FlatBuffers: the official Python builder; its decode finds the root and one field, as the format intends).

{_table(["format", "groups", "bytes", "build and serialise, µs", "decode, µs"], rows)}"""


def _claims(found: dict[str, Any]) -> str:
    size = {name: f["all"]["mean"] for name, f in found["sizes"].items()}
    times = mean_times(found["times"])
    kib = {(m["format"], m["direction"]): _each_kib(m) for m in found["memory"]}
    p, f, j = size["protobuf"], size["flatbuffers"], size["json"]
    pt, ft = times["protobuf"], times["flatbuffers"]
    thesis = {(r["format"], r["groups"]): r for r in found["thesis"]}
    tp, tf = thesis["protobuf", 8], thesis["flatbuffers", 8]
    rows = [
        ["17", "Protobuf about 3 times smaller than FlatBuffers, over 10 times smaller than JSON",
         "3.06; 10.5", f"{f / p:.2f}; {j / p:.1f}", _verdict(2.5 <= f / p <= 3.5 and j / p > 10)],
        ["18a", "Protobuf serialises faster (built anew, official builders, 8 groups)",
         f"{PAPER_US['flatbuffers'][0] / PAPER_US['protobuf'][0]:.2f}",
         f"{tf['encode_us'] / tp['encode_us']:.2f}", _verdict(tf["encode_us"] > tp["encode_us"])],
        ["", "the same with our encoders, a living status after a tick",
         "-", f"{ft['tick_encode'] / pt['tick_encode']:.2f}", _verdict(ft["tick_encode"] > pt["tick_encode"])],
        ["18b", "FlatBuffers deserialises far faster (root and one field in place, 8 groups)",
         f"{PAPER_US['protobuf'][1] / PAPER_US['flatbuffers'][1]:.0f}",
         f"{tp['decode_us'] / tf['decode_us']:.2f}", _verdict(tp["decode_us"] > 2 * tf["decode_us"])],
        ["", "three fields of CurrentStatus, FlatBuffers in place, Protobuf decoded",
         "-", f"{pt['three_fields'] / ft['three_fields']:.2f}",
         _verdict(pt["three_fields"] > ft["three_fields"])],
        ["", "our checked decode of all fields of CurrentStatus",
         "-", f"{pt['decode_all'] / ft['decode_all']:.2f}", _verdict(pt["decode_all"] > ft["decode_all"])],
        ["19", "FlatBuffers needs less memory, serialising and deserialising",
         f"{PAPER_MB['flatbuffers'][0]} / {PAPER_MB['protobuf'][0]} MB; "
         f"{PAPER_MB['flatbuffers'][1]} / {PAPER_MB['protobuf'][1]} MB",
         f"{kib['flatbuffers', 'encode']:.1f} / {kib['protobuf', 'encode']:.1f} KiB; "
         f"{kib['flatbuffers', 'decode']:.1f} / {kib['protobuf', 'decode']:.1f} KiB a message",
         _verdict(all(kib["flatbuffers", d] < kib["protobuf", d] for d in ("encode", "decode")))],
    ]  # fmt: skip
    return f"""## The published claims (Persson Proos and Carlsson, IFIP Networking 2020)

Ratios are FlatBuffers to Protobuf for size and serialising, Protobuf to FlatBuffers for deserialising; for
memory FlatBuffers / Protobuf, first serialising, then deserialising.

{_table(["#", "claim", "published", "here", "verdict"], rows)}"""


def _verdict(holds: bool) -> str:
    return "agree" if holds else "disagree"
