"""Malformed input for each surface that takes bytes from others: `python -m tests.fuzz SURFACE --count N`."""
