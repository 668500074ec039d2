"""What a run's page and its charts read: columns of its tables, and what its manifest says of its way."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt
import pyarrow.parquet as pq

from ivsim.topologies import TOPOLOGIES, USUAL_TOPOLOGY

Columns = dict[str, npt.NDArray[Any]]


def columns_of(path: Path, names: Sequence[str] | None = None) -> Columns:
    """Return columns of a table, all without names; {} where the run has no such table.

    Whole numbers with gaps become floats with NaN, as numpy wants it.
    """
    if not path.is_file():
        return {}
    with pq.ParquetFile(path) as file:  # `read_table` loads what reads datasets
        table = file.read(columns=None if names is None else list(names))
    return {name: table.column(name).to_numpy() for name in table.column_names}


def topology_of(manifest: dict[str, Any]) -> str:
    """Return the way that a run's messages took; results of earlier versions have the usual one."""
    return str(manifest["options"].get("topology", USUAL_TOPOLOGY))


def at_edge(options: dict[str, Any]) -> bool:
    """Say whether the links of a run are its gateways'."""
    topology = TOPOLOGIES.get(options.get("topology", ""))
    return topology is not None and topology.edge
