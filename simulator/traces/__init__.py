"""Traces of cellular links: read, generate, import and describe them; replaying is the link's business."""

from __future__ import annotations

from simulator.traces.files import read_trace, to_csv, write_trace
from simulator.traces.generator import generate
from simulator.traces.model import COLUMNS, Step, Trace
from simulator.traces.profiles import PROFILES, Profile, profile_named
from simulator.traces.recipes import BUNDLED, DEFAULT, bundled, bundled_path

__all__ = [
    "BUNDLED",
    "COLUMNS",
    "DEFAULT",
    "PROFILES",
    "Profile",
    "Step",
    "Trace",
    "bundled",
    "bundled_path",
    "generate",
    "profile_named",
    "read_trace",
    "to_csv",
    "write_trace",
]
