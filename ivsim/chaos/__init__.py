"""Faults on purpose in the middle of a run, and whether each mode then kept what it promises."""
