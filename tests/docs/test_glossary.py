"""The glossary has a word for every figure and every option, and is about words alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from gateways.protocols import PROTOCOLS
from ivsim.option import Declared
from ivsim.option_signature import mode_words
from ivsim.options import OPTIONS
from ivsim.study.engines import ENGINES
from ivsim.study.engines.base import engine_named
from ledger.metrics import METRICS

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs/glossary.md").read_text()
# A name in code, whole, or with `*` for what varies in it; `--options` are names, too.
TERMS = {word for code in re.findall(r"`([^`]+)`", TEXT) for word in re.split(r"[\s,]+", code)}
QUANTILE = re.compile(r"_(p\d+|max|mean)(?=_[a-z]+$)")


def _absent(names: Iterable[str]) -> list[str]:
    """Return the names that no term covers; a quantile is covered by the figure that it is of."""
    return [
        name
        for name in names
        if not any(fnmatchcase(one, term) for one in (name, QUANTILE.sub("", name)) for term in TERMS)
    ]


def test_every_figure_of_a_run_is_explained() -> None:
    assert _absent(METRICS) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_every_metric_of_a_study_is_explained(engine: str) -> None:
    assert _absent(engine_named(engine).metrics) == []


def test_every_option_of_a_run_is_explained() -> None:
    def covered(one: Declared) -> bool:
        return _absent([one.field]) == [] or _absent([one.word]) == []

    assert [name for name, one in OPTIONS.items() if not covered(one)] == []
    typed = [part for word in mode_words(PROTOCOLS.values()) for part in word.typed.split("/")]
    assert _absent(typed) == []


def test_a_term_has_one_row() -> None:
    """A word of two things, as Kafka's record and TLS', has a row for each, under names of their own."""
    rows = [
        [cell.strip() for cell in line.split("|")[1:3]] for line in TEXT.splitlines() if line.startswith("| ")
    ]
    terms = [tuple(row) for row in rows if not row[0].startswith("**") and row[0] != "Term"]
    assert terms
    assert [term for term, count in Counter(terms).items() if count > 1] == []
