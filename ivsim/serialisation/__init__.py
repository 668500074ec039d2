"""What the formats cost: sizes, times, memory, and what hostile bytes do to them."""

from __future__ import annotations

from ivsim.serialisation.study import run

__all__ = ["run"]
