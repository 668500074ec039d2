"""The fleet as a table in the terminal; asks a source of twins each second and draws."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from twin.service.client import Source

PERIOD_S: Final = 1.0
# option -> column of the service and whether the greatest comes first
ORDERS: Final = {"id": "vehicleId", "age": "-ageOfInformationMs", "speed": "-speedKmh", "gaps": "-gaps"}


def show(source: Source, sort: str, rows: int, *, once: bool) -> None:
    """Draw the fleet until Ctrl-C, or one time."""
    console = Console()

    def picture() -> Group:
        return table(source.rows(ORDERS[sort], rows), source.summary())

    if once:
        console.print(picture())
        return
    with Live(picture(), console=console, auto_refresh=False) as live:
        while True:
            time.sleep(PERIOD_S)
            live.update(picture(), refresh=True)


def table(page: dict[str, Any], summary: dict[str, Any]) -> Group:
    """Return the table and a line about the whole fleet."""
    made = Table(box=None, header_style="bold", padding=(0, 1))
    for name in ("vehicle", "km/h", "energy", "age", "sequence", "gaps", "dup.", "SINR", "format"):
        left = name in ("vehicle", "format")
        made.add_column(name, justify="left" if left else "right", no_wrap=True)
    for row in page["items"]:
        made.add_row(*_cells(row), style="dim" if row["stale"] else "")
    return Group(_headline(summary), made, _rest(page))


def _headline(summary: dict[str, Any]) -> Text:
    ages = summary["ageOfInformationMs"]
    words = [
        f"{summary['vehicles']} vehicles", f"{summary['staleVehicles']} stale",
        f"age p50 {_age(ages['p50'])}, max {_age(ages['max'])}", f"{summary['messages']} messages",
        f"{summary['gaps']} gaps", f"{summary['duplicates']} duplicates",
    ]  # fmt: skip
    rejected = sum(summary["badRecords"].values()) + sum(summary["deadLetters"].values())
    words += [
        f"{count} {name}"
        for count, name in ((summary["givenUp"], "given up"), (rejected, "rejected"))
        if count
    ]
    return Text(" · ".join(words), style="yellow" if summary["staleVehicles"] else "")


def _rest(page: dict[str, Any]) -> Text:
    left = page["total"] - len(page["items"])
    return Text(f"{left} more" if left > 0 else "", style="dim")


def _cells(row: dict[str, Any]) -> list[str | Text]:
    age = Text(_age(row["ageOfInformationMs"]), style="red" if row["stale"] else "")
    gaps = Text(str(row["gaps"]), style="yellow" if row["gaps"] else "")
    return [
        row["vehicleId"], _number(row["speedKmh"]), _number(row["energyPct"]), age,
        f"{row['epoch']}.{row['sequence']}", gaps, str(row["duplicates"]),
        _number(row["sinrDb"], 0), row["format"],
    ]  # fmt: skip


def _number(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _age(value_ms: float | None) -> str:
    if value_ms is None:
        return "-"
    return f"{value_ms:.0f} ms" if value_ms < 1000 else f"{value_ms / 1000:.1f} s"
