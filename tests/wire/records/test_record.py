"""Tests records in batches: Kafka's own bytes, all shapes of records, and bytes that are wrong."""

import tracemalloc

import pytest
from hypothesis import given, strategies as st

from groupsdk.errors import DecodeError, EncodeError
from groupsdk.wire.records.batch import (
    CRC_START,
    HEADER_SIZE,
    CorruptBatchError,
    batches,
    read_header,
    verify,
)
from groupsdk.wire.records.compression import compress
from groupsdk.wire.records.record import (
    EncodedPairs,
    Record,
    build_batch,
    build_empty,
    build_pairs,
    read_records,
)
from tests.support.cases import each_case
from tests.wire.records.vectors import OFFSET_KEY, TOMBSTONE, TRANSACTIONAL, resealed


DATA = (Record(10, 1000, b"k", b"v"), Record(11, 1001, b"k2", b""))


def test_a_tombstone_is_written_as_kafka_writes_it() -> None:
    assert build_batch([Record(0, 1000, OFFSET_KEY, None)]) == TOMBSTONE
    assert build_pairs([(OFFSET_KEY, None)], 1000)[1] == TOMBSTONE


def test_transactional_records_are_written_as_kafka_writes_them() -> None:
    assert build_batch(DATA, 10, 3, 5, 1, 0, transactional=True) == TRANSACTIONAL


def test_kafkas_records_are_read() -> None:
    assert list(read_records(TOMBSTONE)) == [Record(0, 1000, OFFSET_KEY, None)]
    assert tuple(read_records(TRANSACTIONAL)) == DATA
    assert tuple(read_records(memoryview(TOMBSTONE + TRANSACTIONAL), len(TOMBSTONE))) == DATA


optional_bytes = st.none() | st.binary(max_size=20) | st.just(b"x" * 5000)
headers = st.lists(
    st.tuples(st.text(st.characters(exclude_categories=["Cs"]), max_size=9), optional_bytes),
    max_size=3,
).map(tuple)


@st.composite
def record_lists(draw: st.DrawFn) -> tuple[int, list[Record]]:
    """A base offset, and records above it with gaps between them."""
    base = draw(st.integers(0, 2**40))
    offset = base
    found = []
    for gap in draw(st.lists(st.sampled_from([0, 1, 70, 9000, 2**20]), max_size=5)):
        offset += gap
        timestamp = draw(st.integers(-1, 2**45))
        found.append(
            Record(offset, timestamp, draw(optional_bytes), draw(optional_bytes), draw(headers))
        )
        offset += 1
    return base, found


@given(record_lists(), st.integers(0, 4))
def test_written_batch_is_read_back(given_records: tuple[int, list[Record]], codec: int) -> None:
    base, records = given_records

    batch = build_batch(records, base, 7, 8, 9, 10, compression=codec)

    header = read_header(batch)
    verify(batch, header)
    assert list(read_records(batch)) == records
    assert header.size_in_bytes == len(batch)
    assert header.compression == codec
    assert header.records_count == len(records)
    assert header.last_offset == (records[-1].offset if records else base)
    assert header.max_timestamp == max((each.timestamp for each in records), default=-1)
    assert (header.partition_leader_epoch, header.producer_id) == (7, 8)
    assert (header.producer_epoch, header.base_sequence) == (9, 10)


@given(
    st.lists(st.tuples(optional_bytes, optional_bytes), max_size=70),
    st.integers(0, 2**45),
    st.booleans(),
)
def test_pairs_are_written_as_records_are(
    pairs: list[tuple[bytes | None, bytes | None]], timestamp: int, transactional: bool
) -> None:
    header, fast = build_pairs(pairs, timestamp, 5, 2, 3, 4, 0, transactional=transactional)
    assert header == read_header(fast)

    records = [Record(5 + at, timestamp, *pair) for at, pair in enumerate(pairs)]
    plain = build_batch(records, 5, 2, 3, 4, 0, transactional=transactional)
    if pairs:
        assert fast == plain
    else:
        # without a record there is no time, where a batch of pairs has been given one
        assert read_header(fast).records_count == 0


