"""The report's own sections on the controller: timely throughput and regret, and what it expected and saw."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ivsim.papers.parts import Figures
from ivsim.papers.reactive_batching.cells import FIXED_COUNTS, LOST, POLICIES, TIMELY, Cells
from ivsim.papers.reactive_batching.reachable import smallest_limits_ms
from ivsim.papers.reactive_batching.regret import best_fixed, regret
from ivsim.papers.reactive_batching.sections import shown
from ivsim.report.style import number
from ivsim.study.engines.pipe.session import DECISIONS, LINK
from ivsim.study.markdown import table
from ivsim.study.results import CellResult

CHOOSING: Final = ("policies", "drive_policies")
DRIVE_POLICIES: Final = ("reactive", "deadline")
DRIVE_COUNTS: Final = (1, 10)
# Limits beside the study's own, for which room is predicted.
LIMITS_MS: Final = (100.0, 200.0, 400.0, 800.0)
UNREACHABLE: Final = "unreachable"
# Of the policies, those that say so.
SAYING: Final = ("timely", "deadline")
HEAD: Final = ("policy", "timely records/s", "lost", "B on the uplink a timely record", "regret")


def policies(cells: Cells) -> str:
    """Return timely throughput and loss of every policy and fixed count on the changing link, and their regret."""
    fixed = {count: cells.fixed(TIMELY, count) for count in FIXED_COUNTS}
    best = ", ".join(str(count) for count, _ in best_fixed(fixed).values()) or "none"
    rows = [
        *_rows(cells, "policies", "batching", POLICIES, fixed),
        *_rows(cells, "fixed", "batch_messages", FIXED_COUNTS, fixed),
    ]
    return (
        f"## Policies on the changing link\n\nBest fixed B_S of each repetition, known only afterwards: {best}. *Regret* is the"
        " share of its timely throughput that is lacking.\n\n" + table(HEAD, rows)
    )


def drive(cells: Cells) -> str:
    """Return the same of a replayed drive."""
    fixed = {count: cells.figures(TIMELY, "drive_fixed", batch_messages=count) for count in DRIVE_COUNTS}
    rows = [
        *_rows(cells, "drive_policies", "batching", DRIVE_POLICIES, fixed),
        *_rows(cells, "drive_fixed", "batch_messages", DRIVE_COUNTS, fixed),
    ]
    return "## Policies on a replayed drive\n\nA trace's uplink, nothing lost at random.\n\n" + table(
        HEAD, rows
    )


def _rows(
    cells: Cells, sweep: str, axis: str, values: Sequence[str | int], fixed: Mapping[int, Figures]
) -> Iterator[list[str]]:
    for value in values:
        where = {axis: value}
        timely = cells.figures(TIMELY, sweep, **where)
        lost = cells.figures(LOST, sweep, **where)
        name = f"B_S {value}" if isinstance(value, int) else value
        sent = _bytes_a_timely_record(cells, sweep, **where)
        yield [name, shown(timely), shown(lost), shown(sent), shown(regret(timely, fixed))]


def _bytes_a_timely_record(cells: Cells, sweep: str, **values: Any) -> list[float]:
    """Return the bytes on the uplink for each record in time, of each repetition; the warm-up's go beside its records."""
    figures = [
        cells.figures(name, sweep, **values)
        for name in ("link_bytes_uplink", "consumed", "produced", "in_time_ratio")
    ]
    both = sorted(set.intersection(*(set(one) for one in figures)))
    each, came, due, timely = figures
    return [each[one] * came[one] / (timely[one] * due[one]) for one in both if timely[one] > 0]


