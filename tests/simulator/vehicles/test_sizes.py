"""The sizes of the published messages (IFIP Networking 2020): JSON 12,187 B, Protobuf 1,157 B."""

from __future__ import annotations

from collections import defaultdict
from statistics import mean, median

import pytest

from ivsim.study.corpus import MESSAGES as ALL
from ivsim.study.corpus import corpus
from schemas.formats import FORMATS

# A third of what the study measures.
MESSAGES = ALL // 3


@pytest.fixture(scope="module")
def sizes():
    found = defaultdict(lambda: defaultdict(list))
    for k, (variant, status) in enumerate(corpus(MESSAGES)):
        for name in ("json", "protobuf"):
            found[name][variant].append(len(FORMATS[name].encode(status)))
        if k % 36 < 3:  # the official builder takes milliseconds for each new vehicle; the study builds all
            found["flatbuffers"][variant].append(len(FORMATS["flatbuffers"].encode(status)))
    return found


def every(found):
    return [size for of_variant in found.values() for size in of_variant]


@pytest.mark.parametrize(("name", "published"), [("json", 12_187), ("protobuf", 1_157)])
def test_the_mean_is_the_published_one(sizes, name, published):
    found = every(sizes[name])
    assert len(found) == MESSAGES
    assert abs(mean(found) / published - 1.0) < 0.03


def test_flatbuffers_is_about_three_times_protobuf(sizes):
    assert 2.6 < mean(every(sizes["flatbuffers"])) / mean(every(sizes["protobuf"])) < 3.4


def test_two_peaks_and_a_few_small_outliers(sizes):
    found = sizes["json"]
    low, high = median(found["rigid"]), median(found["trailer"] + found["hybrid"])
    assert high - low > 1_500
    valley = sum(abs(size - (low + high) / 2) < 200 for size in every(found))
    assert valley < MESSAGES * 0.01
    outliers = sum(size < 4_000 for size in every(found))
    assert MESSAGES * 0.005 < outliers < MESSAGES * 0.04
