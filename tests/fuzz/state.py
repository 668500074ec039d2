"""Kafka records of `twin.state` and of the run's figures, at the twin service."""

from __future__ import annotations

from random import Random
from typing import Any

import orjson

from bench.twin_load import Fleet as Drivers
from bench.twin_load import state_headers
from ivsim.study.engines.codec.fuzz import hostile
from schemas.formats import FORMATS
from schemas.topics import vehicle_id
from tests.fuzz.surface import START_NS, VEHICLES, Surface
from tests.fuzz.words import ODD, damaged
from twin.service import decoded
from twin.service.config import ServiceConfig
from twin.service.fleet import Fleet, Record
from twin.service.live_metrics import Figures
from twin.service.queries import Ask
from twin.service.record import BadRecord

_FORMATS = tuple(FORMATS)


class StateRecords:
    """A fleet in memory, and records for it: good ones, and such in which one thing or several are wrong."""

    def __init__(self, rng: Random, **settings: Any) -> None:
        config = ServiceConfig(bootstrap="127.0.0.1:1", max_vehicles=500, **settings)
        self.fleet, self.figures = Fleet(config), Figures(config.max_vehicles)
        self.ask = Ask(config, self.fleet, self.figures, lambda: START_NS + 10**9)
        self._rng = rng
        self._drivers = Drivers(VEHICLES)
        # Made once: to let vehicles drive takes longer than to read what they say.
        self._made = {name: [self.good(k, name) for k in range(VEHICLES)] for name in _FORMATS}
        self._payloads = {
            name: hostile([record.value or b"" for record in records], rng)
            for name, records in self._made.items()
        }

    def good(self, k: int, format_name: str = "protobuf") -> Record:
        """Return vehicle k's next record (k from 0)."""
        status, sequence = self._drivers.status(k, START_NS)
        headers = state_headers(sequence, None if format_name == "small" else START_NS, format=format_name)
        at = START_NS // 1_000_000 + 1_000
        headers = [
            (name, b"%d" % START_NS if name.endswith("received_at_ns") else text) for name, text in headers
        ]
        return Record(vehicle_id(k + 1).encode(), FORMATS[format_name].encode(status), list(headers), at)

    def fill(self) -> None:
        """Give each vehicle a good state."""
        self.fleet.take([self.good(k, self._rng.choice(_FORMATS)) for k in range(VEHICLES)])

    def hostile(self) -> Record:
        """Give the fleet one record that is wrong in something, and return it."""
        rng = self._rng
        name = rng.choice(_FORMATS)
        record = rng.choice(self._made[name])
        share = rng.random()
        if share < 0.5:
            record = record._replace(value=next(self._payloads[name]))
        if share < 0.15 or share > 0.6:
            record = record._replace(headers=self._headers(list(record.headers or ())))
        if rng.random() < 0.1:
            key = rng.choice(
                (None, b"", b"\xff\x00", rng.randbytes(40), b"YV" + b"%d" % rng.randrange(1_000))
            )
            record = record._replace(key=key)
        if rng.random() < 0.03:
            record = record._replace(value=None)
        if rng.random() < 0.03:
            record = record._replace(appended_at_ms=rng.choice((-1, 0, 2**62, START_NS)))
        self.fleet.take([record])
        return record

    def _headers(self, headers: list[tuple[str, bytes | None]]) -> list[tuple[str, bytes | None]]:
        rng = self._rng
        for _ in range(rng.randrange(1, 4)):
            if not headers:
                break
            at = rng.randrange(len(headers))
            name, text = headers[at]
            odd: tuple[bytes | None, ...] = (
                None, b"", b"-1", b"0", b"9" * 19, b"9" * 400, b"1e9", b" 7", rng.randbytes(rng.randrange(80)),
                rng.choice(ODD).encode("utf-8", "replace"), damaged(rng, (text or b"").decode("latin-1")).encode(),
            )  # fmt: skip
            change = rng.randrange(4)
            if change == 0:
                del headers[at]
            elif change == 1:
                headers.append((name, rng.choice(odd)))
            else:
                headers[at] = name, rng.choice(odd)
        return headers

    def figure(self) -> None:
        """Give the figures one record that is none, or nearly one."""
        rng = self._rng
        row: Any = {
            "vehicle_id": rng.choice((vehicle_id(1), "*", None, 7, "x" * 50)), "second": rng.choice((1, -5, 2**60, "1", None)),
            "emitted": rng.choice((1, 1.5, None, [])), "unsent": 0, "direction": rng.choice(("uplink", "sideways", 3)),
            "wire_bytes": rng.choice((1, 2**70, {})), "window_start_s": rng.choice((None, 10, -1, "x", 2**80)),
        }  # fmt: skip
        for name in rng.sample(sorted(row), rng.randrange(4)):
            del row[name]
        try:
            text = orjson.dumps(rng.choice((row, row, [row], [5, row, row], 5, None)))
        except TypeError:  # beyond 64 bits
            text = b'{"vehicle_id":"*","window_start_s":%d}' % 2**80
        if rng.random() < 0.3:
            text = damaged(rng, text.decode()).encode("utf-8", "replace")
        take = rng.choice((self.figures.take_metrics, self.figures.take_emissions, self.figures.take_link))
        try:
            take(text)
        except BadRecord as bad:
            self.fleet.count_bad(bad.reason, b"")


class State(Surface):
    """Records at the fleet; what is taken must be shown whole, whatever it holds."""

    name, good_every = "state", 500

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._records = StateRecords(self.rng, history_bytes=200_000)
        self._records.fill()

    async def hostile(self) -> None:
        records = self._records
        if self.rng.random() < 0.1:
            records.figure()
            self.outcomes["figure"] += 1
            return
        before = records.fleet.serial
        self.last = record = records.hostile()
        if records.fleet.serial == before:
            self.outcomes["left out"] += 1
            return
        self.outcomes["taken"] += 1
        twin = None if record.key is None else records.fleet.get(record.key.decode("ascii", "replace"))
        if twin is not None:
            orjson.dumps(records.ask.thing(twin).whole())
            orjson.dumps(decoded.row(twin))

    async def good(self) -> None:
        records, k = self._records, self.rng.randrange(VEHICLES)
        self.last = record = records.good(k)
        records.fleet.take([record])
        twin = records.fleet.get(vehicle_id(k + 1))
        assert twin is not None
        assert twin.state.payload == record.value
        assert decoded.row(twin)[-1] is None
        orjson.dumps(records.ask.summary())