def limits(results: Sequence[CellResult]) -> str:
    """Return which share of the periods leaves each limit room, predicted before the run, and what the policies met."""
    saying = [
        one for one in results if one.cell.sweep == "policies" and one.cell.values["batching"] in SAYING
    ]
    done = [one for one in saying if one.done]
    if not done:
        return ""
    options = done[0].cell.options
    smallest = np.array([ms for kept in done[0].done for ms in smallest_limits_ms(kept.task.cell.options)])
    rows = [
        [f"{limit:g}", f"{float(np.mean(smallest < limit)):.0%}"]
        for limit in sorted({*LIMITS_MS, options.limit_ms})
    ]
    rules = [str(row["rule"]) for one in done for row in _decisions(one)]
    met = sum(rule != UNREACHABLE for rule in rules)
    found = f"{met} of {len(rules)} decisions of {', '.join(SAYING)}" if rules else "no decisions are kept"
    return (
        "## What the limit leaves\n\nShare of a gateway's periods in which 99 % of the answers come sooner than the limit, so that"
        " it can be kept: predicted by a simulated connection over the same series of delay and loss, at the first setting"
        f" (B_S {options.batch_messages}, B_T {options.linger_ms:g} ms). The paper's time is divided by ten here, TCP's"
        " retransmission timer of 200 ms is not: a limit below a wait, a round trip and that timer excludes every record"
        f" which only the timer repairs. The limit is {options.limit_ms:g} ms; it could be kept in: {found}.\n\n"
        + table(["limit, ms", "periods with room, predicted"], rows)
    )


def decisions(results: Sequence[CellResult]) -> str:
    """Return how far each policy's expectations and its estimate of the link's loss were from what was."""
    rows = []
    for one in results:
        if one.cell.sweep not in CHOOSING or not one.done:
            continue
        made = list(_decisions(one))
        late = [
            abs(row["expected_late_ratio"] - row["observed_late_ratio"])
            for row in made
            if row["expected_late_ratio"] is not None and row["observed_late_ratio"] is not None
        ]
        seen = [
            abs(row["loss_ratio"] - row["asked_loss"])
            for row in made
            if row["loss_ratio"] is not None and row["asked_loss"] is not None
        ]
        rules = {str(row["rule"]) for row in made}
        shown_rules = ", ".join(
            f"{rule} {sum(row['rule'] == rule for row in made)}" for rule in sorted(rules)
        )
        rows.append(
            [
                one.cell.sweep,
                str(one.cell.values["batching"]),
                str(len(made)),
                number(float(np.mean(late)) if late else None),
                number(float(np.max(late)) if late else None),
                number(float(np.mean(seen)) if seen else None),
                shown_rules,
            ]
        )
    head = ["sweep", "policy", "decisions", "late share, MAE", "largest", "link's loss, MAE", "rules"]
    return (
        "## What the controller expected and saw\n\nOf each period of each gateway: the share of late records that was expected"
        " when it began, against the one observed; and the loss that TCP showed, against the mean that the link was asked for.\n\n"
        + table(head, rows)
    )


def _decisions(one: CellResult) -> Iterator[dict[str, Any]]:
    """Return the rows of all repetitions, with the mean loss that the uplink was asked for in the period."""
    for kept in one.done:
        path = kept.directory / DECISIONS
        if not path.is_file():
            continue
        period_ns = kept.task.cell.options.batch_period_s * 1e9
        applied, loss = asked_losses(kept.directory)
        for line in path.read_text().splitlines():
            row = json.loads(line)
            inside = loss[(applied > row["decided_at_ns"] - period_ns) & (applied <= row["decided_at_ns"])]
            yield row | {"asked_loss": float(np.mean(inside)) if inside.size else None}


def asked_losses(directory: Path) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return when the uplink was changed, and to which loss, of one repetition."""
    link = pq.read_table(directory / LINK)
    up = link.filter(
        pc.and_(pc.equal(link["direction"], "uplink"), pc.is_valid(link["applied_at_ns"]))
    ).sort_by("applied_at_ns")
    return up["applied_at_ns"].to_numpy(), up["asked_loss_ratio"].fill_null(0.0).to_numpy()
