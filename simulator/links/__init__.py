"""The road between vehicles and cloud: one table of link back ends, chosen by name or by a real probe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from schemas.errors import Refusal
from simulator.links import uml
from simulator.links.base import Condition, GilbertElliott, Link, LinkCounter, LinkError
from simulator.links.direct import DirectLink
from simulator.links.routed import RoutedLink
from simulator.links.uml import UmlRouter

Factory = Callable[[str, int], Link]


def _uml(run: str, vehicles: int) -> Link:
    return RoutedLink("uml", run, vehicles, UmlRouter())


LINKS: Final[dict[str, Factory]] = {"uml": _uml, "direct": DirectLink}
AUTO: Final = "auto"


def why_not(name: str) -> str | None:
    """Return why a back end cannot work here, None when it can; nothing is left behind."""
    try:
        if name == "uml":
            uml.probe()
    except (Refusal, LinkError) as error:
        return str(error)
    return None


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
        if candidate not in LINKS:
            continue
        reason = why_not(candidate)
        if reason is None:
            return candidate
        reasons.append(reason)
    raise Refusal("; ".join(reasons) + "; or choose --link direct, the control without emulation")


def open_link(name: str, run: str, vehicles: int) -> Link:
    """Return the link of that name ("auto" chooses) for vehicles 1 to `vehicles`; entering it opens it."""
    return LINKS[choose(name)](run, vehicles)


__all__ = [
    "AUTO",
    "LINKS",
    "Condition",
    "Factory",
    "GilbertElliott",
    "Link",
    "LinkCounter",
    "LinkError",
    "choose",
    "open_link",
    "why_not",
]
