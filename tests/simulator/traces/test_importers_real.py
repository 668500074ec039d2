"""Every trap of the recorded drives, on the files that have it."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from schemas.errors import Refusal
from simulator.traces.importers import IMPORTERS, Options, import_trace
from simulator.traces.statistics import autocorrelation, describe, outages

CAR = "raca_4g_lte_2018/car/A_2017.12.04_15.24.12.csv"
GAPPED_CAR = "raca_4g_lte_2018/car/A_2018.01.17_10.01.01.csv"
TRAIN = "raca_4g_lte_2018/train/A_2018.02.02_10.28.45.csv"
BACK_4G = "raca_4g_lte_2018/train/A_2017.11.24_14.34.43__rows1-200_backward_ts.csv"
BACK_5G = "raca_5g_2020/B_2019.11.27_07.29.47__rows850-1000_backward_ts.csv"
UP = Options(direction="uplink")
DOWN = Options(direction="downlink")


# G-NetTrack: 20 and 26 columns, duplicates, a 1.1-s logger, gaps, a clock that steps back.


def test_gnettrack_averages_duplicates_and_holds_a_missing_second(real):
    trace = import_trace(real / CAR)
    assert trace.duration_s == 1541
    assert set(trace.columns()) == {"uplink_kbps", "downlink_kbps"}
    assert (
        trace.header["policy"] == "11 duplicate rows: average; 160 missing steps held (rows up to 2 s apart)"
    )
    # The first second has four rows or so: their mean, not one of them.
    first = [59, 11, 11]
    assert trace.uplink_kbps[0] == pytest.approx(np.mean(first))


def test_gnettrack_rates_are_labelled_as_logged(real):
    assert import_trace(real / CAR).header["rate_meaning"] == "as_logged"


def test_gnettrack_finds_columns_by_name_in_both_layouts(real):
    both = [CAR, "raca_5g_2020/B_2019.12.16_11.49.59.csv"]
    widths = {len((real / name).read_text().split("\n", 1)[0].split(",")) for name in both}
    assert widths == {20, 26}
    options = Options(columns=("uplink_kbps",), gaps="hold")
    for name in both:
        assert list(import_trace(real / name, options=options).columns()) == ["uplink_kbps"]


def test_gnettrack_zero_is_a_value(real):
    assert (import_trace(real / TRAIN, options=Options(gaps="cut")).uplink_kbps == 0).any()


@pytest.mark.parametrize("policy", ["hold", "zero", "cut", "longest"])
def test_gnettrack_gaps_need_a_stated_policy(real, policy):
    with pytest.raises(
        Refusal, match=r"A_2018\.01\.17_10\.01\.01\.csv:119: no data for 3 s .* \(6 gaps, longest 10 s"
    ):
        import_trace(real / GAPPED_CAR)
    trace = import_trace(real / GAPPED_CAR, options=Options(gaps=policy))
    assert f"6 gaps, 22 steps in all: {policy}" in trace.header["policy"]


def test_gnettrack_gap_policies_differ_as_they_say(real):
    held, zero, cut, longest = (
        import_trace(real / GAPPED_CAR, options=Options(gaps=policy))
        for policy in ("hold", "zero", "cut", "longest")
    )
    assert len(held.time_s) == len(zero.time_s) == len(cut.time_s) + 22
    assert np.count_nonzero(zero.uplink_kbps == 0) == np.count_nonzero(cut.uplink_kbps == 0) + 22
    assert len(longest.time_s) < len(cut.time_s)


def test_gnettrack_longer_hold_makes_fewer_gaps(real):
    trace = import_trace(real / GAPPED_CAR, options=Options(hold_s=10))
    assert "gaps" not in trace.header["policy"]


@pytest.mark.parametrize(("name", "line", "by"), [(BACK_4G, 91, 2), (BACK_5G, 69, 1)])
def test_gnettrack_clock_that_steps_back(real, name, line, by):
    with pytest.raises(Refusal, match=rf"{line}: the clock steps back by {by} s"):
        import_trace(real / name)
    trace = import_trace(real / name, options=Options(clock_back="drop", gaps="cut"))
    assert "rows behind a clock that stepped back dropped" in trace.header["policy"]


def test_gnettrack_duplicates_can_be_refused_or_chosen(real):
    with pytest.raises(Refusal, match=r":3: a second row for one step"):
        import_trace(real / CAR, options=Options(duplicates="refuse"))
    assert import_trace(real / CAR, options=Options(duplicates="first")).uplink_kbps[0] == 59
    assert import_trace(real / CAR, options=Options(duplicates="last")).uplink_kbps[0] == 11


def test_gnettrack_network_mode_filter(real):
    options = Options(network_modes=("LTE",), states=("D",), gaps="cut")
    trace = import_trace(
        real / BACK_4G, options=Options(network_modes=("HSPA+",), clock_back="drop", gaps="cut")
    )
    assert trace.header["kept_network_modes"] == "HSPA+"
    assert import_trace(real / CAR, options=options).header["kept_states"] == "D"
    with pytest.raises(Refusal, match=r"no row is left .*\(the file has .*LTE"):
        import_trace(real / CAR, options=Options(network_modes=("5G",)))


def test_gnettrack_missing_pings_are_no_zeros(real):
    name = real / "raca_5g_2020/B_2019.12.16_11.49.59.csv"
    with pytest.raises(Refusal, match=r":21: no data for 14 s .*27 gaps"):
        import_trace(name, options=Options(columns=("rtt_ms",)))


def test_gnettrack_statistics_are_those_of_the_car_row(real):
    files = sorted((real / "raca_4g_lte_2018/car").glob("*.csv"))
    parts = [import_trace(path, options=Options(gaps="cut")).uplink_kbps for path in files]
    pooled = np.concatenate(parts)
    assert len(files) == 7
    assert 150 < np.median(pooled) < 260
    assert 0.85 < np.mean([autocorrelation(part, 1) for part in parts]) < 0.92


# mahimahi


def test_mahimahi_matches_the_table(real):
    trace = import_trace(real / "mahimahi_saturator/ATT-LTE-driving.up")
    own = describe(trace, "uplink_kbps")
    assert trace.duration_s == 1012
    assert trace.header["rate_meaning"] == "capacity"
    assert own.mean == pytest.approx(834, abs=1)
    assert own.quantiles["median"] == 1044
    assert own.quantiles["p95"] == 1188
    assert own.quantiles["max"] == 1296
    assert own.zero_share == pytest.approx(0.0929, abs=1e-4)
    assert [round(value, 2) for value in own.acf] == [0.84, 0.71, 0.52, 0.40]
    holes = outages(trace, "uplink_kbps", 0)
    assert (holes.count, holes.max_s, holes.mean_s) == (11, 77, pytest.approx(8.5, abs=0.1))


def test_mahimahi_first_line_is_not_the_origin(real):
    # ATT-LTE-driving.up begins at 831 ms: the silence before it belongs to the first second.
    path = real / "mahimahi_saturator/ATT-LTE-driving.up"
    assert path.read_text().split("\n", 1)[0] == "831"
    trace = import_trace(path)
    stamps = np.array(path.read_text().split(), dtype=int)
    assert trace.uplink_kbps[0] == 12 * np.count_nonzero(stamps < 1000)


def test_mahimahi_up_and_down_differ_in_length(real):
    folder = real / "mahimahi_saturator"
    assert import_trace(folder / "ATT-LTE-driving.down").duration_s == 786
    assert list(import_trace(folder / "ATT-LTE-driving.down").columns()) == ["downlink_kbps"]


def test_mahimahi_verizon_row(real):
    own = describe(import_trace(real / "mahimahi_saturator/Verizon-LTE-short.up"), "uplink_kbps")
    assert own.mean == pytest.approx(5946, abs=1)
    assert own.quantiles["max"] == 12948
    assert own.acf[0] == pytest.approx(0.75, abs=0.01)


# Interval logs, Sabre, cooked


def test_riiser_uses_the_monotonic_clock_and_any_run_of_spaces(real):
    trace = import_trace(real / "hsdpa_norway_raw_docsample/sample.log")
    assert "  " in (real / "hsdpa_norway_raw_docsample/sample.log").read_text()
    assert list(trace.columns()) == ["downlink_kbps"]
    # 8 x 248,069 bytes in 1,008 ms: the first step lies wholly in it.
    assert trace.downlink_kbps[0] == pytest.approx(8 * 248069 / 1008)
    assert trace.duration_s == 4


def test_ghent_zero_padded_interval(real):
    path = real / "ghent_4g_raw_docsample/sample.log"
    assert path.read_text().split("\n")[2].endswith(" 0999")
    trace = import_trace(path)
    assert trace.downlink_kbps[0] == pytest.approx(8 * 2493100 / 1000)
    assert trace.downlink_kbps[3] == pytest.approx(8 * 1954600 / 1000, rel=0.01)


def test_ghent_drive_knows_where_it_was(real):
    columns = ("downlink_kbps", "latitude_deg", "longitude_deg")
    places = import_trace(
        real / "ghent_4g_raw_docsample/sample.log", options=Options(columns=columns)
    ).places()
    assert 50.9 < places["latitude_deg"].min() <= places["latitude_deg"].max() < 51.2
    assert 3.6 < places["longitude_deg"].min() <= places["longitude_deg"].max() < 3.9


@pytest.mark.parametrize("folder", ["3Glogs", "4Glogs"])
def test_sabre_is_integrated_by_duration(real, folder):
    for path in (real / "sabre_json" / folder).glob("*.json"):
        entries = json.loads(path.read_text())
        trace = import_trace(path)
        total_s = sum(e["duration_ms"] for e in entries) / 1000
        kbit = sum(e["duration_ms"] * e["bandwidth_kbps"] for e in entries) / 1000
        assert trace.duration_s == int(total_s)
        dropped = kbit - trace.downlink_kbps.sum()
        assert 0 <= dropped <= max(e["bandwidth_kbps"] for e in entries)
        assert trace.rtt_ms is None
        assert "constant" in trace.header["note"]


# ping


def test_every_ping_run_imports_and_agrees_with_its_own_statistics_line(real):
    paths = [*(real / "pam2025_ping_cc0").glob("*.out"), *(real / "maine_nuttcp_ping").glob("*ping*.out")]
    assert len(paths) == 26
    for path in paths:
        trace = import_trace(path)
        sent, received = map(
            int, re.search(r"(\d+) packets transmitted, (\d+) received", path.read_text()).groups()
        )
        assert f"{sent} probes" in trace.header["policy"]
        assert f"{sent - received} lost" in trace.header["policy"]
        assert trace.duration_s in {30, 31}
        assert (trace.rtt_ms > 10).all()


def test_ping_duplicate_reply_is_left_out(real):
    trace = import_trace(real / "pam2025_ping_cc0/has_dup__ping_102242676.out")
    assert "1 duplicates left out" in trace.header["policy"]
    assert trace.loss_ratio.max() == 0


def test_ping_total_loss_of_a_second_keeps_the_rtt_before(real):
    trace = import_trace(real / "maine_nuttcp_ping/verizon__ping_111649535.out")
    assert trace.loss_ratio.max() == 1
    assert "silent steps keep the RTT before" in trace.header["policy"]


def test_ping_radio_waking_up_can_be_skipped(real):
    path = real / "maine_nuttcp_ping/verizon__ping_111649535.out"
    whole, rest = import_trace(path), import_trace(path, options=Options(skip_s=3))
    assert rest.duration_s == whole.duration_s - 3
    assert "first 3 s left out" in rest.header["policy"]
    with pytest.raises(Refusal, match="no reply is left after --skip 99"):
        import_trace(path, options=Options(skip_s=99))


# nuttcp and iperf3


@pytest.mark.parametrize("name", ["att__tcp_uplink_112112441", "verizon__tcp_uplink_112111115"])
def test_nuttcp_report_and_its_csv_agree(real, name):
    report, table = (import_trace(real / f"maine_nuttcp_ping/{name}.{kind}") for kind in ("out", "csv"))
    assert np.allclose(report.uplink_kbps, table.uplink_kbps, atol=0.1)
    assert report.header["rate_meaning"] == "as_logged"
    assert "multiples of 64 KiB" in report.header["note"]


def test_nuttcp_time_is_row_number_times_interval(real):
    # Two of the first six lines share a millisecond; the trace still has two rows per second.
    path = real / "maine_nuttcp_ping/att__tcp_uplink_112112441.csv"
    rates = [float(row.split(",")[1]) for row in path.read_text().splitlines()[1:]]
    trace = import_trace(path)
    assert trace.duration_s == len(rates) // 2
    assert trace.uplink_kbps[1] == pytest.approx(500 * (rates[2] + rates[3]), rel=1e-6)


def test_iperf_udp_of_its_sender_is_offered_and_its_summary_is_no_row(real):
    trace = import_trace(real / "maine_nuttcp_ping/att__udp_uplink_114217266.out")
    assert trace.duration_s == 120
    assert trace.header["rate_meaning"] == "offered"
    assert "in all 14100 kbit/s received, 1509 of 152629 datagrams lost" in trace.header["policy"]
    assert trace.uplink_kbps.mean() == pytest.approx(14_200, rel=0.01)  # the sender's summary line


def test_first_row_that_is_backlog_can_be_skipped(real):
    path = real / "maine_nuttcp_ping/att__udp_uplink_114841659.csv"
    whole, rest = import_trace(path), import_trace(path, options=Options(skip_s=1))
    assert np.array_equal(rest.uplink_kbps, whole.uplink_kbps[1:])
    assert "first 1 s left out" in rest.header["note"]


# MTU, NYU and other tables


def test_mtu_both_header_spellings_and_leading_zero_rows(real):
    folder = real / "mtu_cork_uplink/all_interfaces_raw"
    for name, leading in (("Data5G.csv", 25), ("DataLTE.csv", 20), ("DataUMTS.csv", 12)):
        trace = import_trace(folder / name)
        assert trace.header["note"].startswith(f"{leading} leading rows below 0.1 Mbit/s left out")
        assert trace.header["rate_meaning"] == "capacity"
        assert trace.uplink_kbps[0] > 5_000


def test_mtu_matches_the_table(real):
    trace = import_trace(real / "mtu_cork_uplink/all_interfaces_synced/DataLTE.csv")
    own = describe(trace, "uplink_kbps")
    assert own.mean == pytest.approx(28_609, rel=0.01)
    assert own.quantiles["median"] == pytest.approx(31_006, rel=0.02)
    assert own.quantiles["max"] == pytest.approx(48_593, rel=0.001)


def test_mtu_does_not_depend_on_the_locale(real, monkeypatch):
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert import_trace(real / "mtu_cork_uplink/Data5G_110822.csv").duration_s == 2658


def test_mtu_broken_byte_counter_is_no_data(real):
    path = real / "mtu_cork_uplink/Data5G_171221.csv"
    with pytest.raises(Refusal, match=r"Data5G_171221\.csv:548: no data for 5 s"):
        import_trace(path)
    trace = import_trace(path, options=Options(gaps="hold"))
    assert "2 rows with a broken byte counter: no data" in trace.header["note"]
    assert trace.uplink_kbps.max() < 200_000


def test_nyu_unit_of_each_row(real):
    path = real / "nyu_mets/bus62.csv"
    rows = [row.split(",") for row in path.read_text().split()]
    scale = {"Mbits/sec": 1e3, "Kbits/sec": 1.0, "bits/sec": 1e-3}
    assert {unit for _, unit in rows} == set(scale)
    trace = import_trace(path, options=DOWN)
    assert np.allclose(trace.downlink_kbps, [float(value) * scale[unit] for value, unit in rows], atol=1e-6)
    with pytest.raises(Refusal, match="give --direction"):
        import_trace(path)


def test_generic_csv_reads_pcat_uploads_by_column_number(real):
    options = Options(time="1:s", mapping=("uplink_kbps=4:Mbit/s",), rate_meaning="as_logged", hold_s=60)
    trace = import_trace(real / "pcat_dortmund/transmissions_periodic10/t1_1.txt", "csv", options)
    assert trace.uplink_kbps[0] == pytest.approx(4015.57)


def test_generic_csv_reads_a_ping_table_with_iso_times(real):
    options = Options(time="time:iso", mapping=("rtt_ms=rtt_ms:ms",))
    trace = import_trace(real / "maine_nuttcp_ping/att__ping_111653647.csv", "csv", options)
    assert 25 < trace.rtt_ms.min() < trace.rtt_ms.max() < 300


@pytest.mark.parametrize(
    "name",
    [
        "carobd/drive5.csv",
        "nyu_mets/multivariate_BB16.txt",
        "pcat_dortmund/traces/cqi_t1_1.txt",
        "pcat_dortmund/transmissions_periodic10/t1_1.txt",
        "maine_nuttcp_ping/att__ping_111653647.csv",
        "mahimahi_saturator/README.md",
        "pam2025_ping_cc0/LICENSE-CC0.txt",
    ],
)
def test_files_of_no_known_format_are_refused_with_the_choices(real, name):
    with pytest.raises(Refusal, match="no importer recognises it: say which with --from"):
        import_trace(real / name)


def test_every_recorded_file_has_one_verdict(real):
    """No file makes anything but a trace or a refusal of one line that names it."""
    refusals = []
    for path in sorted(path for path in real.rglob("*") if path.is_file()):
        forced = IMPORTERS if path.stat().st_size < 30_000 else ()
        for format_name in ("auto", *forced):
            try:
                trace = import_trace(path, format_name, UP if format_name in {"cooked", "nyu"} else None)
                assert all(np.isfinite(values).all() for values in trace.columns().values())
            except Refusal as refusal:
                refusals.append((path.name, str(refusal)))
    assert all(name in text and "\n" not in text for name, text in refusals)
