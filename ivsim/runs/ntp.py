"""How far the kernel takes this machine's clock to be from UTC: what NTP, chrony or PTP has told it; nothing is asked of them."""

from __future__ import annotations

import ctypes
from typing import Final

_UNSYNCHRONISED: Final = 5  # TIME_ERROR: nobody has set the clock lately


class _Timex(ctypes.Structure):
    """`struct timex` of adjtimex(2), up to where the kernel writes more than is read here."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("frequency", ctypes.c_long),
        ("largest_error_us", ctypes.c_long),
        ("rest", ctypes.c_byte * 256),
    )


def clock_error_ms() -> float | None:
    """Return the most by which the clock may be wrong (adjtimex(2), `maxerror`), in ms; None where nobody keeps it."""
    found = _Timex()
    state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(found))
    return None if state in (-1, _UNSYNCHRONISED) else float(found.largest_error_us) / 1_000
