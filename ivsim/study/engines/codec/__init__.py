"""Cells of formats: what they cost in bytes, time and memory."""
