"""The gateway's record of what it has taken, so that a later loss has a place; the bridge never reads it."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

# vehicle id, epoch, sequence, received_at_ns; a record cut short by a kill is at the end and left out.
RECORD = struct.Struct("<32sIqq")
_DTYPE = [("vehicle_id", "S32"), ("epoch", "<u4"), ("sequence", "<i8"), ("received_at_ns", "<i8")]


class ReceiveLog:
    """Append-only file of fixed-size records; what `flush` has written survives any end of the process."""

    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._file = os.open(path, flags, 0o644)
        # A killed gateway may have left a torn record: go on behind the last whole one.
        os.ftruncate(self._file, os.fstat(self._file).st_size // RECORD.size * RECORD.size)
        self._pending = bytearray()

    def append(self, vehicle_id: bytes, epoch: int, sequence: int, received_at_ns: int) -> None:
        """Note one message; `vehicle_id` in ASCII."""
        self._pending += RECORD.pack(vehicle_id, epoch, sequence, received_at_ns)

    def flush(self) -> None:
        """Hand everything noted to the kernel."""
        view = memoryview(self._pending)
        while view:
            view = view[os.write(self._file, view) :]
        view.release()
        self._pending.clear()

    def close(self) -> None:
        """Flush and close; idempotent."""
        if self._file >= 0:
            self.flush()
            os.close(self._file)
            self._file = -1


def to_table(path: Path) -> pa.Table:
    """Return one row per message taken, in order: vehicle_id, epoch, sequence, received_at_ns."""
    # A gateway writes and never reads: it starts without both.
    import numpy as np  # noqa: PLC0415
    import pyarrow as pa  # noqa: PLC0415

    data = path.read_bytes()
    rows = np.frombuffer(data, np.dtype(_DTYPE), len(data) // RECORD.size)
    return pa.table(
        {
            "vehicle_id": pa.array(np.char.decode(rows["vehicle_id"], "ascii"), pa.string()),
            "epoch": pa.array(rows["epoch"].astype(np.int32)),
            "sequence": pa.array(rows["sequence"].astype(np.int64)),
            "received_at_ns": pa.array(rows["received_at_ns"].astype(np.int64)),
        }
    )
