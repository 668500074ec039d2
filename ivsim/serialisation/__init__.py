"""What the formats cost: sizes, times, memory, and what hostile bytes do to them."""

from __future__ import annotations

from pathlib import Path


def run(output_dir: str | Path, quick: bool = False) -> Path:
    """Run the study into a folder; return its report (see ivsim.serialisation.study)."""
    # Late: the drawing library alone is 30 MB, and measuring processes import this package too.
    from ivsim.serialisation.study import run as run_study  # noqa: PLC0415

    return run_study(output_dir, quick)


__all__ = ["run"]
