"""Tests the records of share groups against Kafka's own classes, byte for byte."""

import pytest

from groupsdk.wire.coordinator_records import share_group
from groupsdk.wire.coordinator_records.declaration import CoordinatorKey
from groupsdk.wire.coordinator_records.offsets_log import KEYS
from tests.wire.coordinator_records.golden import check


DECLARED = [each for each in KEYS.values() if each.__module__ == share_group.__name__]


@pytest.mark.parametrize("key", DECLARED, ids=lambda key: key.__name__)
def test_share_group_record_is_written_and_printed_as_by_kafka(key: type[CoordinatorKey]) -> None:
    assert check(key) >= 20


def test_all_share_group_record_types_are_declared() -> None:
    assert [each.record_type for each in DECLARED] == [10, 11, 12, 13, 14, 15]
