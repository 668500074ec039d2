"""`report.md` with its charts, and `report.html`, of a study from its results; every number is computed here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

from ivsim.report.drawing import Charts
from ivsim.study import blocks, differences, soundness, twice
from ivsim.study.clusters import MIN_BEYOND, MIN_REPETITIONS
from ivsim.study.headline import opening
from ivsim.study.markdown import page, table
from ivsim.study.model import Study
from ivsim.study.pairs import Row
from ivsim.study.results import CellResult
from ivsim.study.selected_charts import selected_charts
from ivsim.study.service_levels import judge
from ivsim.study.soundness import beside, first_words
from ivsim.study.statistics import Interval
from ivsim.study.store import Store, minutes_of
from ivsim.study.summary import DASH, scaled, written

_PICTURE: Final = re.compile(r"!\[[^\]]*\]\(([^/)]+\.svg)\)")
_PLACE: Final = re.compile(r"^!\[\]\(([^)]+)\)\n\n?", re.MULTILINE)


def results(store: Store) -> list[CellResult]:
    """Return every cell of a store, in the study's order, with what was measured of it."""
    cells = store.cells()
    found: dict[str, CellResult] = {}
    for one in store.all_kept(cells):
        cell = one.task.cell
        found.setdefault(cell.name, CellResult(cell)).kept.append(one)
    engine = store.study.measured_by
    for result in found.values():
        result.observe = engine.observations
        result.observations = engine.observations(result.cell, result.done)
    return list(found.values())


def write_report(store: Store, directory: Path) -> Path:
    """Write report.md, its charts and report.html into `directory`; return the path of report.md."""
    found = results(store)
    return write(directory, sections(store, found), selected_charts(store.study, found))


def write(directory: Path, parts: Sequence[str], charts: Charts) -> Path:
    """Write the parts of a report, the first two before its charts, as Markdown and as one page.

    A part may have a chart at a place of its own: a line `![](NAME)`, which goes where there is no such chart.
    """
    directory.mkdir(parents=True, exist_ok=True)
    pictures = {name: drawing.svg() for name, (drawing, _) in charts.items()}
    for name, picture in pictures.items():
        (directory / name).write_text(picture)
    shown = {name: f"![{caption}]({name})\n\n*{caption}*" for name, (_, caption) in charts.items()}
    others = [picture for name, picture in shown.items() if not any(f"![]({name})" in part for part in parts)]
    wanted = [*parts[:2], *(["## Figures", *others] if others else []), *parts[2:]]
    text = "\n\n".join(part for part in wanted if part) + "\n"
    text = _PLACE.sub(lambda found: f"{shown[found[1]]}\n\n" if found[1] in shown else "", text)
    path = directory / "report.md"
    for name in _former_pictures(path) - pictures.keys():
        (directory / name).unlink(missing_ok=True)
    path.write_text(text)
    (directory / "report.html").write_text(page(text, pictures))
    return path


def _former_pictures(path: Path) -> set[str]:
    """Return the names of the pictures of the report that stands there, none without one."""
    return set(_PICTURE.findall(path.read_text())) if path.exists() else set()


def sections(store: Store, found: Sequence[CellResult]) -> list[str]:
    """Return the parts of the report: the first two stand before the charts."""
    study = store.study
    again = _twice(store, found)
    apart = [] if store.twice else differences.differences(study, found)
    if store.twice:
        said = f"**{twice.sentence(again) if again else 'Nothing was measured.'}**"
    else:
        said = opening(study.headline_kind, study.measured_by, found, apart)
    head = "\n\n".join(filter(None, (f"# {study.title}", study.question, first_words(found), said)))
    if store.quick:
        head += "\n\nA quick run: small samples, to see that it works."
    return [
        head,
        _tables(study, found),
        differences.section(study, apart),
        twice.section(again) if again else "",
        _levels(study, found),
        _certainty(study, found),
        *study.measured_by.sections(store.path, found),
        soundness.section(found),
        machine_section(store),
        caveats(store, found),
    ]


def _twice(store: Store, found: Sequence[CellResult]) -> list[Row]:
    """Return the differences of one setting from itself: of these results, or of those that lie within them."""
    if store.twice is None:
        within = store.path / twice.FOLDER
        if not (within / "study.json").is_file():
            return []
        store = Store.open(within)
        found = results(store)
    return twice.rows(store.study, found) if store.twice and all(one.done for one in found) else []


