import logging

import pytest

from groupsdk.broker.groups.config import GroupConfig
from groupsdk.broker.groups.shard import GroupCoordinatorShard
from groupsdk.broker.runtime.contract import CoordinatorRecord
from groupsdk.errors import DecodeError
from groupsdk.wire.coordinator_records.consumer_group import ConsumerGroupMetadataKey
from groupsdk.wire.coordinator_records.declaration import write_key, write_value
from groupsdk.wire.coordinator_records.group_metadata import GroupMetadataKey
from groupsdk.wire.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from tests.broker.groups.driving import PRODUCER


LEGACY_KEY = bytes.fromhex("000000016700017400000002")
KEY = bytes.fromhex("000100016700017400000002")
VALUE = "000000000000000500016d00000000000003e8"


@pytest.fixture
def shard() -> GroupCoordinatorShard:
    return GroupCoordinatorShard(GroupConfig(), lambda: "id")


@pytest.mark.parametrize(
    ("key", "value", "epoch", "expires_ms"),
    [
        (LEGACY_KEY, "0000" + VALUE, -1, -1),
        (KEY, "0000" + VALUE, -1, -1),
        (KEY, "0001" + VALUE + "00000000000007d0", -1, 2_000),
        (KEY, "0002" + VALUE, -1, -1),
        (KEY, "000300000000000000050000000300016d00000000000003e8", 3, -1),
        (KEY, "0004000000000000000500000003026d00000000000003e800", 3, -1),
    ],
)
def test_every_version_of_an_offset_is_read(
    shard: GroupCoordinatorShard, key: bytes, value: str, epoch: int, expires_ms: int
) -> None:
    shard.replay(CoordinatorRecord(key, bytes.fromhex(value)))

    (found,) = shard.offsets("g").values()
    assert found[:5] == (5, epoch, "m", 1_000, expires_ms)
    assert shard.group_ids == ("g",)


def test_tombstones_remove(shard: GroupCoordinatorShard) -> None:
    shard.replay(CoordinatorRecord(KEY, bytes.fromhex("0002" + VALUE)))
    shard.replay(CoordinatorRecord(KEY, bytes.fromhex("0002" + VALUE)), PRODUCER)

    shard.replay(CoordinatorRecord(KEY, None))
    shard.replay_marker(PRODUCER, committed=True)
    assert shard.offsets("g") == {}
    shard.replay(CoordinatorRecord(write_key(GroupMetadataKey("g")), None))

    assert shard.group_ids == ()


def test_transactional_offsets_wait_for_their_marker(shard: GroupCoordinatorShard) -> None:
    shard.replay(CoordinatorRecord(KEY, bytes.fromhex("0002" + VALUE)), PRODUCER)
    assert shard.offsets("g") == {}

    shard.replay_marker(PRODUCER, committed=True)

    assert shard.offsets("g")["t", 2].offset == 5


@pytest.mark.parametrize(
    "key", [write_key(ConsumerGroupMetadataKey("c")), b"\x7f\x00whatever"], ids=["848", "unknown"]
)
def test_what_is_not_kept_here_is_passed_over_and_said_once(
    shard: GroupCoordinatorShard, key: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            shard.replay(CoordinatorRecord(key, b"\0\0"))

    assert caplog.text.count("passing over records of type") == 1
    assert shard.group_ids == ()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (KEY, b"\0\x09"),
        (KEY, b""),
        (KEY[:-1], None),
        (b"", None),
        (write_key(GroupMetadataKey("g")), b"\0\x03\0"),
    ],
)
def test_a_known_record_that_cannot_be_read_is_an_error(
    shard: GroupCoordinatorShard, key: bytes, value: bytes | None
) -> None:
    with pytest.raises(DecodeError):
        shard.replay(CoordinatorRecord(key, value))


def test_the_later_of_two_records_counts(shard: GroupCoordinatorShard) -> None:
    for offset in (7, 3):
        value = write_value(OffsetCommitValue(offset))
        shard.replay(CoordinatorRecord(write_key(OffsetCommitKey("g", "t", 2)), value))

    assert shard.offsets("g")["t", 2].offset == 3
