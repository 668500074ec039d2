"""Settings of Spark for one purpose go with it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from twin import ledger
from twin.config import TwinConfig
from twin.session import held


class Conf(dict[str, str]):
    """Spark's, as far as it is used."""

    def set(self, name: str, value: str) -> None:
        self[name] = value

    def unset(self, name: str) -> None:
        del self[name]


def test_within_the_block_alone() -> None:
    session: Any = SimpleNamespace(conf=Conf(a="1"))
    with held(session, {"a": "2", "b": "3"}):
        assert session.conf == {"a": "2", "b": "3"}
    assert session.conf == {"a": "1"}


def test_also_where_the_block_fails() -> None:
    session: Any = SimpleNamespace(conf=Conf(a="1"))
    with pytest.raises(ZeroDivisionError), held(session, {"a": "2", "b": "3"}):
        raise ZeroDivisionError
    assert session.conf == {"a": "1"}


@pytest.mark.parametrize(("due", "compiled"), [(None, "false"), (1, "false"), (2, "true")])
def test_many_rows_are_worth_a_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, due: int | None, compiled: str
) -> None:
    monkeypatch.setattr(ledger, "COMPILED_FROM_ROWS", 1)
    if due is not None:
        pq.write_table(pa.table({"a": list(range(due))}), tmp_path / "emissions.parquet")
    config = TwinConfig(run_dir=str(tmp_path), topology="echo")
    stages = ledger.stages(config)
    assert stages["spark.sql.codegen.wholeStage"] == compiled
    assert ("spark.sql.shuffle.partitions" in stages) == (compiled == "false")
