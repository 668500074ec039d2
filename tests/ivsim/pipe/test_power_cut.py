"""Power cuts: what is lost of what was acknowledged, against made-up platforms that lose known records, and a real one."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from functools import partial
from types import SimpleNamespace

import pytest

from ivsim import cli
from ivsim.study.engines.pipe import power_cut, power_cut_series
from ivsim.study.engines.pipe.platforms.base import NONE, Arrivals, Full
from ivsim.study.engines.pipe.power_cut import Loop, cut, settings_of
from ivsim.study.engines.pipe.power_cut_series import HEAD, Asked, checked, rows
from ivsim.testbed import leftovers
from ivsim.testbed.machine import Machine
from ivsim.testbed.process import NotReady
from ivsim.testbed.registry import RunRecord
from schemas.errors import Refusal
from simulator.links import privileges

SETTINGS = {"platform": "redis", "durability": "cache", "rate": 2_000.0}


class Forgetful:
    """A platform that answers at once and forgets the last `forgets` records when its power is cut.

    Records without an answer at the cut are sent again by the client; `twice` of them were there already. The last
    `unread` answers before the cut are with the client, which reports them when it is polled next.
    """

    def __init__(self, forgets: int, twice: int = 0, back_s: float = 0.05, unread: int = 0) -> None:
        self.forgets, self.twice, self.back_s, self.unread = forgets, twice, back_s, unread
        self.kept: list[tuple[int, bytes]] = []
        self.forgotten: list[int] = []
        self.back_at_s = 0.0
        self.killed = 0

    def place(self, name: str, settings: Mapping[str, object]) -> dict[str, object]:
        return {"name": name}

    def check(self) -> None:
        pass

    def kill(self, index: int) -> None:
        assert index == 0
        self.killed += 1
        self.back_at_s = time.monotonic() + self.back_s
        if self.forgets:
            self.forgotten = [number for number, _ in self.kept[-self.forgets :]]
            self.kept = self.kept[: -self.forgets]
        self.kept += self.kept[-self.twice :] if self.twice else []

    def back(self, place: object) -> bool:
        return time.monotonic() >= self.back_at_s

    def clients(self) -> SimpleNamespace:
        return SimpleNamespace(
            sender=lambda place, settings, index, report: Writing(self, report),
            receiver=lambda place, settings, partitions: Reading(self),
        )


class Writing:
    def __init__(self, platform: Forgetful, report) -> None:
        self.platform, self.report = platform, report
        self.waiting: list[tuple[int, bytes]] = []
        self.unread: list[int] = []

    def open(self) -> None:
        pass

    def send(self, number, key, value, due_at_ns) -> None:
        if len(self.waiting) > 5_000:
            raise Full
        self.waiting.append((number, value))
        self._pass_on()

    def _pass_on(self) -> None:
        if time.monotonic() < self.platform.back_at_s:
            return
        for number, value in self.waiting:
            self.platform.kept.append((number, value))
            self.unread.append(number)
        self.waiting = []
        while len(self.unread) > (0 if self.platform.killed else self.platform.unread):
            self.report(self.unread.pop(0), None)

    def poll(self, timeout_s) -> None:
        time.sleep(timeout_s)
        self._pass_on()
        while self.platform.killed and self.unread:
            self.report(self.unread.pop(0), None)

    def flush(self, timeout_s) -> int:
        self._pass_on()
        return len(self.waiting)

    def close(self) -> None:
        pass


class Reading:
    def __init__(self, platform: Forgetful) -> None:
        self.left = list(platform.kept)

    def open(self) -> None:
        pass

    def poll(self):
        taken, self.left = self.left[:100], self.left[100:]
        if not taken:
            return NONE
        numbers = [number for number, _ in taken]
        return Arrivals(numbers, [0] * len(taken), list(range(len(taken))), [value for _, value in taken])

    def close(self) -> None:
        pass


@pytest.fixture
def soon(monkeypatch):
    """Let a cut come, be over and be read within a second."""
    for name, value in (("CUT_BETWEEN_S", (0.1, 0.2)), ("GOES_ON_S", 0.1), ("QUIET_S", 0.05)):
        monkeypatch.setattr(power_cut, name, value)


@pytest.mark.parametrize(("forgets", "twice"), [(0, 0), (1, 0), (37, 0), (0, 4), (20, 3)])
def test_what_was_acknowledged_and_is_not_there_is_lost(soon, forgets, twice):
    platform = Forgetful(forgets, twice)
    found = Loop(platform, platform.clients(), SETTINGS, 7).run()
    assert platform.killed == 1
    assert (found.lost, found.duplicates, found.lost_after, found.foreign) == (forgets, twice, 0, 0)
    assert found.acknowledged >= 150
    assert found.sent == len({number for number, _ in platform.kept} | set(platform.forgotten))
    assert found.recovery_s >= platform.back_s
    assert (found.lost_span_s is None) == (forgets == 0)
    if forgets:
        assert 0 <= found.lost_span_s < found.cut_after_s + 0.1


def test_an_answer_that_the_client_had_at_the_cut_is_one_from_before_it(soon):
    platform = Forgetful(9, unread=5, back_s=0.5)
    found = Loop(platform, platform.clients(), SETTINGS, 7).run()
    assert (found.lost, found.lost_after) == (9, 0)


def test_what_is_there_and_nobody_sent_is_foreign(soon):
    platform = Forgetful(0)
    platform.kept = [(1, b"another's"), (99_999_999, bytes(1_024))]
    found = Loop(platform, platform.clients(), SETTINGS, 7).run()
    assert (found.foreign, found.lost) == (2, 0)


def test_a_platform_that_stays_away_is_said(soon, monkeypatch):
    monkeypatch.setattr(power_cut, "BACK_S", 0.2)
    platform = Forgetful(0, back_s=60)
    with pytest.raises(NotReady, match=r"redis did not answer again after the cut within 0.2 s"):
        Loop(platform, platform.clients(), SETTINGS, 7).run()


def test_each_block_has_every_platform_and_durability_in_an_order_of_its_own():
    asked = Asked(("kafka", "redis"), ("cache", "synced"), 8, 200.0, 3)
    order = asked.order()
    blocks = [[kind[:2] for kind in order[at : at + 4]] for at in range(0, 32, 4)]
    assert all(sorted(block) == sorted(blocks[0]) for block in blocks)
    assert len({tuple(block) for block in blocks}) > 1
    assert len({seed for *_, seed in order}) == 32
    assert order == asked.order()


def test_the_table_sums_cuts_and_names_those_that_did_not_come_back():
    one = {
        "platform": "redis", "durability": "cache", "acknowledged": 1_000, "lost": 10, "lost_after": 1, "duplicates": 2,
        "lost_span_s": 0.5, "recovery_s": 3.0, "error": None,
    }  # fmt: skip
    found = [
        {**one, "platform": "kafka", "durability": "synced", "error": "did not answer"},
        one,
        {**one, "lost": 0, "lost_after": 0, "lost_span_s": None, "recovery_s": 5.0},
        {**one, "lost_span_s": 0.75, "recovery_s": 4.0},
    ]
    table = [dict(zip(HEAD, row, strict=True)) for row in rows(found)]
    assert [row["platform"] for row in table] == ["kafka", "redis"]
    assert table[0] == {
        **dict.fromkeys(HEAD, ""),
        "platform": "kafka",
        "durability": "synced",
        "cuts": "0 of 1",
    }
    assert table[1] == {
        "platform": "redis", "durability": "cache", "cuts": "3", "acknowledged": "3,000", "lost": "22", "span s": "0.75",
        "twice": "6", "back s": "4.0",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("platforms", "durabilities", "says"),
    [
        (["null"], ["cache"], "PLATFORM 'null': allowed are "),
        (["pigeon"], ["cache"], "PLATFORM 'pigeon': allowed are "),
        (["redis"], ["cache", "steel"], "--durability 'steel': redis has cache, synced"),
    ],
)
def test_what_cannot_be_cut_is_refused(platforms, durabilities, says):
    with pytest.raises(Refusal) as refused:
        checked(Asked(platforms, durabilities, 1, 200.0, 1))
    assert str(refused.value).startswith(says)


@pytest.mark.full
@pytest.mark.broker
@pytest.mark.netns
@pytest.mark.slow
def test_a_synced_redis_keeps_all_and_the_machine_leaves_nothing(tmp_path, monkeypatch):
    noted = []
    namespace = RunRecord.namespace
    monkeypatch.setattr(
        RunRecord, "namespace", lambda record, name: (noted.append(name), namespace(record, name))
    )
    with RunRecord(f"l{time.time_ns():x}-{time.time_ns() % 0xFFFFFF:06x}", tmp_path) as record:
        found = cut(settings_of("redis", "synced", 200.0), 1, record, tmp_path / "w")
    assert found.acknowledged > 100
    assert (found.lost, found.lost_after, found.foreign) == (0, 0, 0)
    assert found.sent > found.acknowledged
    assert found.recovery_s > 0
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]
    assert noted
    assert not set(noted) & set(leftovers.namespaces())


@pytest.mark.full
@pytest.mark.kafka
@pytest.mark.netns
@pytest.mark.slow
def test_the_command_shows_what_a_kafka_loses_that_did_not_flush(tmp_path, monkeypatch, capsys):
    """Kafka answers from its page cache, which the kernel writes after half a minute: what it had is gone."""
    shown_of_a_kafka(tmp_path, monkeypatch, capsys)


@pytest.mark.full
@pytest.mark.kafka
@pytest.mark.netns
@pytest.mark.slow
def test_a_kafka_loses_the_same_where_the_machine_does_without_wide_registers(tmp_path, monkeypatch, capsys):
    """On a processor with AMX the machine's kernel keeps SSE's registers alone; Java asks the processor, not it."""
    monkeypatch.setattr(power_cut, "Machine", partial(Machine, narrow=True))
    shown_of_a_kafka(tmp_path, monkeypatch, capsys)
    log = (tmp_path / "cuts" / "logs" / "kafka.log").read_text()
    assert (
        "registers lost: AVX" in log or "registers: all kept" in log
    )  # a processor without AVX has none to lose


def shown_of_a_kafka(tmp_path, monkeypatch, capsys):
    words = ["platform", "power-cut", "kafka", "--cuts", "1", "--durability", "cache", "--quiet"]
    assert exit_code(monkeypatch, *words, "--output", str(tmp_path / "cuts")) == 0
    (found,) = json.loads((tmp_path / "cuts" / "power-cuts.json").read_text())["cuts"]
    assert found["error"] is None
    assert found["lost"] > 0
    assert found["lost_after"] == found["foreign"] == 0
    assert f"{found['lost']:,}" in capsys.readouterr().out
    report = (tmp_path / "cuts" / "report.md").read_text()
    assert f"| kafka | cache | 1 | {found['acknowledged']:,} | {found['lost']:,} |" in report


def exit_code(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["ivsim", *words])
    with pytest.raises(SystemExit) as end:
        cli.main()
    return end.value.code


@pytest.mark.parametrize(("error", "code"), [("did not answer", 1), (None, 0)])
def test_the_exit_code_is_a_number(tmp_path, monkeypatch, capsys, error, code):
    one = {
        "platform": "redis", "durability": "cache", "acknowledged": 1, "lost": 0, "lost_after": 0, "duplicates": 0,
        "lost_span_s": None, "recovery_s": 1.0, "error": error,
    }  # fmt: skip
    monkeypatch.setattr(power_cut_series, "checked", lambda asked: asked)
    monkeypatch.setattr(power_cut_series, "cuts", lambda asked, path, tell: [one])
    monkeypatch.setattr(privileges, "ensure_privileges", lambda: None)
    found = exit_code(
        monkeypatch, "platform", "power-cut", "redis", "--quiet", "--output", str(tmp_path / "cuts")
    )
    assert (type(found), found) == (int, code)
    assert "redis" in capsys.readouterr().out
