"""Retransmissions by sequence number for many TCP flows at once; remembers one number a flow."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.capture.fields import FIN, RST, SYN, UPLINK, Fields, Ints

_WRAP = 1 << 32
_SPACE = 1 << 34


class Verdicts(NamedTuple):
    """For every frame: sent before (wholly or in part), how many of its bytes, and whether a keep-alive."""

    retransmitted: npt.NDArray[np.bool_]
    overlap_bytes: Ints
    keep_alive: npt.NDArray[np.bool_]


class SequenceTracker:
    """The highest sequence number seen, per flow and direction.

    A segment that begins below it is a retransmission (RFC 9293, 3.4: arithmetic modulo 2**32). That is what
    `retransmission or fast_retransmission or spurious_retransmission or out_of_order` says in tshark.
    """

    def __init__(self) -> None:
        # Flows in the order of their keys, so that a batch finds its flows in one search.
        self._flows = np.zeros(0, np.uint64)
        self._highest = np.zeros(0, np.int64)
        self._initial: dict[int, int] = {}

    def judge(self, fields: Fields) -> Verdicts:
        """Return the verdicts on all frames of a batch, in its order."""
        count = len(fields.tcp)
        again, keep = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        overlap = np.zeros(count, np.int64)
        where = np.flatnonzero(fields.tcp)
        if len(where):
            keys = _flow_keys(fields, where)
            length = fields.application_bytes[where]
            flags = fields.flags[where]
            span = length + ((flags & SYN) > 0) + ((flags & FIN) > 0)
            order = np.argsort(keys, kind="stable")
            parts = self._sorted(
                keys[order], fields.sequence[where][order], span[order], length[order], flags[order]
            )
            target = where[order]
            again[target], overlap[target], keep[target] = parts
        return Verdicts(again, overlap, keep)

    def _sorted(
        self,
        keys: npt.NDArray[np.uint64],
        sequence: npt.NDArray[np.uint32],
        span: Ints,
        length: Ints,
        flags: npt.NDArray[np.uint8],
    ) -> Verdicts:
        sequence64 = sequence.astype(np.int64)
        # A SYN with another initial number opens a new connection on the same ports: a number space of its own.
        opened = np.zeros(len(keys), np.bool_)
        starts = np.ones(len(keys), np.bool_)
        starts[1:] = keys[1:] != keys[:-1]
        for at in np.flatnonzero(flags & SYN):
            key, number = int(keys[at]), int(sequence64[at])
            if self._initial.get(key) != number:
                self._initial[key] = number
                starts[at] = opened[at] = True
        group = np.cumsum(starts) - 1
        heads = np.flatnonzero(starts)
        slots = self._slots(keys[heads], sequence64[heads])
        base = np.where(opened[heads], sequence64[heads], self._highest[slots])
        first = (sequence64 - base[group] + _WRAP // 2) % _WRAP - _WRAP // 2
        end = first + span
        space = group * _SPACE
        reach = np.maximum.accumulate(np.maximum(end, 0) + space) - space
        before = np.zeros(len(keys), np.int64)
        before[1:] = reach[:-1]
        before[heads] = 0
        tails = np.append(heads[1:], len(keys)) - 1
        # Of two lanes of one flow the later one stays: assignment goes in order.
        self._highest[slots] = (base + reach[tails]) % _WRAP
        plain = (flags & (SYN | FIN | RST)) == 0
        keep = plain & (length <= 1) & (first == before - 1)
        again = (span > 0) & (first < before) & ~keep
        return Verdicts(again, np.where(again, np.minimum(length, before - first), 0), keep)

    def _slots(self, flows: npt.NDArray[np.uint64], sequence: Ints) -> Ints:
        """Return where these flows (ascending) are kept; one never seen starts at its own number."""
        found = np.searchsorted(self._flows, flows)
        known = np.zeros(len(flows), np.bool_)
        inside = found < len(self._flows)
        known[inside] = self._flows[found[inside]] == flows[inside]
        if not known.all():
            fresh, at = np.unique(flows[~known], return_index=True)
            where = np.searchsorted(self._flows, fresh)
            self._flows = np.insert(self._flows, where, fresh)
            self._highest = np.insert(self._highest, where, sequence[~known][at])
            found = np.searchsorted(self._flows, flows)
        return found.astype(np.int64)


def _flow_keys(fields: Fields, where: Ints) -> npt.NDArray[np.uint64]:
    """Return vehicle, cloud host, both ports and the direction as 64 bits: the name of one half of a flow.

    The cloud's host keeps 15 bits of its address: 198.19.0.0/17 is more than a run has servers.
    """
    up = fields.direction[where] == UPLINK
    near = np.where(up, fields.source[where], fields.destination[where]).astype(np.uint64) & np.uint64(0xFFFF)
    far = np.where(up, fields.destination[where], fields.source[where]).astype(np.uint64) & np.uint64(0x7FFF)
    host = near << np.uint64(48) | far << np.uint64(33) | up.astype(np.uint64) << np.uint64(32)
    keys: npt.NDArray[np.uint64] = host | fields.ports[where].astype(np.uint64)
    return keys
