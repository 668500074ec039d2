"""Runs inside a user-mode-Linux guest: opens the netem back end there and prints what it did, as JSON."""

import json
import statistics
import sys
import threading
import time

sys.path.insert(0, sys.argv[1])

from simulator.links import LINKS, Condition, GilbertElliott, LinkError, choose
from simulator.links.namespaces import listed
from simulator.links.proof.probes import Flow, run
from tests.simulator.links.row_by_row import counters


def main():
    said = {"auto": choose("auto")}
    with LINKS["netem"]("guest", 8) as link:
        said["properties"] = link.properties()
        conditions = {
            1: (Condition(None, 25.0), Condition(None, 5.0)),
            2: (Condition(1e6, 5.0), Condition(None, 5.0)),
            3: (Condition(None, 5.0, 0.2), Condition(None, 5.0, 0.5)),
            4: (Condition(None, 20.0, jitter_ms=4.0, distribution="normal"), Condition(None, 1.0)),
            5: (Condition(None, 5.0, gilbert_elliott=GilbertElliott(0.1, 0.4)), Condition(None, 5.0)),
            6: (Condition(None, 5.0), Condition(None, 20.0, reorder_ratio=0.3)),
        }
        link.update(conditions)
        flows = [
            Flow(1, "uplink", 100, 0.01, 100),
            Flow(1, "downlink", 100, 0.01, 100),
            Flow(2, "uplink", 1014, 0.001, 200),  # eight times the rate: the link is never idle
            Flow(3, "uplink", 100, 0.002, 1000),
            Flow(3, "downlink", 100, 0.002, 1000),
            Flow(4, "uplink", 100, 0.002, 1000),
            Flow(5, "uplink", 100, 0.002, 1000),
            Flow(6, "uplink", 100, 0.002, 500),
            Flow(6, "downlink", 100, 0.002, 500),
        ]
        run(link, flows, settle_s=1.5)
        said["flows"] = [
            {
                "vehicle": flow.vehicle,
                "direction": flow.direction,
                "sent": len(flow.sent_at_ns),
                "received": len(flow.received_at_ns),
                "duplicates": flow.duplicates,
                "overtaken": flow.overtaken,
                "delay_p50_ms": statistics.median(flow.delays_ms()),
                "delay_quartiles_ms": statistics.quantiles(flow.delays_ms(), n=4),
                "rate_bps": rate_bps(flow),
            }
            for flow in flows
        ]
        said["counters"] = [row._asdict() for row in counters(link.counters())]
        said["outage"] = outage(link)
        said["refused"] = refused(link)
        said["namespaces"] = listed()
    with LINKS["netem"]("twice", 1) as link:
        link.update({1: (Condition(None, 5.0, duplicate_ratio=0.2), Condition(None, 5.0))})
        flow = Flow(1, "uplink", 100, 0.002, 500)
        run(link, [flow])
        said["duplicated"] = [len(flow.received_at_ns), flow.duplicates]
    said["left"] = listed()
    return said


def rate_bps(flow, packets=20):
    """Return the rate over so many packets, as the median of all such stretches.

    The whole guest stands still where its host does, and serves nothing meanwhile: one pause of 100 ms takes 6 % off the
    mean rate of this transfer, but touches only the stretches around it.
    """
    times = sorted(flow.received_at_ns.values())
    spans = [last - first for first, last in zip(times, times[packets:], strict=False)]
    return packets * flow.frame_bytes * 8e9 / statistics.median(spans)


def refused(link):
    try:
        link.update({3: (Condition(None, 5.0, duplicate_ratio=0.2), Condition(None, 5.0))})
    except LinkError as error:
        return str(error)
    return ""


def outage(link):
    link.update({7: (Condition(0.0, 5.0), Condition(None, 5.0))})
    flow = Flow(7, "uplink", 514, 0.02, 20)
    ended = []

    def end():
        time.sleep(1.0)
        ended.append(time.time_ns())
        link.update({7: (Condition(10e6, 5.0), Condition(None, 5.0))})
        ended.append(time.time_ns())

    thread = threading.Thread(target=end)
    thread.start()
    run(link, [flow], settle_s=1.5)
    thread.join()
    asked_at_ns, ended_at_ns = ended
    came = flow.received_at_ns.values()
    first_ms, last_ms = (min(came) - asked_at_ns) / 1e6, (max(came) - ended_at_ns) / 1e6
    return {"received": len(came), "first_ms": first_ms, "last_ms": last_ms}


try:
    print("\nRESULT " + json.dumps(main()), flush=True)
except Exception as error:  # noqa: BLE001 - whatever it is, the host must read it
    print("\nRESULT " + json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)
