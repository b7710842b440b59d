"""Producer snapshots are Kafka's, and damaged ones are refused."""

import pytest
from hypothesis import given, strategies as st

from groupsdk.broker.log.producer_snapshots import CorruptSnapshotError, decode, encode
from groupsdk.broker.log.producer_state import BatchMetadata, ProducerEntry


ENTRIES = (
    ProducerEntry(7, 3, 4, 1000, 20, (BatchMetadata(4, 10, 1, 900), BatchMetadata(5, 21, 0, 1000))),
    ProducerEntry(8, 0, -1, 5),
)


def values(entry: ProducerEntry) -> tuple[object, ...]:
    return (
        *(entry.producer_id, entry.epoch, entry.coordinator_epoch, entry.last_timestamp),
        *(entry.txn_first_offset, entry.batches[-1:]),
    )


def test_a_snapshot_keeps_the_last_batch_of_each_producer() -> None:
    data = encode(ENTRIES)
    assert data[:2] == b"\0\1"
    assert data[6:10] == b"\0\0\0\2"
    assert data[10:].hex() == (
        "0000000000000007"
        "0003"
        "00000005"
        "0000000000000015"
        "00000000"
        "00000000000003e8"
        "00000004"
        "0000000000000014"
        "0000000000000008"
        "0000"
        "ffffffff"
        "ffffffffffffffff"
        "00000000"
        "0000000000000005"
        "ffffffff"
        "ffffffffffffffff"
    )
    assert [values(each) for each in decode(data)] == [values(each) for each in ENTRIES]
    assert decode(encode(())) == []


def test_every_flipped_bit_is_found() -> None:
    data = encode(ENTRIES)
    for position in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            with pytest.raises(CorruptSnapshotError):
                decode(bytes(damaged))


@given(st.binary(max_size=100))
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptSnapshotError):
        decode(data)
