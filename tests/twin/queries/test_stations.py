"""A file of stations is read as it stands, or refused with file and line."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from schemas.errors import Refusal
from twin.queries.stations import MOST, Station, read_stations

ROOT = Path(__file__).resolve().parents[3]
HEAD = "station,latitude_deg,longitude_deg\n"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "stations.csv"
    path.write_text(text)
    return path


def test_a_file_is_read_in_its_order(tmp_path: Path) -> None:
    path = written(tmp_path, HEAD + "b,58.4,15.6\na-1,-90,180\n")
    found = read_stations(path)
    assert found.every == (Station("b", 58.4, 15.6), Station("a-1", -90.0, 180.0))
    assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_bundled_file_can_be_read() -> None:
    found = read_stations(ROOT / "examples/stations.csv")
    assert len(found.every) == 40
    assert all(58 < one.latitude_deg < 59 and 15 < one.longitude_deg < 16.5 for one in found.every)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "line 1: must be station,latitude_deg,longitude_deg"),
        ("name,lat,lon\na,1,2\n", "line 1: must be station,latitude_deg,longitude_deg"),
        (HEAD, "0 stations: from 1 to 10,000 are allowed"),
        (HEAD + "a,1\n", "line 2: 2 values, not 3"),
        (HEAD + "a,1,2\n\n", "line 3: 0 values, not 3"),
        (HEAD + ",1,2\n", "line 2: station '': 1 to 64 letters"),
        (HEAD + "a b,1,2\n", "line 2: station 'a b'"),
        (HEAD + "a,1,2\na,3,4\n", "line 3: station a is there twice"),
        (HEAD + "a,north,2\n", "line 2: latitude_deg 'north': a number from -90 to 90 is allowed"),
        (HEAD + "a,nan,2\n", "line 2: latitude_deg 'nan'"),
        (HEAD + "a,90.1,2\n", "line 2: latitude_deg '90.1'"),
        (HEAD + "a,1,inf\n", "line 2: longitude_deg 'inf': a number from -180 to 180 is allowed"),
    ],
)
def test_a_bad_file_is_refused_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(Refusal) as refused:
        read_stations(path)
    assert str(refused.value).startswith(f"{path}: {says}")


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="No such file"):
        read_stations(tmp_path / "none.csv")
    path = tmp_path / "binary.csv"
    path.write_bytes(b"station\xff")
    with pytest.raises(Refusal, match="not UTF-8"):
        read_stations(path)
    with pytest.raises(Refusal, match="10001 stations"):
        read_stations(written(tmp_path, HEAD + "".join(f"s{n},1,2\n" for n in range(MOST + 1))))
