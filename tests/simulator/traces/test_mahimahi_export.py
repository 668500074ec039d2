"""Out to mahimahi and back: the same rates to one packet per step, the same length."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from ivsim.commands.trace import app
from schemas.errors import Refusal
from simulator.traces import BUNDLED, Trace, bundled
from simulator.traces.importers import import_trace
from simulator.traces.importers.mahimahi import Opportunities, to_mahimahi


def back(tmp_path, trace: Trace, direction: str = "uplink") -> Trace:
    path = tmp_path / ("x.up" if direction == "uplink" else "x.down")
    path.write_text(to_mahimahi(trace, direction), newline="\n")
    return import_trace(path)


@pytest.mark.parametrize("name", [name for name in BUNDLED if "rtt" not in name])
def test_bundled_traces_survive(tmp_path, name):
    trace = bundled(name)
    direction = "uplink" if trace.uplink_kbps is not None else "downlink"
    column = f"{direction}_kbps"
    again = back(tmp_path, trace, direction)
    assert again.duration_s == trace.duration_s
    assert np.abs(again.columns()[column] - trace.columns()[column]).max() <= 12 + 1e-6
    # Nothing is lost by rounding: the sums agree to one packet.
    assert abs(again.columns()[column].sum() - trace.columns()[column].sum()) <= 12


def test_recorded_file_comes_back_step_for_step(tmp_path, real):
    trace = import_trace(real / "mahimahi_saturator/ATT-LTE-driving.up")
    assert np.array_equal(back(tmp_path, trace).uplink_kbps, trace.uplink_kbps)


@given(st.lists(st.sampled_from([0.0, 0.4, 11.9, 12.0, 100.0, 5e4]), min_size=1, max_size=12))
def test_any_rates_survive(tmp_path_factory, rates):
    trace = Trace(np.arange(len(rates), dtype=float), uplink_kbps=np.array(rates))
    if not any(rates):
        with pytest.raises(Refusal, match="always 0"):
            to_mahimahi(trace, "uplink")
        return
    again = back(tmp_path_factory.getbasetemp(), trace)
    assert again.duration_s == trace.duration_s
    assert np.abs(again.uplink_kbps - trace.uplink_kbps).max() <= 12 + 1e-6
    assert not again.uplink_kbps[trace.uplink_kbps == 0].any()


def test_file_is_one_mahimahi_accepts(tmp_path):
    text = to_mahimahi(bundled("tunnel"), "uplink")
    stamps = [int(line) for line in text.splitlines()]
    assert text.endswith("\n")
    assert "\r" not in text
    assert stamps == sorted(stamps)
    assert stamps[-1] == 120_000


def test_missing_column_is_refused():
    with pytest.raises(Refusal, match="downlink_kbps is missing, nothing to export"):
        to_mahimahi(bundled("tunnel"), "downlink")


def test_an_export_takes_no_more_memory_for_a_larger_trace(monkeypatch):
    """A walk of 798 s at 1 to 2 Gbit/s has 100 million lines; it took 5.8 GB of memory."""
    monkeypatch.setattr("simulator.traces.importers.mahimahi.BLOCK_LINES", 5_000)
    peaks = []
    for seconds in (20, 80):
        trace = Trace(np.arange(float(seconds)), uplink_kbps=np.full(seconds, 60_000.0))
        tracemalloc.start()
        opportunities = Opportunities(trace, "uplink")
        lines = sum(block.count("\n") for block in opportunities.blocks())
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert lines == opportunities.count == 5_000 * seconds + 1
    assert peaks[1] < 1.2 * peaks[0]
    assert peaks[1] < 2e6


def test_the_command_writes_piece_by_piece(tmp_path, monkeypatch):
    monkeypatch.setattr("simulator.traces.importers.mahimahi.BLOCK_LINES", 7)
    pieces = list(Opportunities(bundled("tunnel"), "uplink").blocks())
    assert max(piece.count("\n") for piece in pieces) == 7
    whole = to_mahimahi(bundled("tunnel"), "uplink")
    monkeypatch.undo()
    assert "".join(pieces) == whole == to_mahimahi(bundled("tunnel"), "uplink")
    monkeypatch.setattr("ivsim.commands.trace.Opportunities.blocks", lambda _: iter(pieces))
    result = CliRunner().invoke(app, ["export", "tunnel", "--output", str(tmp_path / "t.up")])
    assert result.output.endswith(f": {len(whole.splitlines())} delivery opportunities in 120 s (uplink)\n")
    assert (tmp_path / "t.up").read_text() == whole
