"""Claims 17 to 19, of serialisation, decided from the cells of the C++ libraries that the paper measured.

Python's libraries decide nothing about C++'s: their figures stand in a table of their own. Where no C++ driver could be
built, times and memory are not comparable; sizes are, as bytes are the same in each language.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ivsim.study.claims import (
    CANNOT_TELL,
    Claim,
    Finding,
    Ordering,
    RepetitionCount,
    inside,
    not_comparable,
    ordered,
)
from ivsim.study.clusters import Clusters, difference_of_means, ratio_of_means
from ivsim.study.results import CellResult, done_of

# Persson Proos and Carlsson, IFIP Networking 2020: C++; bytes, microseconds and MB.
PAPER_BYTES: Final = {"json": 12_187.0, "protobuf": 1_157.0, "flatbuffers": 3_536.0}
PAPER_ENCODE_US: Final = {"protobuf": 708.0, "flatbuffers": 1_048.0}
PAPER_DECODE_US: Final = {"protobuf": 69.0, "flatbuffers": 0.09}
PAPER_MB: Final = {
    "encode": {"protobuf": 5.87, "flatbuffers": 3.76},
    "decode": {"protobuf": 5.28, "flatbuffers": 2.04},
}
CURRENT_STATUS: Final = "current_status"
FAR_FASTER: Final = 2.0
# "About three times", and what "over ten times" allows.
ABOUT_THREE: Final = (2.5, 3.5)
OVER_TEN: Final = 10.0
# The smallest difference of two programs' memory that matters: a page or two come and go with where things are loaded.
MEMORY_MARGIN_MIB: Final = 0.1
PROTO, FLAT, TEXT = "protobuf", "flatbuffers", "json"


class FormatCells(RepetitionCount):
    """The cells of both serialisation studies that are done.

    Args:
        python: cells of Python's libraries, by record and format.
        cpp: cells of C++'s, by format.
        why_no_cpp: why the C++ libraries were not measured; None where they were, or it is not known.
    """

    def __init__(
        self, python: Sequence[CellResult], cpp: Sequence[CellResult] = (), why_no_cpp: str | None = None
    ) -> None:
        super().__init__()
        self._python = {(r.cell.options.record, r.cell.options.format): r for r in done_of(python)}
        self._cpp = {r.cell.options.format: r for r in done_of(cpp)}
        self.why_no_cpp = why_no_cpp

    def get(self, record: str, name: str) -> CellResult | None:
        """Return a cell of Python's libraries, None where it was not measured."""
        return self._counted(self._python.get((record, name)))

    def cpp(self, name: str) -> CellResult | None:
        """Return a cell of C++'s libraries, None where it was not measured."""
        return self._counted(self._cpp.get(name))

    def _counted(self, cell: CellResult | None) -> CellResult | None:
        if cell is not None:
            self.looked_at(len(cell.done))
        return cell


def clusters_of(cell: CellResult | None, metric: str) -> Clusters | None:
    """Return the single measurements of a metric, None where there are none."""
    return None if cell is None else cell.observations.clusters(metric)


def sizes(cells: FormatCells) -> list[Finding]:
    """Decide the sizes: from C++ where it was measured, whose defaults the paper had; JSON's are Python's."""
    metric = "payload_bytes_mean"
    flat, proto = (clusters_of(cells.cpp(name), metric) for name in (FLAT, PROTO))
    where = "C++"
    if flat is None or proto is None:
        where = "Python"
        flat, proto = (clusters_of(cells.get(CURRENT_STATUS, name), metric) for name in (FLAT, PROTO))
    text, own = (clusters_of(cells.get(CURRENT_STATUS, name), metric) for name in (TEXT, PROTO))
    published = {name: PAPER_BYTES[name] / PAPER_BYTES[PROTO] for name in (FLAT, TEXT)}
    return [
        _ratio(
            f"FlatBuffers / Protobuf, {where} (published {published[FLAT]:.2f})", (flat, proto), *ABOUT_THREE
        ),
        _ratio(f"JSON / Protobuf, Python (published {published[TEXT]:.1f})", (text, own), OVER_TEN),
    ]


def _ratio(
    what: str, pair: tuple[Clusters | None, Clusters | None], low: float, high: float = float("inf")
) -> Finding:
    """Decide that the ratio of two means over the same messages lies in [low, high]."""
    above, below = pair
    if above is None or below is None:
        return Finding(CANNOT_TELL, f"{what}: not measured")
    return inside(what, ratio_of_means(above, below, same_units=True), low, high)


def times(cells: FormatCells) -> list[Finding]:
    build = PAPER_ENCODE_US[FLAT] / PAPER_ENCODE_US[PROTO]
    read = PAPER_DECODE_US[PROTO] / PAPER_DECODE_US[FLAT]
    if (why := _no_cpp(cells)) is not None:
        return [not_comparable("times", why)]
    asked = (
        (
            f"build and serialise, FlatBuffers / Protobuf (published {build:.2f})",
            "build_encode_us",
            (FLAT, PROTO),
            1.0,
        ),
        (
            f"to the first field, Protobuf / FlatBuffers (published {read:.0f})",
            "decode_us",
            (PROTO, FLAT),
            FAR_FASTER,
        ),
        ("three fields, Protobuf / FlatBuffers", "three_fields_us", (PROTO, FLAT), FAR_FASTER),
    )
    found = []
    for what, metric, (first, second), least in asked:
        pair = clusters_of(cells.cpp(first), metric), clusters_of(cells.cpp(second), metric)
        found.append(_ratio(what, pair, least))
    return found


def memory(cells: FormatCells) -> list[Finding]:
    if (why := _no_cpp(cells)) is not None:
        return [not_comparable("memory", why)]
    orders = []
    for way in ("encode", "decode"):
        flat, proto = (clusters_of(cells.cpp(name), f"{way}_peak_mib") for name in (FLAT, PROTO))
        text = f"{way}: Protobuf - FlatBuffers (published {PAPER_MB[way][PROTO]} - {PAPER_MB[way][FLAT]} MB)"
        found = None if flat is None or proto is None else difference_of_means(flat, proto)
        orders.append(Ordering(text, found, "MiB", MEMORY_MARGIN_MIB))
    return ordered(orders)


def _no_cpp(cells: FormatCells) -> str | None:
    """Return why C++'s libraries decide nothing here; None where they were measured, or could have been."""
    if cells.cpp(PROTO) is not None or cells.why_no_cpp is None:
        return None
    return f"Python's libraries say nothing of C++'s, and those were not measured: {cells.why_no_cpp}"


FORMAT_CLAIMS: Final = (
    Claim(
        17,
        "Protobuf about 3 times smaller than FlatBuffers, over 10 times smaller than JSON",
        "90 % interval of the ratio of mean sizes within 2.5 to 3.5, that of 95 % above 10, over vehicles drawn anew in each"
        " repetition",
        sizes,
    ),
    Claim(
        18,
        "Protobuf serialises faster; FlatBuffers deserialises far faster (one field without the rest)",
        f"C++: 95 % interval of the ratio of mean times above 1 (build and serialise) and above {FAR_FASTER:g} (first"
        " field, three fields)",
        times,
    ),
    Claim(
        19,
        "FlatBuffers needs less memory, serialising and deserialising",
        f"C++: peak resident set of processes, each direction (Welch); contrary by more than"
        f" {MEMORY_MARGIN_MIB:g} MiB",
        memory,
    ),
)
