"""CSV and Parquet of our schema: what is written reads back, what is bad names its line."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import Refusal
from simulator.traces import Trace, read_trace, to_csv, write_trace

rates = st.floats(0, 1e7, allow_nan=False)


@given(st.lists(st.tuples(rates, st.floats(0, 1)), min_size=1, max_size=20), st.floats(0.001, 100))
def test_csv_reads_back_equal(tmp_path_factory, rows, last_step_s):
    columns = np.array(rows).T
    trace = Trace(
        np.arange(len(rows)) * 1.5,
        uplink_kbps=columns[0],
        loss_ratio=columns[1],
        header={"origin": "here", "licence": "CC0-1.0", "rate_meaning": "capacity"},
        last_step_s=last_step_s,
    )
    path = tmp_path_factory.mktemp("trace") / "t.csv"
    write_trace(trace, path)
    again = read_trace(path)
    assert to_csv(again) == to_csv(trace)
    assert again.header == trace.header
    assert again.last_step_s == last_step_s


def test_parquet_carries_the_same_header(tmp_path):
    trace = Trace(
        np.array([0.0, 3.0]), rtt_ms=np.array([1.5, 2.5]), header={"origin": "é, here"}, last_step_s=3
    )
    write_trace(trace, tmp_path / "t.parquet")
    again = read_trace(tmp_path / "t.parquet")
    assert to_csv(again) == to_csv(trace)
    assert again.duration_s == 6


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_places_read_back_equal(tmp_path, name):
    places = {"latitude_deg": np.array([-33.857, 0.1]), "longitude_deg": np.array([151.215, -180.0])}
    trace = Trace(np.arange(2.0), uplink_kbps=np.array([9.0, 0.0]), **places)
    write_trace(trace, tmp_path / name)
    again = read_trace(tmp_path / name)
    assert to_csv(again) == to_csv(trace)
    assert {key: values.tolist() for key, values in again.places().items()} == {
        key: values.tolist() for key, values in places.items()
    }


def test_a_plain_table_without_header_will_do(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("time_s,uplink_kbps\n0,1\n2,0\n")
    trace = read_trace(path)
    assert trace.duration_s == 4
    assert trace.step_at(3).uplink_kbps == 0


@pytest.mark.parametrize(
    ("text", "where", "reason"),
    [
        ("", "t.csv:", "the file is empty"),
        ("  \n\n", "t.csv:", "the file is empty"),
        ("time_s,uplink_kbps\n", "t.csv:", "no data rows"),
        ("# origin: x\n", "t.csv:", "no line with the column names"),
        ("time_s,uplink_kbps\n0,1\n1,nan\n", "t.csv:3:", "uplink_kbps is 'nan', must be a finite number"),
        ("time_s,uplink_kbps\n0,1\n1,inf\n", "t.csv:3:", "must be a finite number"),
        ("time_s,uplink_kbps\n0,1\n1,\n", "t.csv:3:", "uplink_kbps is '', must be a finite number"),
        ("time_s,uplink_kbps\n0,1\n1,1_000\n", "t.csv:3:", "must be a finite number"),
        ("# a: b\ntime_s,uplink_kbps\n0,1\n1,-5\n", "t.csv:4:", "uplink_kbps is -5, must be 0 to 1e\\+07"),
        ("time_s,uplink_kbps\n0,5e9\n", "t.csv:2:", "unit: kbps"),
        ("time_s,loss_ratio\n0,1\n1,1.01\n", "t.csv:3:", "loss_ratio is 1.01, must be 0 to 1"),
        ("time_s,rtt_ms,latitude_deg\n0,1,5\n", "t.csv:", "latitude_deg without longitude_deg"),
        ("time_s,latitude_deg,longitude_deg\n0,1,5\n", "t.csv:1:", "at least one of uplink_kbps"),
        (
            "time_s,rtt_ms,latitude_deg,longitude_deg\n0,1,9,9\n1,1,9,181\n",
            "t.csv:3:",
            "longitude_deg is 181, must be -180 to 180",
        ),
        ("time_s,rtt_ms\n0,1\n5,1\n4,1\n", "t.csv:4:", "time_s goes from 5 to 4"),
        ("time_s,rtt_ms\n0,1\n1,1,1\n", "t.csv:3:", "3 fields, must be 2"),
        ("time_s,uplink_mbps\n0,1\n", "t.csv:1:", "column 'uplink_mbps', allowed: time_s, uplink_kbps"),
        ("time_s,rtt_ms,rtt_ms\n0,1,1\n", "t.csv:1:", "'rtt_ms', twice"),
        ("uplink_kbps,time_s\n0,1\n", "t.csv:1:", "time_s first"),
        ("# ivsim_trace: 2\ntime_s,rtt_ms\n0,1\n", "t.csv:", "ivsim_trace '2', must be '1'"),
        ("# rate_meaning: guessed\ntime_s,rtt_ms\n0,1\n", "t.csv:", "must be one of capacity, as_logged"),
        ("# no colon\ntime_s,rtt_ms\n0,1\n", "t.csv:1:", "must read `# key: value`"),
        ("# a: 1\n# a: 2\ntime_s,rtt_ms\n0,1\n", "t.csv:2:", "occurs twice"),
        ("# last_step_s: 0\ntime_s,rtt_ms\n0,1\n", "t.csv:", "must be above 0"),
        (
            "version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 1234\n",
            "t.csv:1:",
            "a Git LFS pointer, not the data",
        ),
    ],
)
def test_bad_csv_names_file_and_line(tmp_path, text, where, reason):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(Refusal, match=reason) as refusal:
        read_trace(path)
    assert f"{path.parent}/{where}" in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("raw", "reason"), [(b"\x00\x01", "binary data"), (b"time_s,rtt_ms\n0,\xff\n", "t.csv:2: not UTF-8")]
)
def test_bytes_that_are_no_text(tmp_path, raw, reason):
    path = tmp_path / "t.csv"
    path.write_bytes(raw)
    with pytest.raises(Refusal, match=reason):
        read_trace(path)


def test_missing_file(tmp_path):
    with pytest.raises(Refusal, match=r"none\.csv: cannot be read"):
        read_trace(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"time_s": [0.0, 1.0], "uplink_kbps": [1.0, None]}, "data row 2: uplink_kbps is nan"),
        ({"time_s": [0.0], "uplink_kbps": ["1"]}, "is string, must be a number"),
        ({"time_s": [0.0], "speed": [1.0]}, "column 'speed', allowed"),
        ({"time_s": [], "rtt_ms": []}, "must be a number|no data rows"),
    ],
)
def test_bad_parquet(tmp_path, columns, reason):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table(columns), path)
    with pytest.raises(Refusal, match=reason):
        read_trace(path)


def test_parquet_in_name_only(tmp_path):
    path = tmp_path / "t.parquet"
    path.write_text("time_s,rtt_ms\n0,1\n")
    with pytest.raises(Refusal, match="cannot be read as Parquet"):
        read_trace(path)


# What other writers leave in a Parquet file's metadata.
SPARK = {
    b"org.apache.spark.version": b"4.0.1",
    b"org.apache.spark.sql.parquet.row.metadata": b'{"type":"struct"}',
}
FOREIGN = {
    "spark": SPARK,
    "r": {b"r": b"A\n3\n263169\n197888\n5\nUTF-8\n531\n1\n"},
    "geopandas": {b"geo": b'{"primary_column": "geometry"}', b"pandas": b'{"index_columns": []}'},
    "not UTF-8": {b"writer": b"\xff\xfe", b"\xff": b"1"},
    "lines": {b"creator": b"a\nb", b"note": b"a\nb", b"policy": b"\xff"},
    "words": {
        b"seed": b"42",
        b"command": b"Rscript x.R",
        b"policy": b"mine",
        b"note": b"n",
        b"profile_x": b"p",
    },
}
# Keys that a reader obeys, with values that are not ours.
OTHERS = {
    "meaning": {b"rate_meaning": b"guess", b"origin": b"elsewhere", b"licence": b"theirs"},
    "layer": {b"rate_layer": b"\xff", b"rate_layer_uplink_kbps": b"7"},
    "last step": {b"last_step_s": b"abc"},
    "last step of none": {b"last_step_s": b"0.0"},
    "words of ours for others": {b"rate_meaning": b"ethernet", b"rate_layer": b"capacity"},
}


def foreign_parquet(path, metadata):
    table = pa.table({"time_s": [0.0, 1.0], "uplink_kbps": [5.0, 0.0]}).replace_schema_metadata(metadata)
    pq.write_table(table, path)
    return path


@pytest.mark.parametrize("writer", FOREIGN | OTHERS)
def test_metadata_of_other_writers_are_no_header_of_ours(tmp_path, writer):
    trace = read_trace(foreign_parquet(tmp_path / "t.parquet", (FOREIGN | OTHERS)[writer]))
    assert trace.header == {}
    assert trace.last_step_s == 1
    for name in ("again.csv", "again.parquet"):
        write_trace(trace, tmp_path / name)
        assert to_csv(read_trace(tmp_path / name)) == to_csv(trace)


@pytest.mark.parametrize("writer", FOREIGN)
@pytest.mark.parametrize("versioned", [True, False])
def test_our_metadata_among_those_of_others_are_read(tmp_path, writer, versioned):
    ours = {b"rate_meaning": b"capacity", b"last_step_s": b"3", b"origin": "é".encode()}
    ours |= {b"ivsim_trace": b"1", b"kept_words": b"D"} if versioned else {}
    trace = read_trace(foreign_parquet(tmp_path / "t.parquet", FOREIGN[writer] | ours))
    assert trace.header["rate_meaning"] == "capacity"
    assert trace.header["origin"] == "é"
    assert trace.last_step_s == 3
    ours_too = {"seed", "command", "policy", "note", "profile_x"} if versioned else set()
    assert set(trace.header) <= {"rate_meaning", "origin", "kept_words"} | ours_too
    assert to_csv(trace)


def test_a_key_of_anybodys_in_a_file_of_ours_comes_back(tmp_path):
    trace = Trace(np.array([0.0]), rtt_ms=np.array([1.0]), header={"drive": "north"})
    write_trace(trace, tmp_path / "t.parquet")
    assert read_trace(tmp_path / "t.parquet").header == {"drive": "north"}


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({b"rate_meaning": b"guess"}, "rate_meaning 'guess', must be one of capacity, as_logged, offered"),
        ({b"rate_layer": b"\xff"}, "metadata rate_layer: not UTF-8 text"),
        ({b"ivsim_trace": b"9"}, "ivsim_trace '9', must be '1'"),
        ({b"last_step_s": b"x"}, "last_step_s is 'x'"),
    ],
)
def test_our_metadata_are_checked(tmp_path, metadata, reason):
    with pytest.raises(Refusal, match=reason):
        read_trace(foreign_parquet(tmp_path / "t.parquet", {b"ivsim_trace": b"1"} | metadata))


def test_what_a_reader_obeys_is_taken_without_our_version(tmp_path):
    said = {b"rate_layer": b"ip", b"last_step_s": b"2.5", b"origin": b"elsewhere"}
    trace = read_trace(foreign_parquet(tmp_path / "t.parquet", said))
    assert trace.header == {"rate_layer": "ip"}
    assert trace.last_step_s == 2.5


def test_decimals_are_numbers(tmp_path):
    """Spark's and SQL's tables have them."""
    path = tmp_path / "t.parquet"
    rates = pa.array([Decimal("1.50"), Decimal("2.25")], pa.decimal128(18, 2))
    pq.write_table(pa.table({"time_s": pa.array([0, 1], pa.decimal256(40, 0)), "uplink_kbps": rates}), path)
    assert read_trace(path).uplink_kbps.tolist() == [1.5, 2.25]
    pq.write_table(pa.table({"time_s": [0, 1], "uplink_kbps": pa.array([Decimal(1), None])}), path)
    with pytest.raises(Refusal, match="data row 2: uplink_kbps is nan"):
        read_trace(path)
