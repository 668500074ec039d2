"""Which echo cells are measured side by side: blocks of all modes stay whole; pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ivsim.study.cells import Cell, Session
from ivsim.study.engines.run_axes import MODE, options_of

# More vehicles, or processes for them, would make the machine part of the result.
MOST_VEHICLES: Final = 3_200
MOST_SENDERS: Final = 64
# Around what is sent: connecting, and reading what was captured.
SESSION_OVERHEAD_S: Final = 10.0
OVERHEAD_PER_VEHICLE_S: Final = 0.004


def sending(cell: Cell) -> tuple[Any, ...]:
    """Return what a process of vehicles does alike for all of them: cells equal in it share one."""
    o = options_of(cell)
    own = (o.keepalive_s, o.outbox_limit, o.outbox_policy, o.coap_block_bytes)
    return (o.protocol, o.mode, o.format, o.message_bytes or 0, o.vehicles, *own)


def numbered(cells: Sequence[Cell]) -> list[range]:
    """Return the numbers of each cell's vehicles in a session, counted from 1.

    Those of a cell begin behind a multiple of how many it has, so that a process knows vehicle j of each of its cells by
    the number's remainder (`Scenario.alike_every`). Cells of many vehicles come first: few numbers stay free.
    """
    sizes = [options_of(cell).vehicles for cell in cells]
    found: dict[int, range] = {}
    taken = 0
    for index in sorted(range(len(cells)), key=lambda one: -sizes[one]):
        before = -(-taken // sizes[index]) * sizes[index]
        taken = before + sizes[index]
        found[index] = range(before + 1, taken + 1)
    return [found[index] for index in range(len(cells))]


def vehicles(cells: Sequence[Cell]) -> int:
    """Return the highest number of a vehicle of cells that share a session: how many there are, and numbers left free."""
    return max(one.stop - 1 for one in numbered(cells))


def seconds(session: Session) -> float:
    """Return how long a session should take."""
    options = options_of(session.cells[0])
    around_s = SESSION_OVERHEAD_S + OVERHEAD_PER_VEHICLE_S * vehicles(session.cells)
    return around_s + options.duration_s + options.loss_timeout_s


def pack(cells: Sequence[Cell], apart: Sequence[str]) -> list[list[Cell]]:
    """Return the cells of each session.

    A block, all modes of otherwise equal cells, is never torn apart: what slows the machine for a while slows
    all modes alike. Blocks share a session when they run by the same clock and their vehicles are not too many.
    """
    blocks: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in cells:
        others = tuple((axis, str(value)) for axis, value in cell.values.items() if axis != MODE)
        blocks.setdefault((cell.sweep, others), []).append(cell)
    by_clock: dict[tuple[Any, ...], list[list[Cell]]] = {}
    for block in blocks.values():
        by_clock.setdefault(_clock(block[0], apart), []).append(block)
    return [session for blocks_ in by_clock.values() for session in _fill(blocks_)]


def _clock(cell: Cell, apart: Sequence[str]) -> tuple[Any, ...]:
    """Return what cells must have in common to be measured at the same time."""
    o = options_of(cell)
    shared = (o.link, o.interval_s, o.duration_s, o.warmup_s, o.loss_timeout_s, o.tcp, o.seed)
    return (*shared, *(str(cell.values.get(axis)) for axis in apart))


def _fill(blocks: list[list[Cell]]) -> list[list[Cell]]:
    """Fill sessions with blocks, those of the same payload together, so that few processes do."""
    packed: list[list[Cell]] = []
    for block in sorted(blocks, key=lambda b: [str(part) for part in sending(b[0])[2:]]):
        together = [*packed[-1], *block] if packed else block
        few = len({sending(cell) for cell in together}) <= MOST_SENDERS
        if packed and few and vehicles(together) <= MOST_VEHICLES:
            packed[-1] = together
        else:
            packed.append(list(block))
    return packed
