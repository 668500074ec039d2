"""Cells that are whole runs of the testbed."""