@each_case("count", [7, 8, 100, 1_025])
@each_case(("key_size", "value_size"), [(0, 0), (63, 64), (40, 9_000)])
@each_case("odd", [None, (b"", b""), (b"k", None), (None, b"v"), (None, None)])
def test_pairs_of_one_size_are_written_as_records_are(
    count: int, key_size: int, value_size: int, odd: tuple[bytes | None, bytes | None] | None
) -> None:
    pairs = [(bytes([n % 256]) * key_size, bytes([n % 255]) * value_size) for n in range(count)]
    mixed = pairs if odd is None else [*pairs[:5], odd, *pairs[6:]]

    _, built = build_pairs(mixed, 1, base_sequence=0)

    assert built == build_batch(
        [Record(n, 1, *pair) for n, pair in enumerate(mixed)], base_sequence=0
    )


def test_many_pairs_are_written_as_records_are() -> None:
    # deltas beyond the table of small numbers
    pairs = [(b"k", b"v")] * 3000

    assert build_pairs(pairs, 1)[1] == build_batch([Record(n, 1, b"k", b"v") for n in range(3000)])


@given(st.lists(st.integers(0, 900), max_size=4), st.integers(0, 4))
def test_pairs_encoded_as_they_are_added_are_written_as_others(
    sizes: list[int], codec: int
) -> None:
    encoded = EncodedPairs()
    for size in sizes[1:]:
        encoded.add([(b"k", None if n % 3 else b"v" * n) for n in range(size)])
    more = [(b"k", b"v")] * sum(sizes[:1])
    whole = encoded.followed_by(more)

    assert whole == [*encoded, *more]
    for each in (encoded, whole):
        assert build_pairs(each, 1, compression=codec) == build_pairs(
            list(each), 1, compression=codec
        )


def test_the_time_of_the_log_is_that_of_all_records() -> None:
    batch = build_batch(DATA, 10, timestamp_type=1, max_timestamp=5000)

    assert read_header(batch).timestamp_type == 1
    assert [each.timestamp for each in read_records(batch)] == [5000, 5000]


def test_a_delete_horizon_takes_the_place_of_the_base_timestamp() -> None:
    batch = build_batch(DATA, 10, delete_horizon_ms=3_000_000)

    header = read_header(batch)
    assert header.has_delete_horizon
    assert header.base_timestamp == 3_000_000
    assert tuple(read_records(batch)) == DATA


def test_a_compacted_batch_keeps_its_last_offset() -> None:
    batch = build_batch(DATA[:1], 10, last_offset=11)

    assert read_header(batch).last_offset == 11
    assert tuple(read_records(batch)) == DATA[:1]


def test_an_empty_batch_keeps_its_header() -> None:
    header = read_header(TRANSACTIONAL)

    empty = build_empty(header)

    left = read_header(empty)
    verify(empty, left)
    assert len(empty) == HEADER_SIZE
    assert left.records_count == 0
    assert left._replace(batch_length=0, crc=0, base_timestamp=0, records_count=0) == (
        header._replace(batch_length=0, crc=0, base_timestamp=0, records_count=0)
    )
    assert list(read_records(empty)) == []


def test_offsets_have_to_ascend() -> None:
    with pytest.raises(EncodeError, match="the record offset 10 comes after 11"):
        build_batch(DATA[::-1], 10)
    with pytest.raises(EncodeError, match="the record offset 10 comes after 10"):
        build_batch(DATA, 11)
    with pytest.raises(EncodeError, match="the last offset 10 is below that of a record, 11"):
        build_batch(DATA, 10, last_offset=10)


@pytest.mark.parametrize("offset", [-(2**63) - 1, 2**63])
def test_numbers_that_do_not_fit_are_refused(offset: int) -> None:
    with pytest.raises(EncodeError, match="cannot be written"):
        build_batch((), offset)
    with pytest.raises(EncodeError, match="cannot be written"):
        build_pairs((), 1, offset)


def test_a_header_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(EncodeError, match="the name of a record's header"):
        build_batch([Record(0, 1, None, None, (("\ud800", b""),))])


