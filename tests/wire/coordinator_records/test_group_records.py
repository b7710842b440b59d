"""Tests the records of consumer, share and streams groups against Kafka's own classes, byte for byte."""

from collections import defaultdict

import pytest

from groupsdk.wire.coordinator_records import consumer_group, share_group, streams_group
from groupsdk.wire.coordinator_records.consumer_group import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from groupsdk.wire.coordinator_records.declaration import CoordinatorKey, read_value, write
from groupsdk.wire.coordinator_records.offsets_log import KEYS
from tests.wire.coordinator_records.golden import check


TYPES = {
    consumer_group.__name__: [3, 4, 5, 6, 7, 8, 16],
    share_group.__name__: [10, 11, 12, 13, 14, 15],
    streams_group.__name__: [17, 19, 20, 21, 22, 23],
}
NEWER = [each for each in KEYS.values() if each.__module__ in TYPES]


@pytest.mark.parametrize("key", NEWER, ids=lambda key: key.__name__)
def test_record_of_a_newer_group_is_written_and_printed_as_by_kafka(
    key: type[CoordinatorKey],
) -> None:
    assert check(key) >= 20


def test_all_record_types_of_newer_groups_are_declared() -> None:
    types = defaultdict(list)
    for key in NEWER:
        types[key.__module__].append(key.record_type)
    assert types == TYPES


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
