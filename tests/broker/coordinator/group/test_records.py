import logging
from collections.abc import Callable
from uuid import UUID

import pytest
from hypothesis import example, given, strategies as st

from groupsdk.broker.coordinator.group.shard import GroupCoordinatorShard
from groupsdk.broker.coordinator.runtime.contract import LogRecord, ProducerStamp
from groupsdk.broker.coordinator.runtime.coordinator_runtime import Marker, Replayed
from groupsdk.broker.settings.table import GroupConfig
from groupsdk.errors import DecodeError
from groupsdk.wire.coordinator_records.declaration import write_key, write_value
from groupsdk.wire.coordinator_records.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from groupsdk.wire.coordinator_records.offset_commit import (
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
    write_offset_value,
)
from groupsdk.wire.coordinator_records.share_group import ShareGroupMetadataKey
from groupsdk.wire.records.pairs import Pair
from tests.broker.coordinator.group.driving import PRODUCER


LEGACY_KEY = bytes.fromhex("000000016700017400000002")
KEY = bytes.fromhex("000100016700017400000002")
PLAIN = write_offset_value(5, 3, "", 1_000)
VALUE = "000000000000000500016d00000000000003e8"


def load(
    shard: GroupCoordinatorShard,
    key: bytes,
    value: bytes | None,
    producer: ProducerStamp | None = None,
) -> None:
    for record in shard.decode([(key, value)]):
        shard.replay(record, producer)


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
    load(shard, key, bytes.fromhex(value))

    (found,) = shard.offsets("g").values()
    assert found[:5] == (5, epoch, "m", 1_000, expires_ms)
    assert shard.group_ids == ("g",)


def test_tombstone_removes_the_group(shard: GroupCoordinatorShard) -> None:
    load(shard, KEY, bytes.fromhex("0002" + VALUE))
    load(shard, KEY, bytes.fromhex("0002" + VALUE), producer=PRODUCER)

    load(shard, KEY, None)
    shard.replay_marker(PRODUCER, committed=True)
    assert shard.offsets("g") == {}
    load(shard, write_key(GroupMetadataKey("g")), None)

    assert shard.group_ids == ()


def test_transactional_offsets_wait_for_their_marker(shard: GroupCoordinatorShard) -> None:
    load(shard, KEY, bytes.fromhex("0002" + VALUE), producer=PRODUCER)
    assert shard.offsets("g") == {}

    shard.replay_marker(PRODUCER, committed=True)

    assert shard.offsets("g")["t", 2].offset == 5


@pytest.mark.parametrize(
    "key", [write_key(ShareGroupMetadataKey("c")), b"\x7f\x00whatever"], ids=["share", "unknown"]
)
def test_records_of_unsupported_types_are_skipped_and_logged_once(
    shard: GroupCoordinatorShard, key: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            load(shard, key, b"\0\0")

    assert caplog.text.count("skipping records of unsupported type") == 1
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
        load(shard, key, value)


def test_the_later_of_two_records_counts(shard: GroupCoordinatorShard) -> None:
    for offset in (7, 3):
        value = write_value(OffsetCommitValue(offset))
        load(shard, write_key(OffsetCommitKey("g", "t", 2)), value)

    assert shard.offsets("g")["t", 2].offset == 3


def offset_records() -> st.SearchStrategy[Pair]:
    """Offsets of few places in all versions, and their tombstones."""
    keys = st.builds(
        lambda kind, *names: write_key(kind(*names)),
        st.sampled_from([OffsetCommitKey, OffsetCommitKey, LegacyOffsetCommitKey]),
        st.sampled_from(["g", "h"]),
        st.sampled_from(["t", "u"]),
        st.integers(0, 1),
    )
    plain = st.integers(0, 9).map(lambda n: write_offset_value(n, n, "", 1_000 + n))
    others = st.builds(
        lambda n, version, metadata: write_value(
            OffsetCommitValue(n, 3, metadata, 2_000 + n, topic_id=UUID(int=n % 2)), version
        ),
        st.integers(0, 9),
        st.integers(0, 4),
        st.sampled_from(["", "m"]),
    )
    return st.tuples(keys, st.one_of(plain, plain, others, st.none(), st.none()))


def group_records() -> st.SearchStrategy[Pair]:
    """Groups with and without a member, tombstones, and records of other kinds."""
    keys = st.sampled_from(["g", "h"]).map(lambda name: write_key(GroupMetadataKey(name)))
    member = MemberMetadata("m", None, "c", "/h", 1, 1, b"", b"")
    values = st.sampled_from([(), (member,)]).map(
        lambda members: write_value(
            GroupMetadataValue("consumer", 3, "range", "m", 5_000, members=members)
        )
    )
    unknown = st.just((b"\x7f\x00whatever", b"v"))
    return st.tuples(keys, values | st.none()) | unknown


STAMPS = [ProducerStamp(1, 0), ProducerStamp(2, 0)]
markers = st.builds(Marker, st.sampled_from(STAMPS), st.booleans())
pending = st.builds(
    lambda pair, stamp: Replayed(LogRecord(*pair), stamp),
    offset_records(),
    st.sampled_from(STAMPS),
)
logs = st.lists(
    st.lists(offset_records() | offset_records() | group_records(), min_size=1, max_size=9)
    | markers
    | pending,
    max_size=12,
)


def one_by_one(shard: GroupCoordinatorShard, entry: list[Pair]) -> None:
    """Replays records as they come."""
    for each in entry:
        load(shard, *each)


def all_at_once(shard: GroupCoordinatorShard, entry: list[Pair]) -> None:
    """Replays records as a runtime loads them."""
    for record in shard.decode(entry):
        shard.replay(record)


def loaded_from(
    log: list[list[Pair] | Marker | Replayed],
    many: Callable[[GroupCoordinatorShard, list[Pair]], None],
) -> list[object]:
    """Loads a log; returns all that can be seen of it, before and after its transactions end."""
    shard = GroupCoordinatorShard(GroupConfig(), lambda: "id")
    seen: list[object] = []

    def look() -> None:
        seen.append([(name, shard.group(name), dict(shard.offsets(name))) for name in ("g", "h")])

    try:
        for entry in log:
            if isinstance(entry, list):
                many(shard, entry)
            elif isinstance(entry, Marker):
                shard.replay_marker(entry.producer, committed=entry.committed)
            else:
                load(shard, *entry.record, producer=entry.producer)
    except DecodeError as error:
        seen.append(str(error))
    look()
    shard.loaded(10_000)
    for stamp in STAMPS:
        shard.replay_marker(stamp, committed=True)
        look()
    return seen


@given(logs)
@example([[(KEY, PLAIN), (KEY, None), (KEY, PLAIN)]])
@example([[(KEY, PLAIN), (write_key(GroupMetadataKey("g")), None), (KEY, PLAIN)]])
@example([[(KEY, PLAIN), (KEY, b"\0\x09" + PLAIN[2:]), (KEY, None)]])
@example([[(KEY, PLAIN), (KEY, PLAIN[:-1] + b"\1"), (KEY, None)]])
@example([[(KEY, PLAIN), (KEY, PLAIN[:14] + b"\2" + PLAIN[15:]), (KEY, None)]])
def test_many_records_at_once_are_the_same_as_one_by_one(
    log: list[list[Pair] | Marker | Replayed],
) -> None:
    assert loaded_from(log, all_at_once) == loaded_from(log, one_by_one)