def records_of(*body: str, count: int = 1, last_delta: int = 0) -> bytes:
    """Builds a batch around records as they stand, right or wrong."""
    plain = bytes.fromhex("".join(body))
    batch = bytearray(build_batch((), 0, last_offset=last_delta))
    batch[57:61] = count.to_bytes(4)
    batch[8:12] = (49 + len(plain)).to_bytes(4)
    return resealed(batch + plain)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (("0c", "00000001010000"), "1 bytes are left over behind the last of 1 records"),
        (("0e", "00000001010000"), "a record that should end at byte 8 of 8 ends at 7"),
        (("10", "00000001010000"), "a record at byte 1 of 8 runs over the end"),
        (("0b", "000000010100"), "a record at byte 1 of 7 runs over the end"),
        (("0c", "000002010100"), "a record's offset delta is not within 0 to 0"),
        (("0c", "000001010100"), "a record's offset delta is not within 0 to 0"),
        (("0c", "000000030100"), "invalid length -2"),
        (("0c", "000000010300"), "invalid length -2"),
        (("0c", "000000010d00"), "invalid length -7"),
        (("0c", "000000010101"), "a record counts None headers where 0 bytes are left"),
        (("0c", "00000001017e"), "a record counts 63 headers where 0 bytes are left"),
        (("10", "0000000101020161"), "a header's name runs over"),
        (("10", "0000000101020861"), "a header's name runs over"),
        (("10", "0000000101020008"), "a header's value runs over"),
        (("10", "0000000101020003"), "invalid length -2"),
        (("0c", "0000000a0100"), "end within a record"),
        (("1c", "00ffffffffffffffffffff010000"), "has more than 64 bits"),
        (("1e", "00ffffffffffffffffff7f00010100"), "has more than 64 bits"),
        (("0c", "0000000101"), "1 records where 6 bytes are left"),
    ],
)
def test_records_that_are_wrong_are_refused(body: tuple[str, ...], problem: str) -> None:
    batch = records_of(*body)

    verify(batch, read_header(batch))
    with pytest.raises(CorruptBatchError, match=problem):
        list(read_records(batch))


def test_a_count_beyond_the_bytes_is_refused_at_once() -> None:
    with pytest.raises(CorruptBatchError, match="2147483647 records where 7 bytes are left"):
        read_records(records_of("0c", "000000010100", count=2**31 - 1))


def test_a_batch_that_is_not_there_as_a_whole_is_refused() -> None:
    with pytest.raises(DecodeError, match="takes 80 bytes, of which 79 are there"):
        read_records(TOMBSTONE[:-1])


def test_a_bomb_is_not_unpacked() -> None:
    for codec in (1, 2, 3, 4):
        batch = build_batch([Record(0, 1, None, bytes(1_000_000))], compression=codec)
        assert len(batch) < 50_000
        with pytest.raises(CorruptBatchError, match="more than 999999 bytes, the limit"):
            read_records(batch, max_bytes=999_999)


@given(st.data(), st.sampled_from(range(5)))
def test_a_batch_that_is_cut_or_changed_raises_nothing_else(
    data: st.DataObject, codec: int
) -> None:
    records = [Record(at, 100 * at, b"k" * at, b"v" * 90, (("h", None),)) for at in range(4)]
    batch = bytearray(build_batch(records, compression=codec))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(batch) - 1))
        batch[at] ^= 1 << data.draw(st.integers(0, 7))
    cut = bytes(batch[: data.draw(st.integers(0, len(batch)) | st.just(len(batch)))])
    try:
        for header, position in batches(cut):
            list(read_records(cut, position))
            verify(cut, header, position)
            # CRC-32C finds every change of up to three bits in so few bytes
            assert cut[CRC_START:] == build_batch(records, compression=codec)[CRC_START:]
    except DecodeError:
        pass


@given(st.binary(max_size=200))
def test_records_of_any_bytes_raise_nothing_else(body: bytes) -> None:
    try:
        records = list(read_records(records_of(body.hex(), last_delta=2**31 - 1)))
        assert len(records) == 1
    except CorruptBatchError:
        pass


def test_a_timestamp_far_from_the_first_is_refused() -> None:
    with pytest.raises(EncodeError, match="does not fit 64 bits"):
        build_batch([Record(0, 2**62, None, None), Record(1, -(2**63), None, None)])


def test_a_few_bytes_never_become_millions_of_records_at_once() -> None:
    count = 20_000
    plain = bytes.fromhex("0c 00 00 00 01 01 00") * count
    body = compress(4, plain)
    batch = bytearray(build_batch((), 0))
    batch[57:61] = count.to_bytes(4)
    batch[21:23] = b"\0\4"
    batch[8:12] = (49 + len(body)).to_bytes(4)
    batch += body
    assert len(batch) < 1000
    tracemalloc.start()
    try:
        assert sum(1 for _ in read_records(batch)) == count
        # the output, its growth and its copy; a list of the records would take fifteen times as much
        assert tracemalloc.get_traced_memory()[1] < 5 * len(plain)
    finally:
        tracemalloc.stop()
