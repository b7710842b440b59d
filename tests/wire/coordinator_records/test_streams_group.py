"""Tests the records of streams groups against Kafka's own classes, byte for byte."""

import pytest

from groupsdk.wire.coordinator_records import streams_group
from groupsdk.wire.coordinator_records.declaration import CoordinatorKey
from groupsdk.wire.coordinator_records.offsets_log import KEYS
from tests.wire.coordinator_records.golden import check


DECLARED = [each for each in KEYS.values() if each.__module__ == streams_group.__name__]


@pytest.mark.parametrize("key", DECLARED, ids=lambda key: key.__name__)
def test_streams_group_record_is_written_and_printed_as_by_kafka(key: type[CoordinatorKey]) -> None:
    assert check(key) >= 20


def test_all_streams_group_record_types_are_declared() -> None:
    assert [each.record_type for each in DECLARED] == [17, 19, 20, 21, 22, 23]
