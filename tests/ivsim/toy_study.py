"""An engine and a paper from outside the package, each registered by one line: what adding one takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from ivsim.papers.base import Paper
from ivsim.study.cells import Session
from ivsim.study.claims import Claim, Decided, Finding, decide
from ivsim.study.engines.base import Axis, Checked, Engine, Outcome, Results, Tick
from ivsim.study.report import results
from ivsim.study.store import Store
from ledger.metrics import Metric
from schemas.errors import Refusal

STUDY = """
title = "How heavy is a word?"
question = "Does length decide?"
engine = "toy"
repetitions = 2
metrics = ["weight_g"]
[scenario]
grams = 2
[axes]
word = ["a", "abc"]
"""


class Toy(Engine):
    """Weighs words."""

    name: ClassVar[str] = "toy"
    summary: ClassVar[str] = "weighs words"
    series_axis: ClassVar[str] = "word"
    metrics: Mapping[str, Metric] = {"weight_g": Metric("weight_g", "g", "letters", "weight of a word")}
    open_now = 0

    def axes(self) -> Mapping[str, Axis]:
        return {"word": Axis("word", "text", "letters alone")}

    def fields(self) -> Mapping[str, Axis]:
        return {"grams": Axis("grams", "integer", "from 1"), "seed": Axis("seed", "integer", "")}

    def checked(self, fixed: Mapping[str, Any], values: Mapping[str, Any]) -> Checked:
        if not str(values["word"]).isalpha():
            raise Refusal(f"word {values['word']!r}: allowed are letters alone")
        return Checked((values["word"], fixed["grams"]))

    def seconds(self, session: Session) -> float:
        return 0.1 * len(session.tasks)

    @contextmanager
    def open(self, work: Path, results: Results, sessions: Sequence[Session]) -> Iterator[Toy]:
        Toy.open_now += 1
        try:
            yield self
        finally:
            Toy.open_now -= 1

    def measure(self, session: Session, results: Results, tick: Tick) -> Iterator[Outcome]:
        for task in session.tasks:
            word, grams = task.cell.options
            (results.begin(task) / "word.txt").write_text(word)
            yield Outcome(task, {"weight_g": float(len(word) * grams + task.repetition)})


class ToyPaper(Paper):
    """Claims that the longer word is heavier."""

    studies: ClassVar[tuple[str | Path, ...]] = ()

    def decided(self, store: Store) -> list[Decided]:
        means = {r.cell.values["word"]: r.interval("weight_g").estimate for r in results(store)}

        def heavier(found: Mapping[str, float]) -> list[Finding]:
            verdict = "agree" if found["abc"] > found["a"] else "disagree"
            return [Finding(verdict, f"abc {found['abc']:.1f} g, a {found['a']:.1f} g")]

        return decide([Claim(1, "longer words are heavier", "greater mean", heavier)], means)


class Absent(Toy):
    """Needs a balance that nobody has."""

    name: ClassVar[str] = "absent"

    def missing(self) -> str | None:
        return "a balance missing; `make balance` installs it"
