"""The link between vehicles and cloud: one table of link back ends, chosen by name or by a real probe.

A back end, and pyroute2 below it, is imported when it is opened: a command line that is refused needs neither.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from schemas.errors import Refusal
from simulator.links.base import DIRECT, Condition, GilbertElliott, Link, LinkCounts, LinkError

# Run, how many vehicles, and the number of the first.
Factory = Callable[[str, int, int], Link]


def _uml(run: str, vehicles: int, first: int = 1) -> Link:
    from simulator.links.routed import RoutedLink
    from simulator.links.uml.router import UmlRouter

    return RoutedLink("uml", run, vehicles, UmlRouter(), first)


def _netem(run: str, vehicles: int, first: int = 1) -> Link:
    from simulator.links.netem import NetemRouter
    from simulator.links.routed import RoutedLink

    return RoutedLink("netem", run, vehicles, NetemRouter(), first)


def _direct(run: str, vehicles: int, first: int = 1) -> Link:
    from simulator.links.direct import DirectLink

    return DirectLink(run, vehicles, first)


LINKS: Final[dict[str, Factory]] = {"netem": _netem, "uml": _uml, DIRECT: _direct}
AUTO: Final = "auto"


def why_not(name: str) -> str | None:
    """Return why a back end cannot work here, None when it can; nothing is left behind."""
    try:
        PROBES[name]()
    except (Refusal, LinkError) as error:
        return str(error)
    return None


def _probe_netem() -> None:
    """Open the whole link for one vehicle: each missing module and each missing right shows."""
    from simulator.links import netem

    try:
        with _netem(netem.probe_run(), 1):
            pass
    except LinkError as error:
        raise netem.refusal(error) from error


def _probe_uml() -> None:
    from simulator.links.uml import router

    router.probe()


def _probe_direct() -> None:
    from simulator.links import netem

    with _direct(netem.probe_run(), 1):
        pass


PROBES: Final[dict[str, Callable[[], None]]] = {
    "netem": _probe_netem,
    "uml": _probe_uml,
    DIRECT: _probe_direct,
}


def choose(name: str) -> str:
    """Return the back end to use: the named one, or for "auto" the first emulating one that works here.

    Raises:
        Refusal: unknown name, or nothing works; it says what to install.
    """
    if name != AUTO:
        if name not in LINKS:
            raise Refusal(f"link {name!r}: allowed {AUTO}, {', '.join(LINKS)}")
        return name
    reasons = []
    for candidate in ("netem", "uml"):
        reason = why_not(candidate)
        if reason is None:
            return candidate
        reasons.append(reason)
    raise Refusal("; ".join(reasons) + "; or choose --link direct, the control without emulation")


def open_link(name: str, run: str, vehicles: int, first: int = 1) -> Link:
    """Return the link of that name ("auto" chooses) for so many vehicles from number `first` on; entering it opens it."""
    return LINKS[choose(name)](run, vehicles, first)


__all__ = [
    "AUTO",
    "DIRECT",
    "LINKS",
    "Condition",
    "Factory",
    "GilbertElliott",
    "Link",
    "LinkCounts",
    "LinkError",
    "choose",
    "open_link",
    "why_not",
]
