"""Figures of echo cells by hand: windows, fates, overhead, pairs; age of information and backlog."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from study_made_up import START_NS, emissions, wire

from ivsim.study.engines.echo.metrics import echo_figures, measured, wire_of
from ivsim.study.engines.echo.observations import EchoObservations, compare_latency
from ivsim.study.engines.echo.ping import checksum, request
from ivsim.study.engines.whole_run.age_of_information import age_of_information, backlog, recovery

SECOND_NS = 1_000_000_000
ALL = (START_NS, START_NS + 10**15)


def test_counts_add_up_and_a_late_message_is_received():
    latency = np.array([100.0, 200.0, 300.0, 31_000.0])
    cell = measured(emissions(1, 4, latency, lost={1}), 1, *ALL, 30.0)
    found = echo_figures(cell)
    assert [found[name] for name in ("due", "delivered", "late", "lost", "unsent")] == [4, 2, 1, 1, 0]
    assert found["delivery_ratio"] == 0.5
    assert found["unsuccessful_ratio"] == 0.25
    assert found["latency_mean_ms"] == pytest.approx((100 + 300 + 31_000) / 3)
    assert found["one_way_delay_max_ms"] == pytest.approx(299.5)
    assert found["acknowledgement_time_p50_ms"] is None


def test_only_what_is_due_in_the_window_counts():
    table = emissions(2, 5, np.full(10, 50.0))
    cell = measured(table, 1, START_NS + 10 * SECOND_NS, START_NS + 30 * SECOND_NS, 30.0)
    assert cell.sequence.tolist() == [2, 2, 3, 3]
    assert cell.vehicle.tolist() == [0, 1, 0, 1]


def wire_cell(table, rows, vehicles=range(1, 2), window=ALL):
    return wire_of(rows, vehicles, window, measured(table, vehicles.start, *ALL, 30.0))


def test_overhead_leaves_payloads_and_repeats_of_tcp_out_but_not_those_of_coap():
    table = emissions(1, 4, np.full(4, 50.0))
    tcp = wire_cell(table, wire(table, retransmitted=500))
    coap = wire_cell(table, wire(table, "coap", retransmitted=500))
    assert tcp.overhead_bytes.tolist() == [148.0] * 4
    assert coap.overhead_bytes.tolist() == [1_148.0] * 4
    assert tcp.wire_bytes.tolist() == [3_148.0] * 4


def test_what_the_lost_cost_is_spread_over_those_that_arrived():
    table = emissions(1, 4, np.full(4, 50.0), lost={1, 2})
    assert wire_cell(table, wire(table)).overhead_bytes.mean() == pytest.approx(296.0)


def test_messages_that_a_slow_link_had_after_the_window_change_nothing():
    table = emissions(1, 4, np.full(4, 50.0), lost={1, 2})
    rows = wire(table)
    first = rows.column("first_sent_at_ns").to_numpy()
    window = (START_NS, int(np.sort(first)[2]))
    some = wire_cell(table, rows, window=window)
    assert some.overhead_bytes.size == 2
    assert some.overhead_bytes.mean() == pytest.approx(wire_cell(table, rows).overhead_bytes.mean())


def test_a_payload_that_came_back_in_blocks_is_taken_off_what_is_unattributed():
    table = emissions(1, 4, np.full(4, 50.0))
    found = wire_cell(table, wire(table, "coap", returned=0, unattributed=600))
    assert found.overhead_bytes.tolist() == [148.0 + 1_200.0 - 1_000.0] * 4


def test_no_more_is_taken_off_than_is_unattributed():
    table = emissions(1, 4, np.full(4, 50.0))
    found = wire_cell(table, wire(table, "coap", returned=0, unattributed=100))
    assert found.overhead_bytes.tolist() == [148.0] * 4


def test_messages_of_other_vehicles_are_not_this_cells():
    table = emissions(3, 2, np.full(6, 50.0))
    assert wire_cell(table, wire(table), range(2, 3)).overhead_bytes.size == 2
    assert wire_cell(table, wire(table), range(9, 10)).overhead_bytes.size == 0


def test_cells_are_compared_message_by_message(made_store):
    store, cells = made_store("a", lambda cell: 100.0 if cell.options.protocol == "mqtt" else 101.0)
    a, b = (EchoObservations(cell, [store.all_kept([cell])[0]]) for cell in (cells[0], cells[2]))
    assert np.array_equal(a.keys, b.keys)
    found = compare_latency(a, b)
    assert found.difference == pytest.approx(float((b.latency_ms - a.latency_ms).mean()))


def test_age_grows_between_updates_and_falls_at_each():
    due = np.array([0, 1, 2]) * SECOND_NS
    applied = due + SECOND_NS // 2
    mean, peak = age_of_information(due, applied)
    assert (mean, peak) == (pytest.approx(1.0), pytest.approx(1.5))
    # An older reading that comes late makes nothing fresher.
    mean, peak = age_of_information(np.array([1, 0, 2]) * SECOND_NS, np.array([1, 2, 3]) * SECOND_NS)
    assert peak == pytest.approx(2.0)
    assert age_of_information(due[:1], applied[:1]) is None


def test_backlog_and_recovery_of_an_outage():
    due = np.arange(10) * SECOND_NS
    applied = due + 1_000
    inside = (due >= 3 * SECOND_NS) & (due < 6 * SECOND_NS)
    applied[inside] = 8 * SECOND_NS
    assert backlog(due, applied) == 4  # three that wait, and the one of that second
    assert recovery(due, applied, 0, (3.0, 3.0)) == pytest.approx(2.0)
    applied[inside] = 0
    assert backlog(due, applied) == 1
    assert recovery(due, applied, 0, (3.0, 3.0)) is None


def test_an_echo_request_checks_itself():
    assert checksum(request(7, 9)) == 0
    assert request(7, 9)[:2] == b"\x08\x00"


def test_what_a_peer_refused_is_refused_and_an_earlier_sessions_message_is_left_out():
    table = emissions(1, 4, np.array([100.0, 200.0, -300.0, 400.0]), lost={1})
    at = table.column_names.index("refused_at_ns")
    table = table.set_column(at, "refused_at_ns", pa.array([None, START_NS, None, None], pa.int64()))
    cell = measured(table, 1, *ALL, 30.0)
    found = echo_figures(cell)
    assert [found[name] for name in ("due", "delivered", "refused", "lost", "left_out")] == [3, 2, 1, 0, 1]
    assert cell.sequence.tolist() == [1, 2, 4]
