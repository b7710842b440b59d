"""Tests the records of transactional ids, byte for byte."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from groupsdk.broker.coordinator.runtime.contract import LogRecord
from groupsdk.broker.coordinator.transactions.log_records import (
    TransactionRecord,
    by_topic,
    decode,
    transaction_record,
)
from groupsdk.broker.coordinator.transactions.metadata import (
    STORED,
    TransactionMetadata,
    TransactionState as S,
)
from groupsdk.errors import DecodeError
from tests.broker.coordinator.transactions.driving import metadata


def write_metadata(known: TransactionMetadata, version: int) -> LogRecord:
    (pair,) = transaction_record(known, version).encoded()
    return LogRecord(*pair)


def read_metadata(record: LogRecord) -> TransactionMetadata | None:
    (read,) = decode([record])
    assert read.metadata is None or read.metadata.transactional_id == read.transactional_id
    return read.metadata


def golden(state: S = S.ONGOING, **changes: Any) -> TransactionMetadata:
    values = {
        "producer_id": 5,
        "producer_epoch": 1,
        "client_transaction_version": 2,
        "start_ms": 900,
    }
    return metadata(state, **{**values, **changes})


@pytest.mark.parametrize(
    ("known", "version", "value"),
    [
        (
            golden(client_transaction_version=0),
            0,
            "0000000000000000000500010000ea60010000000100017400000002000000000000000200000000000003e80000000000000384",
        ),
        (
            golden(),
            1,
            "0001000000000000000500010000ea60010202740300000000000000020000000000000003e800000000000003840102020002",
        ),
        (
            golden(S.EMPTY),
            2,
            "0001000000000000000500010000ea60000000000000000003e800000000000003840102020002",
        ),
    ],
)
def test_kafkas_own_bytes(known: TransactionMetadata, version: int, value: str) -> None:
    record = write_metadata(known, version)
    assert record.key.hex() == "0000000178"
    assert record.value is not None
    assert record.value.hex() == value
    assert read_metadata(record) == known


def test_the_old_version_has_no_place_for_the_clients() -> None:
    record = write_metadata(golden(), 0)
    assert read_metadata(record) == golden(client_transaction_version=0)


def test_memory_only_values_are_not_written() -> None:
    remembered = golden(last_producer_epoch=0, previous_producer_id=4, next_producer_id=9)
    assert write_metadata(remembered, 2) == write_metadata(golden(), 2)


def test_a_record_holds_what_is_read_of_it() -> None:
    remembered = golden(last_producer_epoch=0, previous_producer_id=4, next_producer_id=9)
    for version in (0, 1, 2):
        record = transaction_record(remembered, version)
        (read,) = decode(record.encoded())
        assert read.metadata == record.metadata, f"transaction.version {version}"


def test_transaction_tombstone_is_encoded_and_decoded() -> None:
    record = TransactionRecord("x", None)
    assert record.encoded() == ((bytes.fromhex("0000000178"), None),)
    assert [*decode(record.encoded())] == [record]


def test_ids_that_a_newer_broker_wrote_are_read() -> None:
    # tags 0 (previous) and 1 (next), before the client's version
    plain = write_metadata(golden(), 2).value
    assert plain is not None
    assert plain.endswith(bytes.fromhex("0102020002"))
    tagged = plain[:-5] + bytes.fromhex("03 0008 0000000000000004 0108 0000000000000009 02020002")
    read = read_metadata(LogRecord(b"\0\0\0\1x", tagged))
    assert read == replace(golden(), previous_producer_id=4, next_producer_id=9)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("", "0001", "too short for the key"),
        ("00000005", "0001", "TransactionLogKey"),
        ("0000000178", "0002" + "00" * 60, "version 2; 0 to 1 are known"),
        ("0000000178", "", "too short for the value"),
        ("0000000178", "0001000000", "TransactionLogValue"),
        # statuses that are never stored
        (
            "0000000178",
            "0001000000000000000500010000ea60060100000000000003e8000000000000038400",
            "status 6",
        ),
        (
            "0000000178",
            "0001000000000000000500010000ea60080100000000000003e8000000000000038400",
            "status 8",
        ),
        (
            "0000000178",
            "0001000000000000000500010000ea60ff0100000000000003e8000000000000038400",
            "status -1",
        ),
    ],
)
def test_damaged_transaction_record_is_refused_with_the_reason(
    key: str, value: str, said: str
) -> None:
    with pytest.raises(DecodeError, match=said):
        read_metadata(LogRecord(bytes.fromhex(key), bytes.fromhex(value)))


def test_unknown_records_are_skipped_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    newer = (bytes.fromhex("0007000178"), b"\0\0")
    known = (bytes.fromhex("0000000178"), None)
    assert [*decode([newer, known])] == [TransactionRecord("x", None)]
    assert "skipping a record of unknown type: its key is 0007000178" in caplog.text


def test_partitions_are_sorted_by_topic() -> None:
    assert [*by_topic([("b", 2), ("a", 1), ("b", 10), ("b", 0)])] == [
        ("a", (1,)),
        ("b", (0, 2, 10)),
    ]


@given(
    st.builds(
        TransactionMetadata,
        transactional_id=st.text(st.characters(codec="utf-8"), max_size=20),
        producer_id=st.integers(-1, 2**63 - 1),
        producer_epoch=st.integers(-1, 2**15 - 1),
        timeout_ms=st.integers(1, 2**31 - 1),
        state=st.sampled_from(sorted(STORED - {S.EMPTY})),
        last_update_ms=st.integers(0, 2**63 - 1),
        partitions=st.frozensets(
            st.tuples(st.text("abc.", min_size=1, max_size=5), st.integers(0, 2**31 - 1))
        ),
        start_ms=st.integers(-1, 2**63 - 1),
        client_transaction_version=st.integers(0, 2),
    )
)
def test_everything_that_is_written_is_read(known: TransactionMetadata) -> None:
    assert read_metadata(write_metadata(known, 2)) == known


@given(st.binary(max_size=60), st.binary(max_size=120) | st.none())
def test_any_bytes_of_a_transaction_record_are_read_or_refused(
    key: bytes, value: bytes | None
) -> None:
    for head, body in ((key, value), (b"\0\0\0\1x", value)):
        try:
            list(decode([(head, body)]))
        except DecodeError:
            continue