def _tables(study: Study, found: Sequence[CellResult]) -> str:
    parts, shown = [], dict[str, None]()
    sound = not first_words(found)
    for name, sweep in study.all_sweeps().items():
        if not any(result.cell.sweep == name for result in found):
            continue  # of one cell measured twice the other sweeps have none
        axes, metrics = list(sweep.axes), study.metrics_of(name)
        shown |= dict.fromkeys(metrics)
        heads = [f"{m}, {unit}" if (unit := _unit(study, m)) else m for m in metrics]
        rows = [
            [
                *(str(result.cell.values[axis]) for axis in axes),
                *(written(scaled(result.interval(m), study.metric(m).unit)[0]) for m in metrics),
                *([] if sound else [beside(result)]),
            ]
            for result in found
            if result.cell.sweep == name
        ]
        parts.append(
            (f"### {name}\n\n" if name else "")
            + table([*axes, *heads, *([] if sound else ["validity"])], rows)
        )
    meanings = "\n".join(f"- `{name}`: {study.metric(name).meaning}" for name in shown)
    note = (
        "Estimate [95 % interval]. The unit of the intervals is the vehicle within its repetition (a batch of messages in a"
        " row where there is one vehicle, the repetition for a figure that each repetition has once); see *What the"
        f" intervals stand on*. With fewer than {MIN_REPETITIONS} repetitions an interval says nothing of what differs from one"
        " repetition to the next. A figure without brackets has no interval: too few units, or a quantile with fewer than"
        f" {MIN_BEYOND:.0f} effective measurements beyond it."
    )
    return "## Results\n\n" + "\n\n".join(parts) + f"\n\n{note}\n\n{meanings}"


def _unit(study: Study, metric: str) -> str:
    unit = study.metric(metric).unit
    return {"ratio": "%", "1": ""}.get(unit, unit)


def _levels(study: Study, found: Sequence[CellResult]) -> str:
    judged = judge(study, found)
    if not judged:
        return ""
    rows = [[one.cell, one.level, f"**{one.verdict}**", one.problem or ""] for one in judged]
    note = (
        "By the 95 % interval: met when all of it keeps the level, not met when none of it does, undecided otherwise and"
        f" below {MIN_REPETITIONS} repetitions."
    )
    return "## Service levels\n\n" + table(["cell", "level", "verdict", "why"], rows) + f"\n\n{note}"


def _certainty(study: Study, found: Sequence[CellResult]) -> str:
    """Say on what the intervals stand: the unit, how many of it, and how much dependence costs."""
    rows = []
    for name in study.all_sweeps():
        cells = [result for result in found if result.cell.sweep == name and result.done]
        for metric in study.metrics_of(name):
            known = [one for r in cells if (one := r.interval(metric)).estimate is not None]
            if known:
                rows.append([name, metric, *_stands_on(known)] if name else [metric, *_stands_on(known)])
    if not rows:
        return ""
    several = any(study.all_sweeps())
    head = [*(["sweep"] if several else []), "metric", "unit", "repetitions", "units", "measurements"]
    head += ["design effect", "effective measurements", "cells without interval"]
    note = (
        "Measurements that belong together depend on each other. The unit is what was taken for independent. The design effect"
        " says by how much dependence makes the variance greater than that of independent measurements, of which the"
        " effective number would be as certain. Medians over the cells, the largest design effect in brackets."
    )
    return f"## What the intervals stand on\n\n{table(head, rows)}\n\n{note}"


def _stands_on(known: Sequence[Interval]) -> list[str]:
    effects = [effect for one in known if (effect := one.design_effect) is not None]
    effective = [one.effective for one in known if one.effective is not None]
    return [
        " or ".join(dict.fromkeys(one.unit for one in known)),
        *(
            f"{median(values):,.0f}"
            for values in ([one.repetitions for one in known], [one.units for one in known])
        ),
        f"{median(one.n for one in known):,.0f}",
        f"{median(effects):.1f} ({max(effects):.1f})" if effects else DASH,
        f"{median(effective):,.0f}" if effective else DASH,
        str(sum(one.low is None for one in known)),
    ]


def machine_section(store: Store) -> str:
    """Return the machine, the versions and how long it took."""
    machine, versions = store.head["machine"], store.head["versions"]
    gib = machine["memory_bytes"] / 2**30
    seeds = sorted({one.seed for one in store.all_kept(store.cells()) if one.seed})
    drawn = f"{', '.join(map(str, seeds))}" if seeds else "none stored"
    lines = [
        f"- seed {store.study.seed}; of the repetitions, drawn from it: {drawn}",
        f"- {machine['processor']}, {machine['cores']} cores, {gib:.0f} GiB, {machine['system']}, kernel {machine['kernel']}",
        *_of_memory(store),
        "- " + ", ".join(f"{name} {version}" for name, version in versions.items()),
        f"- {minutes_of(store)}",
    ]
    if by_rule := blocks.told(store):
        lines.append(f"- {by_rule}")
    return "## Machine and versions\n\n" + "\n".join(lines)


def _of_memory(store: Store) -> list[str]:
    """Return a line where the first write to a page of this machine is slow."""
    memory = store.head.get("host", {}).get("memory", {})
    if not memory.get("free_pages_returned"):
        return []
    return ["- free memory goes back to the host: the first write to a page costs an exit to the hypervisor"]


def caveats(store: Store, found: Sequence[CellResult]) -> str:
    """Return the study's caveats, and those that the results themselves give rise to."""
    lines = [*store.study.caveats, *store.study.measured_by.caveats(found)]
    failed = [(r.cell.name, r.reasons) for r in found if r.reasons]
    lines += [f"Cell {name} failed: {'; '.join(reasons)}" for name, reasons in failed]
    missing = [r.cell.name for r in found if not r.done and not r.reasons]
    if missing:
        lines.append(f"{len(missing)} cells have not been run: {', '.join(missing[:5])}.")
    return "## Caveats\n\n" + "\n".join(f"- {line}" for line in lines) if lines else ""
