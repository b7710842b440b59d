"""Tests the records of `__transaction_state`: Kafka's own bytes, unknown types and tombstones."""

import pytest

from groupsdk.errors import DecodeError
from groupsdk.wire.coordinator_records.transaction_log import (
    TransactionLogKey,
    TransactionLogValue,
    read_key,
    read_value,
    write,
)
from tests.wire.coordinator_records.golden import check
from tests.wire.coordinator_records.vectors import TRANSACTION_KEY, TRANSACTION_VALUES


KEY = TransactionLogKey("x")


@pytest.mark.parametrize(("version", "value", "expected"), TRANSACTION_VALUES)
def test_transaction_log_record_of_every_version_is_written_as_by_kafka(
    version: int, value: TransactionLogValue, expected: str
) -> None:
    key, data = write(KEY, value, version)

    assert (key.hex(), (data or b"").hex()) == (TRANSACTION_KEY, expected)
    assert read_key(key) == KEY
    assert read_value(KEY, data) == value


def test_tagged_fields_of_newer_brokers_are_read() -> None:
    value = TransactionLogValue(
        producer_id=1, previous_producer_id=2, next_producer_id=3, next_producer_epoch=4
    )

    _, data = write(KEY, value)

    assert data is not None
    assert read_value(KEY, data) == value
    # three tagged fields by ascending number, which is not the order of their declaration
    assert data.endswith(
        bytes.fromhex("03 00 08 0000000000000002 01 08 0000000000000003 03 02 0004")
    )


def test_tombstones_and_unknown_types() -> None:
    assert write(KEY, None) == (bytes.fromhex(TRANSACTION_KEY), None)
    assert read_value(KEY, None) is None
    assert read_key(bytes.fromhex("0001000178")) is None


def test_a_version_that_is_not_known_is_refused() -> None:
    with pytest.raises(DecodeError, match="TransactionLogValue has version 2; 0 to 1 are known"):
        read_value(KEY, bytes.fromhex("0002"))


def test_transaction_log_record_of_every_filling_is_written_and_printed_as_by_kafka() -> None:
    for key in (TransactionLogKey,):
        assert check(key) >= 20
