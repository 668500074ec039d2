"""The netem back end, tested where netem is: inside a user-mode-Linux guest."""

from pathlib import Path

import pytest

# The gate has netem in the router of every run over `auto`; this is the back end of hosts whose kernel has it.
pytestmark = [pytest.mark.netns, pytest.mark.timing, pytest.mark.full]


@pytest.fixture(scope="module")
def said(tmp_path_factory, run_in_guest):
    script = Path(__file__).with_name("netem_in_guest.py")
    said = run_in_guest(script, tmp_path_factory.mktemp("guest"))
    assert "error" not in said, said
    return said


def flow(said, vehicle, direction="uplink"):
    return next(f for f in said["flows"] if (f["vehicle"], f["direction"]) == (vehicle, direction))


def test_probe_chooses_netem_where_it_works(said):
    assert said["auto"] == "netem"
    assert said["properties"]["tick_ns"] == 64


def test_delay_of_each_direction_is_its_own(said):
    assert flow(said, 1)["delay_p50_ms"] == pytest.approx(25, abs=1)
    assert flow(said, 1, "downlink")["delay_p50_ms"] == pytest.approx(5, abs=1)


def test_rate_counts_ethernet_frames(said):
    # A rate of IP packets (1,000 of 1,014 bytes) is 1.4 % off.
    assert flow(said, 2)["rate_bps"] == pytest.approx(1e6, rel=0.005)


@pytest.mark.parametrize(("direction", "loss"), [("uplink", 0.2), ("downlink", 0.5)])
def test_loss_is_within_five_standard_deviations(said, direction, loss):
    received = flow(said, 3, direction)["received"]
    assert abs(received - 1000 * (1 - loss)) < 5 * (1000 * loss * (1 - loss)) ** 0.5


def test_normal_jitter_has_its_standard_deviation(said):
    low, _median, high = flow(said, 4)["delay_quartiles_ms"]
    # Quartiles: a busy machine adds outliers. Over 1000 packets their standard error is 3.7 %.
    assert (high - low) / 1.349 == pytest.approx(4, rel=0.25)


def test_bursty_loss_has_its_long_run_share(said):
    # 0.1 / (0.1 + 0.4) of the packets meet the bad state; bursts widen the spread threefold in variance.
    assert abs(flow(said, 5)["received"] - 800) < 5 * (1000 * 0.2 * 0.8 * 3) ** 0.5


def test_reordered_packets_overtake(said):
    assert flow(said, 6, "downlink")["overtaken"] > 100
    assert flow(said, 6, "downlink")["received"] == 500


def test_duplicates_where_the_device_has_one_leaf(said):
    received, duplicates = said["duplicated"]
    assert received == 500
    assert 50 < duplicates < 160


def test_a_refused_change_names_the_vehicle(said):
    assert "YV2RT40A8KB000003 uplink" in said["refused"]


def test_packets_wait_out_an_outage_and_leave_soon_after(said):
    assert said["outage"]["received"] == 20
    assert said["outage"]["first_ms"] >= 0
    assert said["outage"]["last_ms"] < 500


def test_counters_tell_what_the_receiver_saw(said):
    for direction in ("uplink", "downlink"):
        (counter,) = [c for c in said["counters"] if (c["vehicle"], c["direction"]) == (3, direction)]
        seen = flow(said, 3, direction)
        assert counter["packets"] == seen["received"]
        assert counter["drops"] == 1000 - seen["received"]
        assert counter["bytes"] == 100 * seen["received"]


def test_nothing_is_left(said):
    assert said["left"] == []
