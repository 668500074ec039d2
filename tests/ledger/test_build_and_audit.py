"""The ledger and the audit's, which shares no code with it, on runs that hide nothing."""

from __future__ import annotations

import math
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ivsim.audit import figures
from ledger import admission
from ledger.build import build
from ledger.config import LedgerConfig, Topology
from tests.ledger.adversary import SECOND, TIMEOUT_S, Adversary, audited, differences

# A run has a hundred messages, each with a place of its own.
FEWER = settings(max_examples=max(1, settings.default.max_examples // 5))


def built(run: Adversary, topology: Topology) -> list[str]:
    """Return what the ledger and the audit say differently of a run."""
    with TemporaryDirectory() as directory:
        run.write(Path(directory))
        said = build(LedgerConfig(run_dir=directory, topology=topology, loss_timeout_s=TIMEOUT_S))
        return differences(run, Path(directory), said, topology=topology)


@FEWER
@given(seed=st.integers(0, 2**64))
@example(seed=0)  # has a header that ends with a newline
@example(seed=9)  # has a record that is refused for its sequence "\n5", which names message 5 all the same
def test_a_bridged_run(seed: int) -> None:
    assert built(Adversary(Random(seed)), "gateway") == []


@FEWER
@given(seed=st.integers(0, 2**64))
@example(seed=5)
def test_a_run_through_gateways_at_the_edge(seed: int) -> None:
    assert built(Adversary(Random(seed)), "edge") == []


@FEWER
@given(seed=st.integers(0, 2**64))
@example(seed=1)
@example(seed=2)
def test_a_run_through_a_platform_to_a_consumer(seed: int) -> None:
    assert built(Adversary(Random(seed)), "ingest") == []


@FEWER
@given(seed=st.integers(0, 2**64))
def test_an_echoed_run(seed: int) -> None:
    run = Adversary(Random(seed))
    for row in run.emissions:
        if run.random.random() < 0.6:
            row["received_at_ns"] = run._stamp(row["due_at_ns"] + run.random.choice((0, 2 * SECOND)))
    assert built(run, "echo") == []


@FEWER
@given(seed=st.integers(0, 2**64))
@example(seed=3)
def test_a_run_against_a_peer_of_somebody_elses(seed: int) -> None:
    assert built(Adversary(Random(seed)), "peer") == []


def test_the_same_files_make_the_same_bytes(tmp_path: Path) -> None:
    Adversary(Random(1)).write(tmp_path)
    config = LedgerConfig(run_dir=str(tmp_path), loss_timeout_s=TIMEOUT_S)
    made = []
    for _ in range(2):
        build(config)
        made.append([(tmp_path / name).read_bytes() for name in ("ledger.parquet", "metrics.json")])
    assert made[0] == made[1]
    assert not list(tmp_path.glob("*.part"))
    assert not (tmp_path / ".ledger").exists()


def test_a_peer_loses_nothing_that_anybody_could_know_of() -> None:
    fates: set[str] = set()
    for seed in range(12):
        with TemporaryDirectory() as directory:
            run = Adversary(Random(seed))
            run.write(Path(directory))
            fates |= {row["fate"] for row in audited(run, Path(directory), topology="peer")[0]}
    assert "lost" not in fates
    assert fates >= {"delivered", "refused", "unknown", "unsent"}


def test_the_adversary_meets_every_fate_hop_and_reason() -> None:
    """Otherwise the agreement would be about less than it says."""
    rows = []
    for seed in range(12):
        with TemporaryDirectory() as directory:
            run = Adversary(Random(seed))
            run.write(Path(directory))
            rows += audited(run, Path(directory), topology="gateway")[0]
            through = audited(run, Path(directory), topology="ingest")[0]
            assert {row["fate"] for row in through} <= set(figures.FATES)
            rows += [row for row in through if row["hop"] == "platform"]
    assert {row["fate"] for row in rows} == set(figures.FATES)
    assert {row["hop"] for row in rows} - {None} == set(figures.HOPS)
    assert {row["rejected_reason"] for row in rows} - {None} >= set(admission.REASONS) - {
        "no_key",
        "bad_epoch",
        "bad_sequence",
    }
    assert not math.isnan(sum(row["emission_lag_ns"] or 0 for row in rows))
