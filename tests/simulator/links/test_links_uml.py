"""The user-mode-Linux back end: what it does to real packets, and what it leaves behind."""

import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from schemas.errors import Refusal
from schemas.namespace import ROOT
from simulator.links import LINKS, Condition, GilbertElliott, LinkError
from simulator.links import netlink as nl
from simulator.links.namespaces import command_inside, inside, listed
from simulator.links.proof.bulk_tcp import tcp_rate_bps
from simulator.links.proof.probes import Flow, run
from simulator.links.routed import RoutedLink
from simulator.links.routers import Block
from simulator.links.uml.router import UmlRouter
from tests.simulator.links.row_by_row import counters

pytestmark = pytest.mark.netns
FREE = Condition(None, 0.0)


def measured(link, vehicle, up, down=FREE, **flow):
    link.update({vehicle: (up, down)})
    one = Flow(
        vehicle, **({"direction": "uplink", "frame_bytes": 114, "interval_s": 0.005, "count": 100} | flow)
    )
    run(link, [one])
    return one


@pytest.mark.timing
def test_delay_is_what_was_asked(uml_link):
    delays = sorted(measured(uml_link, 1, Condition(None, 35.0)).delays_ms())
    assert len(delays) == 100
    assert delays[0] >= 35.0
    assert delays[50] == pytest.approx(35, abs=2)


@pytest.mark.timing
def test_a_lone_frame_pays_its_serialisation(uml_link):
    flow = measured(uml_link, 1, Condition(1e6, 10.0), frame_bytes=1250, interval_s=0.05, count=20)
    assert sorted(flow.delays_ms())[10] == pytest.approx(20, abs=2)


@pytest.mark.timing
def test_rate_is_within_a_few_per_cent(uml_link):
    flow = measured(uml_link, 2, Condition(2e6, 5.0), frame_bytes=1014, interval_s=0.003, count=400)
    assert flow.rate_bps() == pytest.approx(2e6, rel=0.03)


def test_loss_of_all_is_all(uml_link):
    assert measured(uml_link, 3, Condition(None, 1.0, 1.0)).received_at_ns == {}


def test_losses_in_bursts_go_on_over_changes(uml_link):
    """Half of all in bursts of 10: netem would lose a tenth where each change begins them anew.

    Of one vehicle the delay changes, of the other the model, too.
    """
    stopped, count = threading.Event(), 2_000

    def asked(number, to_bad):
        return Condition(None, 1.0 + number % 2 / 10, gilbert_elliott=GilbertElliott(to_bad, 0.1)), FREE

    def change():
        number = 0
        while not stopped.is_set():
            number += 1
            uml_link.update({10: asked(number, 0.1), 11: asked(number, 0.1 + number / 1e6)})
            stopped.wait(0.003)

    changing = threading.Thread(target=change)
    flows = [Flow(vehicle, "uplink", 114, 0.002, count) for vehicle in (10, 11)]
    uml_link.update({10: asked(0, 0.1), 11: asked(0, 0.1)})
    changing.start()
    try:
        run(uml_link, flows)
    finally:
        stopped.set()
        changing.join()
    for flow in flows:
        lost = count - len(flow.received_at_ns)
        # What follows a packet's fate is worth 1 - 2 x 0.1 of it: nine times the variance of independent losses.
        assert abs(lost - count * 0.5) < 5 * (count * 0.5 * 0.5 * 9) ** 0.5
        (counted,) = [one for one in counters(uml_link.counters()) if one[:2] == (flow.vehicle, "uplink")]
        assert (counted.drops, counted.packets) == (lost, count - lost)
        assert min(flow.delays_ms()) >= 1.0


@pytest.mark.timing
def test_directions_are_apart(uml_link):
    flow = measured(uml_link, 3, Condition(None, 1.0, 1.0), Condition(None, 20.0), direction="downlink")
    assert len(flow.received_at_ns) == 100
    assert sorted(flow.delays_ms())[50] == pytest.approx(20, abs=2)


@pytest.mark.timing
def test_vehicles_are_apart(uml_link):
    uml_link.update({k: (Condition(None, 10.0 * k), FREE) for k in range(1, 6)})
    flows = [Flow(k, "uplink", 114, 0.02, 30) for k in range(1, 6)]
    run(uml_link, flows)
    for k, flow in enumerate(flows, 1):
        assert sorted(flow.delays_ms())[15] == pytest.approx(10 * k, abs=3)


@pytest.mark.timing
@pytest.mark.parametrize(
    "low_bps", [0.0, pytest.param(8.0, marks=pytest.mark.full), pytest.param(8000.0, marks=pytest.mark.full)]
)
def test_packets_of_a_dark_second_leave_soon_after_it(uml_link, low_bps):
    """One second without a rate, or with hardly any, must not hold packets long after it has risen."""
    uml_link.update({4: (Condition(10e6, 5.0), FREE)})
    uml_link.update({4: (Condition(low_bps, 5.0), FREE)})
    raised = []

    def rise():
        time.sleep(1)
        raised.append(time.time_ns())
        uml_link.update({4: (Condition(10e6, 5.0), FREE)})
        raised.append(time.time_ns())

    thread = threading.Thread(target=rise)
    thread.start()
    flow = Flow(4, "uplink", 1514, 0.05, 15)
    run(uml_link, [flow], settle_s=3.5)
    thread.join()
    assert len(flow.received_at_ns) == 15
    # At 8 kbit/s the frame in service still takes its 1.5 s; nothing waits longer than 2 s.
    asked_at_ns, risen_at_ns = raised
    assert max(flow.received_at_ns.values()) - risen_at_ns < 2.2e9
    if low_bps == 0:
        assert min(flow.received_at_ns.values()) >= asked_at_ns


