"""All twenty claims with their verdicts, from the results of one run of the studies."""

from __future__ import annotations

from functools import cached_property
from typing import Final

from ivsim.papers.base import left_out, within
from ivsim.papers.ifip2020.claims import CLAIMS, OF_BLOCKS
from ivsim.papers.ifip2020.codec_claims import FORMAT_CLAIMS, FormatCells
from ivsim.papers.ifip2020.paper import BLOCK_BYTES, PaperCells, WholeCells, pings_together
from ivsim.study.claims import Decided, decide, judged_together
from ivsim.study.engines.echo.engine import pings, pings_of_sweep
from ivsim.study.engines.echo.observations import EchoObservations
from ivsim.study.report import results
from ivsim.study.store import Store

FORMATS_STUDY: Final = "ifip2020-formats"
CPP_STUDY: Final = "serialisation-cpp"
BYTES: Final = (9, 10, 11, 12, 13)
# How CoAP sends a message that is longer than a block; the paper does not say which it had.
BLOCKS: Final = f"blocks of {BLOCK_BYTES:,} B"
ONE_DATAGRAM: Final = "one datagram"
LATENCIES: Final = (1, 2, 3, 4, 5, 14, 15, 20)


class AllObservations:
    """What the studies have measured, and the same messages counted in other ways for the controls.

    Attributes:
        claims: how many the work has, of which a control decides some by the same rule; None: the control's own alone.
    """

    claims: int | None = None

    def __init__(self, store: Store) -> None:
        self.store = store

    @cached_property
    def sent(self) -> PaperCells:
        """Latency from the moment a message was sent, as in the paper; every segment is overhead."""
        return observations_of(self.store)

    @cached_property
    def due(self) -> PaperCells:
        """Latency from when a message was due, as everywhere else in this project."""
        return observations_of(self.store, since_sent=False)

    @cached_property
    def bare(self) -> PaperCells:
        """Without the TCP segments that only acknowledge."""
        return observations_of(self.store, bare=True)

    @cached_property
    def formats(self) -> FormatCells:
        python, cpp = (within(self.store, study) for study in (FORMATS_STUDY, CPP_STUDY))
        return FormatCells(
            [] if python is None else results(python),
            [] if cpp is None else results(cpp),
            self.left_out(CPP_STUDY),
        )

    def left_out(self, study: str) -> str | None:
        """Return why a study was left out when this was measured; None where it was not, or nobody noted why."""
        return left_out(self.store).get(study)


def observations_of(store: Store, *, bare: bool = False, since_sent: bool = True) -> PaperCells:
    """Return the measured cells of the main study, and the pings of the links that the paper's are compared with."""
    cells = [EchoObservations(r.cell, r.valid, bare, since_sent) for r in results(store) if r.valid]
    return PaperCells(
        cells, pings(store.path, "direct"), pings_together(pings_of_sweep(store.path, "paper_ping"))
    )


def settings_of(observations: PaperCells) -> dict[str, PaperCells]:
    """Return the observations with CoAP's long messages in blocks, and in one datagram."""
    return {BLOCKS: observations, ONE_DATAGRAM: WholeCells(observations)}


def decided_claims(observations: AllObservations) -> list[Decided]:
    """Return the twenty claims in their order."""
    found = some(observations.sent, tuple(claim.number for claim in CLAIMS))
    return judged_together([*found, *decide(FORMAT_CLAIMS, observations.formats)])


def some(observations: PaperCells, numbers: tuple[int, ...]) -> list[Decided]:
    """Return some of the claims that cells of the main study decide, those of blocks in both settings; not judged together."""
    wanted = [claim for claim in CLAIMS if claim.number in numbers]
    plain = [claim for claim in wanted if claim.number not in OF_BLOCKS]
    of_blocks = [claim for claim in wanted if claim.number in OF_BLOCKS]
    return decide(plain, observations) + decide(of_blocks, observations, settings_of(observations))
