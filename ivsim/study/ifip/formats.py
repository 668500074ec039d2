"""Claims 17 to 19, of serialisation, decided from the serialisation study's results.json."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from ivsim.study.ifip.verdicts import AGREE, CANNOT_TELL, DISAGREE, Finding

FORMAT_CLAIMS: Final = {
    17: (
        "Protobuf about 3 times smaller than FlatBuffers, over 10 times smaller than JSON",
        "ratio of the mean sizes within 2.5 to 3.5, and above 10; sizes have no measurement error",
    ),
    18: (
        "Protobuf serialises faster; FlatBuffers deserialises far faster (one field without the rest)",
        "ratio of mean times above 1 (build), 2 (one field) and 1 (three fields of CurrentStatus)",
    ),
    19: (
        "FlatBuffers needs less memory, serialising and deserialising",
        "peak resident set added by the work lower, each direction",
    ),
}


def read(path: Path) -> dict[str, Any] | None:
    """Return the study's results, None when there are none."""
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found


def decide(number: int, found: dict[str, Any] | None) -> list[Finding]:
    """Return the findings of claim 17, 18 or 19."""
    if found is None:
        return [Finding(CANNOT_TELL, "the serialisation study has not been run")]
    return {17: _sizes, 18: _times, 19: _memory}[number](found)


def _holds(holds: bool, words: str) -> Finding:
    return Finding(AGREE if holds else DISAGREE, words)


def _sizes(found: dict[str, Any]) -> list[Finding]:
    size = {name: by["all"]["mean"] for name, by in found["sizes"].items()}
    flat, text = size["flatbuffers"] / size["protobuf"], size["json"] / size["protobuf"]
    return [
        _holds(2.5 <= flat <= 3.5, f"FlatBuffers / Protobuf {flat:.2f}"),
        _holds(text > 10, f"JSON / Protobuf {text:.1f}"),
    ]


def _times(found: dict[str, Any]) -> list[Finding]:
    thesis = {(row["format"], row["groups"]): row for row in found["thesis"]}
    most = max(groups for _, groups in thesis)
    proto, flat = thesis["protobuf", most], thesis["flatbuffers", most]
    encode, decode = flat["encode_us"] / proto["encode_us"], proto["decode_us"] / flat["decode_us"]
    fields = {
        name: fmean(
            row["mean_us"]
            for row in found["times"]
            if row["format"] == name and row["operation"] == "three_fields" and row["variant"] != "stub"
        )
        for name in ("protobuf", "flatbuffers")
    }
    three = fields["protobuf"] / fields["flatbuffers"]
    return [
        _holds(encode > 1, f"build and serialise, FlatBuffers / Protobuf {encode:.2f}"),
        _holds(decode > 2, f"root and one field, Protobuf / FlatBuffers {decode:.2f}"),
        _holds(three > 1, f"three fields of CurrentStatus, Protobuf / FlatBuffers {three:.2f}"),
    ]


def _memory(found: dict[str, Any]) -> list[Finding]:
    kib = {(row["format"], row["direction"]): row["peak_kib"] - row["before_kib"] for row in found["memory"]}
    return [
        _holds(
            kib["flatbuffers", way] < kib["protobuf", way],
            f"{way}: FlatBuffers {kib['flatbuffers', way]:,} KiB, Protobuf {kib['protobuf', way]:,} KiB",
        )
        for way in ("encode", "decode")
    ]
