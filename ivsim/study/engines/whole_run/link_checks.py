"""What the links of a study's runs did, by what their certificates check, as a section of its report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from ivsim.study.markdown import table
from ivsim.study.results import CellResult
from ivsim.study.summary import DASH

HEAD: Final = ("direction", "parameter", "runs", "pass", "off", "unproven", "off in")
NOTE: Final = (
    "`pass`: the run shows that its link did what was asked. `off`: it did something else. `unproven`: too little traffic to show"
    " it, such as no second near the rate asked. `metrics.json` of each run has the figures behind its verdicts."
)


def sections(results: Sequence[CellResult]) -> list[str]:
    """Return the section, none where no run has a certificate."""
    certificates = [
        (result.cell.name, certificate)
        for result in results
        for one in result.done
        if (certificate := one.figures.get("certificate"))
    ]
    if not certificates:
        return []
    verdicts = Counter(certificate["verdict"] for _, certificate in certificates)
    parts = [
        f"Certificates of {len(certificates)} runs: {', '.join(f'`{v}` {n}' for v, n in sorted(verdicts.items()))}.",
        _checks(certificates),
        _without_checks(certificates),
        _probes(certificates),
    ]
    return ["\n\n".join(["## What the links did", *filter(None, parts)])]


def _checks(certificates: Sequence[tuple[str, dict[str, Any]]]) -> str:
    """Return a table of the parameters that were checked, with how many runs had which verdict."""
    verdicts: dict[tuple[str, str], Counter[str]] = {}
    off: dict[tuple[str, str], set[str]] = {}
    for cell, certificate in certificates:
        for check in certificate["checks"]:
            key = check["direction"], check["parameter"]
            verdicts.setdefault(key, Counter())[check["verdict"]] += 1
            if check["verdict"] == "off":
                off.setdefault(key, set()).add(cell)
    if not verdicts:
        return ""
    rows = [
        [
            *key,
            str(found.total()),
            *(str(found[verdict]) for verdict in ("pass", "off", "unproven")),
            ", ".join(sorted(off.get(key, ()))) or DASH,
        ]
        for key, found in sorted(verdicts.items())
    ]
    return f"{table(HEAD, rows)}\n\n{NOTE}"


def _without_checks(certificates: Sequence[tuple[str, dict[str, Any]]]) -> str:
    """Return what is said of links of which nothing was checked, once each."""
    said = Counter(certificate["statement"] for _, certificate in certificates if not certificate["checks"])
    return "\n\n".join(f"{statement} ({runs} runs)" for statement, runs in said.items())


def _probes(certificates: Sequence[tuple[str, dict[str, Any]]]) -> str:
    """Return what the probes of a run cost, from the least to the most; "" where there were none."""
    ways = {
        way: [certificate[f"probe_bytes_{way}link"] for _, certificate in certificates]
        for way in ("up", "down")
    }
    if not any(map(any, ways.values())):
        return ""
    spread = " and ".join(f"{min(cost):,} to {max(cost):,} B {way}" for way, cost in ways.items())
    return f"Probes cost {spread} a run (IP), taken out of the overhead."
