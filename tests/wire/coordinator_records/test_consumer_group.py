"""Tests the records of consumer groups (KIP-848) against Kafka's own classes, byte for byte."""

import pytest

from groupsdk.wire.coordinator_records import consumer_group
from groupsdk.wire.coordinator_records.consumer_group import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from groupsdk.wire.coordinator_records.declaration import CoordinatorKey, read_value, write
from groupsdk.wire.coordinator_records.offsets_log import KEYS
from tests.wire.coordinator_records.golden import check


DECLARED = [each for each in KEYS.values() if each.__module__ == consumer_group.__name__]


@pytest.mark.parametrize("key", DECLARED, ids=lambda key: key.__name__)
def test_consumer_group_record_is_written_and_printed_as_by_kafka(
    key: type[CoordinatorKey],
) -> None:
    assert check(key) >= 20


def test_all_consumer_group_record_types_are_declared() -> None:
    assert [each.record_type for each in DECLARED] == [3, 4, 5, 6, 7, 8, 16]


def test_a_groups_epoch_is_as_kafka_writes_it() -> None:
    key, value = write(ConsumerGroupMetadataKey("g"), ConsumerGroupMetadataValue(3, 9))

    assert (key.hex(), (value or b"").hex()) == ("0003000167", "0000000000030100080000000000000009")


def test_a_member_of_the_newer_protocol_has_no_classic_metadata() -> None:
    key = ConsumerGroupMemberMetadataKey("g", "m")
    value = ConsumerGroupMemberMetadataValue(None, None, "c", "h", ("t",), "", 5, None, None)

    _, data = write(key, value)

    # one tagged field, number 0, one byte: a 0 for null
    assert (data or b"").endswith(bytes.fromhex("00000005 00 01 00 01 00"))
    assert read_value(key, data) == value
