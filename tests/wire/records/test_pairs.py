"""Tests the fast way through a coordinator's batches against the one that reads everything."""

from itertools import chain

import pytest
from hypothesis import given, strategies as st

from groupsdk.errors import DecodeError
from groupsdk.wire.records.batch import HEADER_SIZE, read_header
from groupsdk.wire.records.pairs import Pair, read_pairs
from groupsdk.wire.records.record import Record, build_batch, build_pairs, read_records


def slowly(batch: bytes, position: int = 0) -> list[Pair]:
    """What there is to read, record by record."""
    return [(each.key or b"", each.value) for each in read_records(batch, position)]


def fast(batch: bytes, position: int = 0) -> list[Pair]:
    return list(chain.from_iterable(read_pairs(batch, read_header(batch, position), position)))


contents = st.binary(max_size=70) | st.sampled_from([b"x" * 63, b"x" * 64, b"x" * 4_000])


@given(st.lists(st.tuples(contents, st.none() | contents), min_size=1, max_size=70))
def test_pairs_written_by_a_coordinator_are_read(pairs: list[Pair]) -> None:
    _, before = build_pairs([(b"before", None)], 1_000)
    batch = before + build_pairs(pairs, 1_000, 7)[1] + before
    assert fast(batch, len(before)) == pairs
    assert slowly(batch, len(before)) == pairs


def test_long_batch_is_read_in_parts() -> None:
    pairs: list[Pair] = [(b"k-%d" % n, b"v") for n in range(20_000)]
    batch = build_pairs(pairs, 1_000)[1]
    parts = list(read_pairs(batch, read_header(batch)))
    assert max(map(len, parts)) == 250
    assert list(chain.from_iterable(parts)) == pairs


@pytest.mark.parametrize(
    "batch",
    [
        build_batch([Record(0, 1_000, None, b"v")]),
        build_batch([Record(0, 1_000, b"k", b"v", (("h", None),))]),
        build_batch([Record(0, 1_000, b"k", b"v"), Record(1, 1_064, b"k", b"v")]),
        build_batch([Record(0, 1_000, b"k", b"v" * 8_192)]),
        build_batch([Record(0, 1_000, b"k" * 8_192, b"v")]),
        build_batch([Record(1 << 20, 1_000, b"k", b"v")]),
        build_batch([Record(0, 1_000, b"k", b"v" * 100)], compression=1),
        build_batch([Record(0, 1_000, b"k", b"v")])[:-1],
    ],
    ids=["no key", "header", "time", "value", "key", "offset", "compressed", "cut"],
)
def test_batch_of_another_form_is_left_to_the_general_reader(batch: bytes) -> None:
    assert fast(batch) == []


@given(
    st.integers(0, 500).flatmap(
        lambda more: st.lists(
            st.tuples(contents, st.none() | contents), min_size=1, max_size=3
        ).map(lambda pairs: [(b"k", b"v")] * more + pairs)
    ),
    st.data(),
)
def test_damage_is_never_read_otherwise(pairs: list[Pair], data: st.DataObject) -> None:
    batch = bytearray(build_pairs(pairs, 1_000)[1] * 2)
    size = len(batch) // 2
    for _ in range(data.draw(st.integers(1, 3))):
        batch[data.draw(st.integers(HEADER_SIZE, size - 1))] = data.draw(st.integers(0, 255))
    found = fast(bytes(batch))
    expected: list[Pair] = []
    is_whole = True
    try:
        for each in read_records(bytes(batch)):
            expected.append((each.key or b"", each.value))  # noqa: PERF401 - up to the damage
    except DecodeError:
        is_whole = False
    assert found == expected[: len(found)]
    assert is_whole or len(found) < len(pairs)
