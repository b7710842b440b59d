"""Tests the records of classic groups: Kafka's own bytes of every version."""

from dataclasses import replace

import pytest

from groupsdk.wire.coordinator_records.declaration import read_value, write
from groupsdk.wire.coordinator_records.group_metadata import GroupMetadataKey, GroupMetadataValue
from groupsdk.wire.coordinator_records.offsets_log import read_key
from tests.wire.coordinator_records.golden import check
from tests.wire.coordinator_records.vectors import (
    EMPTY_GROUP,
    EMPTY_GROUP_VALUE,
    GROUP,
    GROUP_KEY,
    GROUP_VALUES,
)


KEY = GroupMetadataKey("g")


def as_read(version: int) -> GroupMetadataValue:
    """The group as a version can carry it."""
    (member,) = GROUP.members
    if version < 1:
        member = replace(member, rebalance_timeout=-1)
    stamp = GROUP.current_state_timestamp if version >= 2 else -1
    return replace(GROUP, current_state_timestamp=stamp, members=(member,))


@pytest.mark.parametrize("version", GROUP_VALUES)
def test_group_metadata_of_every_version_is_written_as_by_kafka(version: int) -> None:
    key, value = write(KEY, GROUP, version)

    assert (key.hex(), (value or b"").hex()) == (GROUP_KEY, GROUP_VALUES[version])
    assert read_key(key) == KEY
    assert read_value(KEY, value) == as_read(version)


def test_version_3_is_written_so_that_older_brokers_can_read_it() -> None:
    assert write(KEY, GROUP) == write(KEY, GROUP, 3)


def test_an_empty_group_is_as_kafka_writes_it() -> None:
    key, value = write(KEY, EMPTY_GROUP)

    assert (value or b"").hex() == EMPTY_GROUP_VALUE
    assert read_value(KEY, value) == EMPTY_GROUP
    assert write(KEY, None) == (key, None)


def test_group_metadata_of_every_filling_is_written_and_printed_as_by_kafka() -> None:
    for key in (GroupMetadataKey,):
        assert check(key) >= 20
