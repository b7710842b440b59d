"""Tests that records are walked over as they are read, and that wrong ones are found."""

import pytest
from hypothesis import given, strategies as st

from groupsdk.errors import DecodeError
from groupsdk.wire.records.batch import CorruptBatchError, read_header
from groupsdk.wire.records.headers import MAX_HEADERS
from groupsdk.wire.records.record import Record, build_batch, read_records
from groupsdk.wire.records.record_check import (
    STEP_RECORDS,
    IncompleteBatchError,
    Walked,
    body_of,
    walk,
)
from groupsdk.wire.records.varint import varint
from tests.broker.log.bad_batches import record, with_body


optional_bytes = st.none() | st.binary(max_size=20) | st.just(b"x" * 5000)
headers = st.lists(st.tuples(st.text(max_size=9), optional_bytes), max_size=3).map(tuple)
made = st.lists(
    st.tuples(st.integers(-(2**40), 2**40), optional_bytes, optional_bytes, headers), max_size=5
)


def walked(data: bytes) -> Walked:
    header = read_header(data)
    *_, found = walk(body_of(data, header), header)
    assert found is not None
    return found


@given(made, st.integers(0, 4), st.integers(1, 3))
def test_good_records_pass(
    parts: list[tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]],
    codec: int,
    times: int,
) -> None:
    parts = [(0, b"k", b"v", ()), *parts] * times
    records = [Record(n, 10**12 + each[0], *each[1:]) for n, each in enumerate(parts)]

    found = walked(build_batch(records, compression=codec))

    stamps = [each.timestamp for each in records]
    assert found.latest == max(stamps)
    assert min(stamps) >= found.earliest >= min(*stamps, records[0].timestamp)
    assert found.keyless == any(each.key is None for each in records)


def test_times_that_all_go_back_have_a_latest() -> None:
    body = record(0, time=-5) + record(1, time=-9) + record(2, time=-7)
    assert walked(with_body(body, 3, 1_000)) == Walked(991, 995, keyless=False)


@given(st.data())
def test_one_wrong_byte_never_gets_further_than_with_the_reader(data: st.DataObject) -> None:
    parts = [Record(n, 5 + n, b"key", b"v" * 70, (("h", b"1"),)) for n in range(70)]
    batch = bytearray(build_batch(parts))
    position = data.draw(st.integers(61, len(batch) - 1))
    batch[position] ^= data.draw(st.integers(1, 255))

    try:
        offsets = [each.offset for each in read_records(bytes(batch))]
    except CorruptBatchError:
        offsets = []
    if offsets == list(range(70)):
        walked(bytes(batch))
    else:
        # the reader does not mind gaps between offsets
        with pytest.raises(IncompleteBatchError):
            walked(bytes(batch))


def test_others_have_their_turn() -> None:
    count = 3 * STEP_RECORDS
    data = with_body(b"".join(record(n) for n in range(count)), count, 1_000)
    header = read_header(data)
    assert [each is None for each in walk(body_of(data, header), header)] == [True, True, False]


def test_headers_are_bounded_and_checked() -> None:
    def of(found: bytes) -> bytes:
        return with_body(record(0, headers=found), 1, 1_000)

    walked(of(varint(2) + b"\x02\xff\x01" + b"\x00\x02v"))
    walked(of(varint(MAX_HEADERS) + b"\0\1" * MAX_HEADERS))
    for wrong, problem in {
        varint(MAX_HEADERS + 1) + b"\0\1" * (MAX_HEADERS + 1): f"{MAX_HEADERS} are allowed",
        varint(-1): "counts None headers",
        varint(9): "9 headers where 0 bytes",
        varint(1) + b"\1\1": "a header's name",
        varint(1) + b"\x08\1": "a header's name",
        varint(1) + b"\0\x08": "a header's value",
        varint(1) + b"\0\x05": "invalid length -3",
    }.items():
        with pytest.raises(IncompleteBatchError, match=problem):
            walked(of(wrong))


def test_record_that_cannot_be_decompressed_is_refused() -> None:
    data = bytearray(with_body(record(0), 1, 1_000))
    data[22] |= 2
    header = read_header(data)
    with pytest.raises(DecodeError, match="Snappy"):
        body_of(data, header)
    packed = with_body(record(0, value=b"x" * 10_000), 1, 1_000, 3)
    with pytest.raises(DecodeError, match="more than 9999 bytes"):
        body_of(packed, read_header(packed), max_bytes=9_999)
