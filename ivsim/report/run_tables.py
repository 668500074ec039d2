"""What a run's page and its charts read: columns of its tables, and what its manifest says of its way."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
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
    return {name: _array(table.column(name)) for name in table.column_names}


def _array(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    if not pa.types.is_string(column.type):
        return column.to_numpy()  # type: ignore[no-any-return]
    # Of words there are few, and a Python string for each of six million rows takes 300 MB.
    places = column.combine_chunks().dictionary_encode()
    words = np.array([*places.dictionary.to_pylist(), None], dtype=object)
    found: npt.NDArray[Any] = words[places.indices.fill_null(len(words) - 1).to_numpy()]
    return found


def topology_of(manifest: dict[str, Any]) -> str:
    """Return the way that a run's messages took; results of earlier versions have the usual one."""
    return str(manifest["options"].get("topology", USUAL_TOPOLOGY))


def at_edge(options: dict[str, Any]) -> bool:
    """Say whether the links of a run are its gateways'."""
    topology = TOPOLOGIES.get(options.get("topology", ""))
    return topology is not None and topology.edge
