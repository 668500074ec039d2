"""How far a Java of ours compiles, and the room that it has for it; it starts none."""

from __future__ import annotations

from typing import Final, Literal

# Java keeps what it has compiled in memory reserved at its start: 240 MB with all its compilers, but 48 MB where it is
# held to the first. Spark makes classes for each query, fills 48 MB within a minute, and then compiles no more, or dies
# with a VirtualMachineError. What is reserved and not used costs address space alone.
_ROOM: Final = "-XX:ReservedCodeCacheSize=240m"

# The first compiler alone halves what compiling costs a short run, and costs a long one some throughput.
QUICK_JAVA: Final = ("-XX:TieredStopAtLevel=1", _ROOM)
FULL_JAVA: Final = ("-XX:+TieredCompilation", _ROOM)

Jit = Literal["quick", "full"]
JIT: Final[dict[Jit, tuple[str, ...]]] = {"quick": QUICK_JAVA, "full": FULL_JAVA}
