"""Repeats a paper: runs what is open of its studies, decides its claims, writes its report."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ivsim.papers.base import Paper, leave_out, within
from ivsim.study.catalogue import name_of, study_named
from ivsim.study.claims_report import claims_text
from ivsim.study.execution import check_there, run_study, seconds_left, to_nobody, to_terminal
from ivsim.study.model import cells_of
from ivsim.study.report import results
from ivsim.study.store import Store


class Reproduction(NamedTuple):
    """The claims as lines for a terminal, where the report is, why cells failed, and which studies were left out."""

    claims: str
    report: Path
    failures: list[str]
    left_out: dict[str, str]


def reproduce(paper: Paper, output: Path, *, quick: bool, quiet: bool) -> Reproduction:
    """Run the paper's studies, or go on with them; results that are there decide whether they are quick."""
    first, *others = paper.studies
    study, path = study_named(str(first))
    check_there(study.measured_by, cells_of(study, str(path), quick=quick))
    main = opened(output, first, quick=quick)
    lacking = {
        str(name): lack for name in others if (lack := study_named(str(name))[0].measured_by.missing())
    }
    stores = [main]
    for name in others:
        _, path = study_named(str(name))
        if str(name) not in lacking:
            stores.append(opened(output / name_of(path), name, quick=main.quick))
    # What was measured before, on a machine that could, is not left out.
    leave_out(main, {name: why for name, why in lacking.items() if within(main, name_of(Path(name))) is None})
    cells = [store.cells() for store in stores]
    left_s = [seconds_left(store, found) for store, found in zip(stores, cells, strict=True)]
    for k, (store, found) in enumerate(zip(stores, cells, strict=True)):
        run_study(store, found, tell=to_nobody if quiet else to_terminal, after_s=sum(left_s[k + 1 :]))
    failures = [
        f"{r.cell.name}: {reason}" for store in stores for r in results(store) for reason in r.reasons
    ]
    decided = paper.decided(main)
    report = paper.write_report(main, output, decided)
    return Reproduction(claims_text(decided), report, failures, lacking)


def opened(where: Path, study: str | Path, *, quick: bool) -> Store:
    """Return a study's results to go on with, or new ones."""
    if (where / "study.json").is_file():
        store = Store.open(where)
        store.check_versions()
        return store
    checked, path = study_named(str(study))
    return Store.create(where, name_of(path), checked, quick=quick)