def test_a_full_queue_drops_the_newest(uml_link):
    uml_link.update({5: (Condition(0.0, 1.0, queue_bytes=5000), FREE)})
    before = counter(uml_link, 5)
    flow = Flow(5, "uplink", 1014, 0.002, 20)
    run(uml_link, [flow], settle_s=0.2)
    held = counter(uml_link, 5)
    assert held.queue_drops - before.queue_drops == 16
    assert held.backlog_packets == 4
    # What was prepared and never sent is not in force, and the next change knows it: the queue is let go.
    released = {5: (Condition(None, 1.0, queue_bytes=5000), FREE)}
    uml_link.prepare(released, time.monotonic())
    assert counter(uml_link, 5).backlog_packets == 4
    uml_link.update(released)
    wait_for(lambda: counter(uml_link, 5).backlog_packets == 0)
    assert counter(uml_link, 5).packets - before.packets == 4


@pytest.mark.timing
def test_a_change_that_is_handed_over_early_is_made_in_its_time(uml_link):
    """The guest keeps the time by its own clock, and says when by the host's."""
    uml_link.update({12: (Condition(None, 1.0), FREE)})
    at_s, ahead_ns = time.monotonic() + 0.8, time.time_ns() - time.monotonic_ns()
    apply, found = uml_link.prepare({12: (Condition(None, 60.0), FREE)}, at_s, count=True), []
    changing = threading.Thread(target=lambda: found.append(apply()))
    changing.start()
    flow = Flow(12, "uplink", 114, 0.005, 300)
    run(uml_link, [flow])
    changing.join()
    (applied,) = found
    assert at_s - 0.31 < applied.counted_s <= at_s <= applied.began_s <= applied.ended_s < at_s + 0.02
    (counted,) = [one for one in counters(applied.counts) if one[:2] == (12, "uplink")]
    before = sum((sent_at_ns - ahead_ns) / 1e9 < applied.counted_s for sent_at_ns in flow.sent_at_ns)
    assert 0 < counted.packets <= before
    late = {
        number: (flow.sent_at_ns[number] - ahead_ns) / 1e9
        for number, at_ns in flow.received_at_ns.items()
        if at_ns - flow.sent_at_ns[number] > 40e6
    }
    assert len(late) > 50
    assert abs(min(late.values()) - applied.ended_s) < 0.03
    # One that comes after its time is made at once.
    began_s = time.monotonic()
    applied = uml_link.prepare({12: (FREE, FREE)}, began_s - 5)()
    assert began_s <= applied.began_s <= applied.ended_s <= time.monotonic()


def counter(link, vehicle, direction="uplink"):
    return next(c for c in counters(link.counters()) if (c.vehicle, c.direction) == (vehicle, direction))


def wait_for(condition, timeout_s=10):
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_change_does_not_drop_the_queue(uml_link):
    """100 packets wait in the delay line while every parameter changes each 20 ms."""
    uml_link.update({6: (Condition(50e6, 400.0), FREE)})
    stop = threading.Event()

    def change():
        step = 0
        while not stop.wait(0.02):
            step += 1
            uml_link.update({6: (Condition(50e6 + step, 400.0 + step % 2, queue_bytes=40_000 + step), FREE)})

    thread = threading.Thread(target=change)
    thread.start()
    flow = Flow(6, "uplink", 314, 0.004, 100)
    run(uml_link, [flow], settle_s=1)
    stop.set()
    thread.join()
    assert len(flow.received_at_ns) == 100


@pytest.mark.timing
def test_tcp_fills_the_rate(uml_link):
    uml_link.update({7: (Condition(4e6, 5.0), Condition(4e6, 5.0))})
    for direction in ("uplink", "downlink"):
        assert tcp_rate_bps(uml_link, 7, direction, 3) * 1514 / 1448 == pytest.approx(4e6, rel=0.08)


def test_what_no_vehicle_sent_is_lost(uml_link):
    with inside(uml_link.vehicles_namespace):
        near = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with inside(uml_link.cloud_namespace):
        far = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with near, far:
        far.bind(("198.19.0.1", 0))
        far.settimeout(0.5)
        near.sendto(b"unbound", far.getsockname())
        with pytest.raises(TimeoutError):
            far.recv(100)


def test_no_packet_can_leave(uml_link):
    for namespace in (uml_link.vehicles_namespace, uml_link.cloud_namespace):
        with (
            inside(namespace),
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s,
            pytest.raises(OSError, match="unreachable"),
        ):
            s.connect(("203.0.113.1", 9))


