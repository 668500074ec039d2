"""How fast and how exact the link is: boot, update, delay, rate, capacity. `python -m bench.bench_link`."""

from __future__ import annotations

import os
import platform
import secrets
import time

from simulator.links import Condition, choose, open_link
from simulator.links.base import DIRECTIONS, Link
from simulator.links.privileges import ensure_privileges
from simulator.links.proof import checks
from simulator.links.proof.bulk_tcp import tcp_rate_bps
from simulator.links.proof.probes import Flow, run

REPEATS = 7


def _update_ms(link: Link, vehicles: int) -> list[float]:
    took = []
    for step in range(REPEATS):
        conditions = {
            k: (Condition(5e6 + 1000 * k + step, 30.0 + step, 0.01), Condition(2e7 + step, 20.0 + step, 0.01))
            for k in range(1, vehicles + 1)
        }
        began = time.perf_counter()
        link.update(conditions)
        took.append((time.perf_counter() - began) * 1e3)
    return took


def _fleet(vehicles: int) -> None:
    began = time.perf_counter()
    with open_link("auto", f"bench{secrets.token_hex(2)}", vehicles) as link:
        opened_s = time.perf_counter() - began
        updates = _update_ms(link, vehicles)
        began = time.perf_counter()
        link.counters()
        counted_ms = (time.perf_counter() - began) * 1e3
        began = time.perf_counter()
    closed_s = time.perf_counter() - began
    print(
        f"{vehicles} vehicles: open {opened_s:.2f} s, one update of both directions median "
        f"{checks.quantile(updates, 0.5):.1f} ms (all: {', '.join(f'{u:.0f}' for u in updates)}), "
        f"all counters {counted_ms:.1f} ms, close {closed_s:.2f} s"
    )


def _exactness() -> None:
    with open_link("auto", f"bench{secrets.token_hex(2)}", 20) as link:
        print(link.properties())
        link.update({1: (Condition(None, 35.0), Condition(None, 35.0))})
        for direction in DIRECTIONS:
            flow = Flow(1, direction, 242, 1 / 500, 2500)
            run(link, [flow])
            errors = [delay - 35 for delay in flow.delays_ms()]
            print(
                f"delay error at 35 ms, {direction}: mean {sum(errors) / len(errors):+.3f} ms, "
                f"p50 {checks.quantile(errors, 0.5):+.3f}, p99 {checks.quantile(errors, 0.99):+.3f}, "
                f"lost {flow.count - len(errors)} of {flow.count}"
            )
        for rate in (1e5, 1e6, 5e6, 2e7, 5e7):
            link.update({2: (Condition(rate, 20.0), Condition(None, 20.0))})
            flow = Flow(2, "uplink", 1514, 1514 * 8 / (rate * 1.15), max(25, round(rate * 1.15 * 3 / 12112)))
            run(link, [flow])
            print(
                f"rate {rate / 1e6:g} Mbit/s: {(flow.rate_bps() / rate - 1) * 100:+.3f} % (Ethernet frames)"
            )
        link.update({3: (Condition(None, 5.0), Condition(None, 5.0))})
        for direction in DIRECTIONS:
            print(f"TCP without a rate, {direction}: {tcp_rate_bps(link, 3, direction, 3) / 1e6:.0f} Mbit/s")
        flow = Flow(3, "uplink", 100, 1 / 20000, 40000)
        run(link, [flow])
        sent_s = (flow.sent_at_ns[-1] - flow.sent_at_ns[0]) / 1e9
        lost = flow.count - len(flow.received_at_ns)
        print(f"{flow.count / sent_s:.0f} packets/s of 100 bytes: {lost / flow.count:.4%} lost")


def main() -> None:
    """Print the figures of the link, with the machine's header."""
    ensure_privileges()
    load = os.getloadavg()[0]
    print(f"Linux {platform.release()}, {os.cpu_count()} processors, load {load:.1f}, link {choose('auto')}")
    for vehicles in (1000, 5000):
        _fleet(vehicles)
    _exactness()


if __name__ == "__main__":
    main()
