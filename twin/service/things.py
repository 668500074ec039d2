"""Twins in the shape of Eclipse Ditto's things; decodes only the sections that are asked for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from schemas.errors import PayloadError
from schemas.messages import SECTIONS
from twin.service import decoded
from twin.service.fleet import Twin
from twin.service.live_metrics import WAYS, VehicleFigures

NAMESPACE: Final = "ivsim"
POLICY: Final = "ivsim:read-only"
# Namespace, name and version of the model: schemas/current_status.proto, whose fields only ever are added to.
DEFINITION: Final = "ivsim:current-status:1"
OWN_FEATURES: Final = ("freshness", "delivery", "link")
_MS: Final = 1_000_000


def thing_id(vehicle_id: str) -> str:
    """Return the name of a vehicle's thing."""
    return f"{NAMESPACE}:{vehicle_id}"


def vehicle_of(name: str) -> str | None:
    """Return the vehicle of a thing's name, None for a name of another namespace."""
    namespace, colon, vehicle = name.partition(":")
    return vehicle if colon and namespace == NAMESPACE else None


def _iso(at_ns: int) -> str:
    return datetime.fromtimestamp(at_ns / 1e9, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Thing:
    """One twin at one instant; what is not asked for is not decoded."""

    def __init__(self, twin: Twin, figures: VehicleFigures | None, now_ns: int, stale_after_s: float) -> None:
        self._vehicle = twin.vehicle_id
        self._state = twin.state
        self._figures = figures
        self._now_ns = now_ns
        self._stale_after_s = stale_after_s
        self._features: dict[str, dict[str, Any]] = {}
        self._decoded = False
        self._status: Any = None
        self._problem: str | None = None

    def whole(self) -> dict[str, Any]:
        """Return the thing without its special fields."""
        return {
            "thingId": thing_id(self._vehicle),
            "policyId": POLICY,
            "definition": DEFINITION,
            "attributes": self.attributes(),
            "features": self.features(),
        }

    def get(self, path: tuple[str, ...]) -> list[Any]:
        """Return every value at a path such as ("features", "*", "properties", "gaps"), or none."""
        head, rest = path[0], path[1:]
        if head == "attributes":
            return _walk(self.attributes(), rest)
        if head == "features":
            if not rest or rest[0] == "*":
                return _walk(self.features(), rest)
            feature = self.feature(rest[0])
            return [] if feature is None else _walk(feature, rest[1:])
        special = self._special(head)
        return [] if special is None or rest else [special]

    def attributes(self) -> dict[str, Any]:
        """Return what names the vehicle and the way of its messages."""
        state = self._state
        return {
            "vehicleId": self._vehicle,
            "format": state.format,
            "protocol": state.protocol,
            "mode": state.mode,
            "payloadBytes": len(state.payload),
        }

    def features(self) -> dict[str, Any]:
        """Return a feature for each section that the vehicle sends, and freshness, delivery and link."""
        names = (*SECTIONS, *OWN_FEATURES, "problem")
        found = ((name, self.feature(name)) for name in names)
        return {name: feature for name, feature in found if feature is not None}

    def feature(self, name: str) -> dict[str, Any] | None:
        """Return one feature."""
        if name not in self._features:
            made = self._properties(name)
            if made is None:
                return None
            self._features[name] = {"properties": made}
        return self._features[name]

    def age_ms(self) -> float:
        """Return the age of information: now minus the stamp of the freshest reading; never below 0."""
        return round(max(0, self._now_ns - self._state.fresh_at_ns) / _MS, 1)

    def _special(self, name: str) -> Any:
        state = self._state
        match name:
            case "thingId":
                return thing_id(self._vehicle)
            case "policyId" | "definition":
                return POLICY if name == "policyId" else DEFINITION
            case "_revision":
                return state.messages
            case "_modified":
                return _iso(state.appended_at_ns)
            case "_created":
                return _iso(state.first_received_at_ns)
        return None

    def _properties(self, name: str) -> dict[str, Any] | None:
        match name:
            case "freshness":
                return self._freshness()
            case "delivery":
                return self._delivery()
            case "link":
                return self._link()
            case "problem":
                for section in SECTIONS:  # some formats decode a section when it is read
                    self.feature(section)
                return None if self._problem is None else {"message": self._problem}
        return self._section(name) if name in SECTIONS else None

    def _decode(self) -> Any:
        if not self._decoded:
            self._decoded = True
            try:
                self._status = decoded.decode(self._state)
            except PayloadError as error:
                self._problem = str(error)
        return self._status

    def _section(self, name: str) -> dict[str, Any] | None:
        status = self._decode()
        if status is None:
            return None
        try:
            return decoded.sections(status, (name,)).get(name)
        except PayloadError as error:
            # What one vehicle sends wrong may not cost the others their answer: it is named, and the rest is shown.
            self._problem = self._problem or str(error)
            return None

    def _freshness(self) -> dict[str, Any]:
        state, age_ms = self._state, self.age_ms()
        return {
            "ageOfInformationMs": age_ms,
            "stale": age_ms > self._stale_after_s * 1000,
            "sampledAt": None if state.sampled_at_ns is None else _iso(state.sampled_at_ns),
            "receivedAt": _iso(state.received_at_ns),
            "appliedAt": _iso(state.appended_at_ns),
            "sampledToAppliedMs": (state.appended_at_ns - state.fresh_at_ns) / _MS,
        }

    def _delivery(self) -> dict[str, Any]:
        state, figures = self._state, self._figures
        emitted = None if figures is None else figures.emitted
        return {
            "epoch": state.epoch,
            "sequence": state.sequence,
            "messages": state.messages,
            "duplicates": state.duplicates,
            "gaps": state.gaps,
            "givenUp": state.given_up,
            "emitted": emitted,
            "unsent": None if figures is None or emitted is None else figures.unsent,
            "refused": None if figures is None or emitted is None else figures.refused,
            # Of a part only, it would be no ratio of what was due.
            "deliveryRatio": None
            if state.given_up
            else delivery_ratio(state.messages - state.duplicates, state.gaps, emitted),
            "run": None if figures is None else figures.run,
            "window": None if figures is None else figures.window,
        }

    def _link(self) -> dict[str, Any] | None:
        figures = self._figures
        if figures is None:
            return None
        made: dict[str, Any] = {}
        if any(figures.link[way].second >= 0 for way in WAYS):
            made |= {f"{way}BytesPerSecond": figures.link[way].bytes for way in WAYS}
            made |= {f"{way}Bytes": figures.link[way].total for way in WAYS}
        if (conditions := figures.conditions) is not None:
            made |= {
                "uplinkRateBps": conditions.uplink_bps,
                "downlinkRateBps": conditions.downlink_bps,
                "rttMs": conditions.rtt_ms,
            }
            made |= {
                "uplinkLossRatio": conditions.uplink_loss_ratio,
                "downlinkLossRatio": conditions.downlink_loss_ratio,
            }
        return made or None


def delivery_ratio(received: int, gaps: int, emitted: int | None) -> float | None:
    """Return received ÷ what is known to be due.

    The emission log is about a second behind the twin; a gap shows that more was emitted.
    """
    due = max(received + gaps, emitted or 0)
    return round(received / due, 4) if due else None


def _walk(value: Any, path: tuple[str, ...]) -> list[Any]:
    if not path:
        return [value]
    head, rest = path[0], path[1:]
    if isinstance(value, dict):
        if head == "*":
            return [found for item in value.values() for found in _walk(item, rest)]
        return _walk(value[head], rest) if head in value else []
    if isinstance(value, list):
        return [found for item in value for found in _walk(item, (head, *rest))]
    return []
