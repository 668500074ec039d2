"""The thesis's claims once more by a mended method: the same rules, with figures that measure what the claim is about.

What it calls a time around encode and decode leaves out what Protobuf does when fields are read; its records/s are of one
machine's whole load; and its latency is a queue's length, of each format at a speed of its own, as a closed loop sends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from ivsim.papers.kafka_formats.cells import AVRO, Cells
from ivsim.papers.kafka_formats.claims import BOTH, CLAIMS, MEAN, MEDIAN, OF_SCHEMAS, SPEED
from ivsim.papers.parts import Figures
from ivsim.study.claims import Decided, decide, judged_together
from ivsim.study.claims_report import number_of
from ivsim.study.markdown import table
from ivsim.study.results import CellResult


def each(make: Callable[..., float], *figures: Figures) -> Figures:
    """Return what is made of the figures of each repetition that has all of them."""
    both = set.intersection(*(set(one) for one in figures))
    return {one: make(*(values[one] for values in figures)) for one in sorted(both)}


class Whole(Cells):
    """Encode and decode stand for all that a format costs: building a message and reading its fields too."""

    def core(self, metric: str, record: str, profile: str, name: str) -> Figures:
        own = super().core
        if metric != BOTH:
            return own(metric, record, profile, name)
        always = [own(f"{one}_us", record, profile, name) for one in ("encode", "decode")]
        # Most libraries make all values in decode, then there is nothing to read; some have nothing to build.
        others = [own(f"{one}_us", record, profile, name) for one in ("build", "read")]
        return each(lambda *parts: sum(parts), *always, *filter(None, others))


class ByCpu(Cells):
    """Records/s stand for the records of one second of CPU time, of clients and broker together."""

    def core(self, metric: str, record: str, profile: str, name: str) -> Figures:
        own = super().core
        if metric != SPEED:
            return own(metric, record, profile, name)
        parts = [own(one, record, profile, name) for one in ("client_cpu_us", "platform_cpu_us")]
        return each(lambda client, platform: 1e6 / (client + platform), *parts)


class EqualRates(Cells):
    """Transit stands for latency from due, in an open loop at a rate that all formats have."""

    INSTEAD: Final = {MEDIAN: "latency_p50_ms", MEAN: "latency_mean_ms"}

    def core(self, metric: str, record: str, profile: str, name: str) -> Figures:
        if metric not in self.INSTEAD:
            return super().core(metric, record, profile, name)
        return self.figures(self.INSTEAD[metric], "latency", record=record, format=name)


class Mend(NamedTuple):
    """What is mended for some claims.

    Attributes:
        text: what stands for what.
        numbers: of the claims.
        cells: the evidence.
        schemas: whether the plain Avro schema was measured so too.
    """

    text: str
    numbers: Sequence[int]
    cells: type[Cells]
    schemas: bool = True


MENDS: Final = (
    Mend("build + encode + decode + read, for encode + decode", (2, 3, 4), Whole),
    Mend("records of a CPU second of clients and broker, for records/s", (5, 6, 7, 8, 9, 12), ByCpu),
    Mend(
        "latency from due at 500/s, for transit at each format's own speed",
        (14, 15, 16, 17, 18),
        EqualRates,
        schemas=False,
    ),
)


def mended(found: Sequence[CellResult]) -> list[tuple[Mend, Decided]]:
    """Return the claims that a mended method decides, by the claims' own rules."""
    decided: list[Decided] = []
    by_number: dict[int, Mend] = {}
    for mend in MENDS:
        cells, plain = mend.cells(found), mend.cells(found, {AVRO: "avro-plain"})
        for number in mend.numbers:
            claims = [one for one in CLAIMS if one.number == number]
            twice = mend.schemas and number in OF_SCHEMAS
            settings = {"nullable Avro": cells, "plain Avro": plain} if twice else None
            decided += decide(claims, cells, settings)
            by_number[number] = mend
    return [(by_number[one.number], one) for one in judged_together(decided)]


def mended_section(before: Sequence[Decided], found: Sequence[CellResult]) -> str:
    """Return which claims change when their method is mended."""
    was = {one.number: one.verdict for one in before}
    rows, changed = [], []
    for mend, one in mended(found):
        if one.verdict != was[one.number]:
            changed.append(str(one.number))
        verdicts = (was[one.number], f"**{one.verdict}**")
        rows.append([str(one.number), one.claim.statement, *verdicts, mend.text, number_of(one)])
    said = f"Claims whose verdict changes: {', '.join(changed)}." if changed else "No verdict changes."
    head = [
        "#",
        "claim",
        "by the thesis's figures",
        "mended",
        "what stands for what",
        "the number that decides it",
    ]
    return f"## The claims by a mended method\n\n{said}\n\n{table(head, rows)}"