def test_bad_conditions_are_refused_by_name(uml_link):
    with pytest.raises(Refusal, match=r"YV2RT40A8KB000002 uplink: loss_ratio 1.5: allowed 0 to 1"):
        uml_link.update({2: (Condition(1e6, 1.0, 1.5), FREE)})
    with pytest.raises(Refusal, match="vehicle 21: this link has vehicles 1 to 20"):
        uml_link.update({21: (FREE, FREE)})


def test_the_kernels_own_refusal_names_the_vehicle(uml_link):
    with pytest.raises(LinkError, match=r"YV2RT40A8KB000009 downlink: .*duplicating"):
        uml_link.update({9: (FREE, Condition(None, 1.0, duplicate_ratio=0.5))})


def test_a_kernel_answers_all_errors_of_a_block(run_name):
    messages = [nl.htb_class(9999, minor, 1000, 1000, create=False) for minor in (2, 3)]
    router = UmlRouter()
    with RoutedLink("uml", run_name, 2, router):
        (replies,) = router.prepare([Block(nl.sequenced(messages, 1), 2)])(0.0, None).replies
    assert [(reply.sequence, reply.errno) for reply in nl.errors(replies)] == [(1, 19), (2, 19)]


def test_a_change_of_a_large_fleet_overflows_nothing(run_name):
    """The socket of the control device holds about 90 frames; what it drops is sent again 200 ms later at the earliest."""
    drawn = random.Random(1)
    with LINKS["uml"](run_name, 3000) as link:
        # What deflates badly: 180 kB, more than twice what the socket holds.
        conditions = (
            Condition(drawn.uniform(1e6, 1e9), drawn.uniform(0, 99), drawn.random()) for _ in range(3000)
        )
        asked = {vehicle: (condition, FREE) for vehicle, condition in enumerate(conditions, 1)}
        changing = threading.Thread(target=link.update, args=(asked,))
        guest = guest_of(run_name)
        os.kill(guest, signal.SIGSTOP)
        try:
            changing.start()
            wait_for(lambda: waiting_at_the_control_device(run_name) > 10)
            time.sleep(0.1)  # a sender fills a window within a millisecond
            frames = waiting_at_the_control_device(run_name)
        finally:
            os.kill(guest, signal.SIGCONT)
            changing.join()
    assert frames <= 32


def waiting_at_the_control_device(run):
    """Return how many segments the host has sent to the guest's agent, and the guest has not acknowledged."""
    command = ["ip", "netns", "exec", f"ivsim-{run}-r", "ss", "-tniO", "dport", "7000"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.search("unacked:([0-9]+)", said)
    return 0 if found is None else int(found[1])


def test_closing_leaves_nothing(run_name):
    with LINKS["uml"](run_name, 2):
        assert len(listed(f"ivsim-{run_name}")) == 3
        guest = guest_of(run_name)
        assert Path(f"/proc/{guest}/fd/1").readlink().name == "uml.log (deleted)"
    assert listed(f"ivsim-{run_name}") == []
    assert not Path(f"/proc/{guest}").exists()
    wait_for(lambda: not group_alive(guest))


def test_nothing_outlives_a_guest_that_ended_by_itself(run_name):
    with LINKS["uml"](run_name, 2):
        guest = guest_of(run_name)
        os.kill(guest, signal.SIGKILL)
        wait_for(lambda: group_members(guest) == [guest])  # itself, until its owner has read its status


OWNER = """
import sys, time
from simulator.links import LINKS
link = LINKS["uml"](sys.argv[1], 2).__enter__()
print("open", flush=True)
time.sleep(60)
"""


def test_the_guest_dies_with_a_killed_owner(run_name):
    owner = subprocess.Popen([sys.executable, "-c", OWNER, run_name], stdout=subprocess.PIPE, text=True)
    try:
        assert owner.stdout.readline() == "open\n"
        group = guest_of(run_name)
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        wait_for(lambda: not group_alive(group))
    finally:
        owner.kill()
        owner.stdout.close()
        for name in listed(f"ivsim-{run_name}"):
            subprocess.run(["ip", "netns", "delete", name], check=True)
    assert not (ROOT / f"ivsim-{run_name}-r").exists()


def guest_of(run):
    """The guest's own process, which leads the group of its helpers."""
    pids = subprocess.run(
        ["ip", "netns", "pids", f"ivsim-{run}-r"], check=True, capture_output=True, text=True
    ).stdout.split()
    (guest,) = {os.getpgid(int(pid)) for pid in pids}
    return guest


def group_members(group):
    """Every process of the group, a dead one that nobody has waited for too."""
    members = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            pid, _, rest = stat.read_text().partition(" ")
            if int(rest.rpartition(")")[2].split()[2]) == group:
                members.append(int(pid))
    return members


def group_alive(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_command_inside_sees_only_the_namespace(uml_link):
    argv = command_inside(uml_link.vehicles_namespace, ["cat", "/proc/net/dev"])
    text = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert {line.split(":")[0].strip() for line in text.splitlines()[2:]} == {"lo", "veth0"} - {"veth0"} | {
        "veh0"
    }
