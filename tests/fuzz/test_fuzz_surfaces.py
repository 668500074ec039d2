"""A small slice of `python -m tests.fuzz`, the same inputs each time."""

from __future__ import annotations

import pytest

from tests.fuzz.__main__ import main
from tests.fuzz.runner import BrokenSurfaceError, run
from tests.fuzz.surface import Surface
from tests.fuzz.surfaces import SURFACES

COUNTS = {"http": 60, "state": 300, "mqtt": 500, "amqp": 200, "coap": 500}


@pytest.mark.parametrize("times", [1, pytest.param(20, marks=pytest.mark.full)])
@pytest.mark.parametrize("name", COUNTS)
async def test_a_surface_stands_malformed_input_and_takes_the_good_between(name: str, times: int) -> None:
    count = COUNTS[name] * times
    result = await run(SURFACES[name](7), count)
    assert result.inputs == count
    assert result.good == -(-count // SURFACES[name].good_every)
    assert len(result.outcomes) > 1


@pytest.mark.full
@pytest.mark.kafka
@pytest.mark.spark
async def test_each_record_at_the_twin_ends_in_a_twin_or_as_a_dead_letter() -> None:
    result = await run(SURFACES["twin"](7), 6_000)
    assert result.good == 2
    assert result.outcomes["dead letters"] + result.outcomes["in a twin"] == 6_002


class Glass(Surface):
    """Stands nine inputs."""

    async def hostile(self) -> None:
        self.outcomes["taken"] += 1
        self.last = self.outcomes["taken"]
        assert self.last < 10

    async def good(self) -> None:
        pass


async def test_an_input_that_breaks_a_surface_is_named() -> None:
    with pytest.raises(BrokenSurfaceError, match="input 9: 10"):
        await run(Glass(1), 100)


@pytest.mark.parametrize("words", [["paper"], ["http", "--count", "0"], ["http", "--seed", "x"]])
def test_a_word_that_is_none_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(words)
    assert refused.value.code == 2
