"""What a person reads after a run: a table in the terminal and one page; it measures nothing."""

from __future__ import annotations

from ivsim.report.page import write_page
from ivsim.report.terminal import print_summary

__all__ = ["print_summary", "write_page"]
