"""Where a twin keeps what outlives it: a directory of this machine, or a URI that Spark's executors reach as well."""

from __future__ import annotations

import re
from typing import Final

_SCHEME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://")
STORE: Final = "s3a://"
# A bucket and names below it; a key or a secret before the bucket has no place here.
STORED: Final = re.compile(r"s3a://[A-Za-z0-9._-]+(/[^/\s]+)+/?")
PROBE: Final = "ivsim-probe"  # an object that is put to try a place


class Place(str):
    """A directory by its path or its URI, which `pathlib.Path` would spoil: it makes one slash of two."""

    __slots__ = ()

    def __truediv__(self, name: str) -> Place:
        return Place(f"{self.rstrip('/')}/{name}")

    @property
    def remote(self) -> bool:
        """Whether it has a scheme, and so is said to be the same place on every machine (`file:///` of a disk in common)."""
        return _SCHEME.match(self) is not None

    @property
    def stored(self) -> bool:
        """Whether it is in an object store."""
        return self.startswith(STORE)
