"""The typed reading that every format encodes and decodes."""

from __future__ import annotations

from schemas.generated.current_status_pb2 import CurrentStatus

__all__ = ["CurrentStatus"]
