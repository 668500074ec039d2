"""All twenty claims with their verdicts, from the results of one run of the study."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Final, NamedTuple

from ivsim.study.evidence import Evidence, Measured
from ivsim.study.ifip import formats
from ivsim.study.ifip.table import CLAIMS
from ivsim.study.ifip.verdicts import AGREE, CANNOT_TELL, DISAGREE, Finding, Verdict, together
from ivsim.study.report import results
from ivsim.study.store import Store

SERIALISATION: Final = "serialisation"
MOST_SHOWN: Final = 4
BYTES: Final = (9, 10, 11, 12, 13)
LATENCIES: Final = (1, 2, 3, 4, 5, 14, 15, 20)


class Decided(NamedTuple):
    """One claim, how it was decided, and what was found."""

    number: int
    words: str
    test: str
    verdict: Verdict
    findings: list[Finding]

    @property
    def summary(self) -> str:
        """Return the findings that decided it in a few words, contrary ones first."""
        ranked = sorted(self.findings, key=lambda f: (DISAGREE, CANNOT_TELL, AGREE).index(f.verdict))
        telling = [f for f in ranked if f.verdict == self.verdict] or ranked
        counts = Counter(f.verdict for f in self.findings)
        share = f"{counts[AGREE]} of {len(self.findings)} as claimed"
        if counts[DISAGREE]:
            share += f", {counts[DISAGREE]} contrary"
        return f"{share}; " + "; ".join(f.words for f in telling[:MOST_SHOWN])


def pings(store: Store, link: str) -> list[float]:
    """Return the round-trip times of the bare link in ms, none when they were not measured."""
    path = store.path / f"ping-{link}.json"
    try:
        found: list[float] = json.loads(path.read_text())["rtt_ms"]
    except (OSError, ValueError, KeyError):
        return []
    return found


def evidence_of(store: Store, *, bare: bool = False, since_sent: bool = True) -> Evidence:
    """Return the measured cells of a run of the study, and the pings of the link without emulation.

    With `bare` TCP segments that only acknowledge are no overhead; without `since_sent` latency counts from when
    a message was due, as everywhere else in this project.
    """
    cells = [
        Measured(r.cell, r.done, bare, since_sent)
        for r in results(store)
        if r.done and r.measured is not None
    ]
    return Evidence(cells, pings(store, "direct"))


def decide(store: Store, evidence: Evidence) -> list[Decided]:
    """Return the twenty claims in their order."""
    found = []
    for claim in CLAIMS:
        findings = claim.decide(evidence)
        found.append(Decided(claim.number, claim.words, claim.test, together(findings), findings))
    serialised = formats.read(_serialisation(store) / "results.json")
    for number, (words, test) in formats.FORMAT_CLAIMS.items():
        findings = formats.decide(number, serialised)
        found.append(Decided(number, words, test, together(findings), findings))
    return sorted(found, key=lambda decided: decided.number)


def _serialisation(store: Store) -> Path:
    return store.path / SERIALISATION


def some(evidence: Evidence, numbers: tuple[int, ...]) -> list[Decided]:
    """Return some of the claims that the evidence decides."""
    found = []
    for claim in CLAIMS:
        if claim.number in numbers:
            findings = claim.decide(evidence)
            found.append(Decided(claim.number, claim.words, claim.test, together(findings), findings))
    return found


def answer(decided: list[Decided]) -> str:
    """Return the answer in a sentence."""
    parts = []
    for verdict, words in ((AGREE, "agree"), (DISAGREE, "disagree"), (CANNOT_TELL, "cannot be told")):
        numbers = [str(one.number) for one in decided if one.verdict == verdict]
        if numbers:
            parts.append(f"{len(numbers)} {words} ({', '.join(numbers)})")
    return f"Of the {len(decided)} claims " + ", ".join(parts) + "."
