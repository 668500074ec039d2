"""Cells of formats as their own C++ libraries have them: bytes, times and memory."""
