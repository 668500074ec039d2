"""A block's payloads are what `encode` gives for the same values, whatever the values."""

from __future__ import annotations

from copy import deepcopy
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.formats import FORMATS
from schemas.formats.blocks import Event, Values
from schemas.layout import LAYOUT
from schemas.messages import CurrentStatus
from simulator.vehicles.columns import COLUMNS, SHAPE, layout_of
from simulator.vehicles.vehicle import Vehicle

IN_BLOCKS = [name for name, one in FORMATS.items() if layout_of(one) is not None]
EDGES = {
    "float": [0.0, 1.5, -2.25, 3.4028234663852886e38, 2.0**-149],
    "double": [0.0, 58.412345, -179.999999, 5e-324],
    "bool": [0, 1],
    "uint32": [0, 1, 127, 128, 16_383, 16_384, 2**32 - 1],
    "int32": [0, -1, 63, -64, 64, -65, 2**31 - 1, -(2**31)],
    "uint64": [0, 1, 127, 128, 2**32 - 1, 2**32, 2**35 - 1, 2**35, 2**56, 2**62],
}
# Copies: vehicles share the lamps that were never lit.
OF_VARIANT = {
    variant: deepcopy(Vehicle(1, variant, Random(4)).status(1, 1, 0, "PERIODIC").document())
    for variant in ("rigid", "trailer", "hybrid", "stub")
}


def drawn(scalar: int, rng: Random) -> float | int:
    field = SHAPE.scalars[scalar].field
    if field.kind == "enum":
        return rng.randrange(len(LAYOUT.enums[field.type_name]))
    return rng.choice(EDGES[field.kind])


def put(messages: list, scalar: int, value: float) -> None:
    """Write a number into the message that has the scalar, if the vehicle has that message."""
    node, field = SHAPE.scalars[scalar]
    if messages[node] is not None:
        if field.kind == "enum":
            value = LAYOUT.enums[field.type_name][int(value)]
        setattr(messages[node], field.name, bool(value) if field.kind == "bool" else value)


@pytest.mark.parametrize("name", IN_BLOCKS)
@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    variants=st.lists(st.sampled_from(list(OF_VARIANT)), min_size=1, max_size=4),
    ticks=st.integers(1, 4),
    events=st.integers(0, 6),
)
def test_any_values_are_encoded_as_by_the_format(name, seed, variants, ticks, events):
    rng = Random(seed)
    layout = layout_of(FORMATS[name])
    templates = layout.templates(len(variants))
    statuses = [CurrentStatus.of(deepcopy(OF_VARIANT[variant])) for variant in variants]
    found = [SHAPE.messages(status) for status in statuses]
    for k, messages in enumerate(found):
        templates.set(k, messages)
    members = rng.sample(range(len(variants)), rng.randint(1, len(variants)))
    rows = ticks * len(members)
    columns = {
        kind: np.array([[drawn(k, rng) for k in scalars] for _ in range(rows)])
        for kind, scalars in COLUMNS._asdict().items()
    }
    rare = [SHAPE.scalar(("lamps", 7), "state"), SHAPE.scalar(("lamps", 59), "activations")]
    changes = sorted(
        Event(rng.randrange(ticks), rng.randrange(len(members)), scalar, int(drawn(scalar, rng)))
        for scalar in rng.choices(rare, k=events)
        if all(found[k][SHAPE.scalars[scalar].node] is not None for k in members)
    )
    payloads = templates.payloads(members, Values(**columns), changes)
    for row, payload in enumerate(payloads):
        tick, place = divmod(row, len(members))
        messages = found[members[place]]
        for event in changes:
            if event.member == place and event.tick == tick:
                put(messages, event.scalar, event.value)
        for kind, scalars in COLUMNS._asdict().items():
            for scalar, value in zip(scalars, columns[kind][row].tolist(), strict=True):
                put(messages, scalar, value)
        status = CurrentStatus.of(statuses[members[place]].document())
        assert payload == FORMATS[name].encode(status), (tick, place)


def test_a_list_longer_than_the_shape_is_refused():
    status = Vehicle(1, "trailer", Random(1)).status(1, 1, 0, "PERIODIC")
    status.axles.append(status.axles[0])
    with pytest.raises(ValueError, match="axles: 3 items, at most 2"):
        SHAPE.messages(status)


def test_a_text_longer_than_its_room_is_refused():
    status = Vehicle(1, "rigid", Random(1)).status(1, 1, 0, "PERIODIC")
    status.header.trip_id = "T" * 60
    with pytest.raises(ValueError, match="trip_id: "):
        layout_of(FORMATS["protobuf"]).templates(1).set(0, SHAPE.messages(status))
