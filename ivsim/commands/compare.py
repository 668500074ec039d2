"""`ivsim compare`: two runs side by side; ivsim.library.compare does the work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ivsim.commands.files import check_page, writing
from ivsim.commands.result_path import result_path
from ivsim.listing import UNBOUNDED, paragraph, table, width_of
from schemas.errors import Refusal

_Results = Annotated[
    Path,
    typer.Argument(
        metavar="RESULTS", help="A directory of a finished run, or of a study.", parser=result_path
    ),
]


def command(
    first: _Results,
    second: _Results,
    *,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", help="Also write it as one page, with the times of both drawn over each other."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON alone on standard output.")] = False,
) -> None:
    """Show two runs side by side: each figure, the difference with its interval, and what else differs.

    Two studies are compared as by `ivsim study compare`.
    """
    from ivsim.library.compare import compare_runs  # noqa: PLC0415 - scipy takes a second to load
    from ivsim.library.results import load_results  # noqa: PLC0415

    if _are_studies(first, second):
        _compare_studies(first, second, html, as_json=as_json)
        return
    one, two = load_results(first), load_results(second)
    if html is not None:
        check_page(html, first, second)
    found = compare_runs(one, two)
    if html is not None:
        from ivsim.library.compare_page import comparison_page  # noqa: PLC0415 - charts take a second to load

        page = comparison_page(one, two, found)
        with writing("--html", html):
            html.write_text(page, encoding="utf-8")
    if as_json:
        print(
            json.dumps({"notes": found.notes, "figures": [_as_object(row) for row in found.rows]}, indent=2)
        )
        return
    width = width_of()
    for note in (f"first: {first}", f"second: {second}", *found.notes):
        print("\n".join(paragraph(note, width)))
    # 62 characters: one line a figure, below which its intervals stand.
    columns = ("figure", "first", "second", "difference")
    head, *lines = table(columns, [_cells(row) for row in found.rows], UNBOUNDED)
    print(f"\n{head}")
    for row, line in zip(found.rows, lines, strict=True):
        print(line)
        if intervals := _intervals(row):
            print("\n".join(f"    {part}" for part in paragraph(f"95 %: {intervals}", width - 4)))
    if html is not None:
        print(f"\npage: {html}")


def _are_studies(first: Path, second: Path) -> bool:
    """Return whether both are results of studies; Refusal where one of them alone is."""
    from ivsim.library.folder import is_study  # noqa: PLC0415 - as above

    studies = [path for path in (first, second) if is_study(path)]
    if len(studies) == 1:
        raise Refusal(f"{studies[0]}: results of a study, and the other are of a run")
    return bool(studies)


def _compare_studies(first: Path, second: Path, html: Path | None, *, as_json: bool) -> None:
    from ivsim.commands.study import compare  # noqa: PLC0415 - it loads the table of studies

    if as_json:
        raise Refusal("--json: has no effect on two studies")
    compare(first, second, html=html)


def _cells(row: Any) -> list[str]:
    sides = (_figure(side.estimate, row.metric.unit) for side in (row.first, row.second))
    return [row.metric.name, *sides, _signed(row.difference, row.metric.unit)]


def _intervals(row: Any) -> str:
    """Return the intervals of a figure; "" where it has none."""
    unit = row.metric.unit
    said = {"first": row.first, "second": row.second, "difference": row.comparison}
    return ", ".join(
        f"{name} {_figure(one.low, unit)} to {_figure(one.high, unit)}"
        for name, one in said.items()
        if one is not None and one.low is not None and one.high is not None
    )


def _figure(value: float | None, unit: str) -> str:
    from ivsim.study.summary import DASH, short  # noqa: PLC0415 - as above

    if value is None:
        return DASH
    if unit == "1":
        return f"{value:,.0f}"
    if unit == "ratio":
        return f"{value:.4f}"
    return f"{value:.3g}" if abs(value) < 1 else short(value)


def _signed(value: float | None, unit: str) -> str:
    return f"+{_figure(value, unit)}" if value is not None and value > 0 else _figure(value, unit)


def _as_object(row: Any) -> dict[str, Any]:
    def side(interval: Any) -> dict[str, Any]:
        return {name: getattr(interval, name) for name in ("estimate", "low", "high", "n")}

    compared = row.comparison
    return {
        "metric": row.metric.name,
        "unit": row.metric.unit,
        "first": side(row.first),
        "second": side(row.second),
        "difference": row.difference,
        "low": None if compared is None else compared.low,
        "high": None if compared is None else compared.high,
    }
