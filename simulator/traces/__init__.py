"""Traces of cellular links: read, generate, import and describe them; replaying is the link's business."""

from __future__ import annotations

from simulator.traces.bundled import BUNDLED, DEFAULT, bundled, bundled_path
from simulator.traces.files import read_trace, to_csv, write_trace
from simulator.traces.generate import generate
from simulator.traces.model import COLUMNS, Step, Trace
from simulator.traces.profiles import PROFILES, Profile, profile_named

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
