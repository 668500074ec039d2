"""Offloads of a link's devices: switched off by the link, and read as they are."""

from __future__ import annotations

import pytest

from simulator.links import LINKS, offload
from simulator.links.namespaces import inside

pytestmark = pytest.mark.netns


def test_what_a_link_has_switched_off_is_read_as_off(run_name: str) -> None:
    with LINKS["direct"](run_name, 2) as link:
        found = offload.of_link(link)
        assert {name.partition(" ")[0] for name in found} == {"vehicles", "cloud"}
        assert all(states[name] is False for states in found.values() for name in ("tx", "tso", "gso", "gro"))
        with inside(link.vehicles_namespace):
            assert offload.states("no-such-device") == dict.fromkeys(("rx", "tx", "tso", "gso", "gro"))
