"""Committed offsets decoded together, held against the decoder that goes one by one and against Kafka's dump."""

import json
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings, strategies as st

from groupsdk.errors import DecodeError
from groupsdk.history.read.batches import Records, read_batches
from groupsdk.history.read.commits import Commits, key_of, read_commits, value_of
from groupsdk.wire.coordinator_records.offset_commit import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from groupsdk.wire.coordinator_records.offsets_log import read_key, read_value, write
from groupsdk.wire.records.record import Record, build_batch
from tests.history.sample import dumped, expected_counts, partition_of, segment_files


NO_ID = UUID(int=0)


def records_of(pairs: list[tuple[bytes | None, bytes | None]]) -> Records:
    """Take keys and values through a batch."""
    found = [Record(row, 1000 + row, key, value) for row, (key, value) in enumerate(pairs)]
    (records,) = read_batches(build_batch(found))
    return records


def rows(commits: Commits) -> dict[int, Any]:
    """Take the commits out of their columns, by the row of their record."""
    return {
        int(row): (
            commits.group_id[place].as_py(),
            commits.topic[place].as_py(),
            int(commits.partition[place]),
            None
            if commits.is_tombstone[place]
            else (
                int(commits.version[place]),
                int(commits.offset[place]),
                int(commits.leader_epoch[place]),
                commits.metadata[place].as_py(),
                int(commits.commit_timestamp[place]),
                int(commits.expire_timestamp[place]),
                commits.topic_id[place].as_py(),
            ),
        )
        for place, row in enumerate(commits.rows)
    }


def expected(records: Records) -> tuple[dict[int, Any], set[int]]:
    """Decode the commits one by one; gives also which of them cannot be."""
    found: dict[int, Any] = {}
    undecodable = set()
    for row in range(len(records)):
        key_data, value_data = key_of(records, row), value_of(records, row)
        if key_data is None or key_data[:2] not in (b"\0\0", b"\0\1"):
            continue
        try:
            key: Any = read_key(key_data)
            value: Any = read_value(key, value_data)
        except DecodeError:
            undecodable.add(row)
            continue
        found[row] = (key.group, key.topic, key.partition, value and plain(value, value_data))
    return found, undecodable


def plain(value: Any, data: bytes | None) -> tuple[Any, ...]:
    """Lay a decoded value out as the columns have it."""
    assert data is not None
    topic_id = getattr(value, "topic_id", NO_ID)
    return (
        int.from_bytes(data[:2]),
        value.offset,
        getattr(value, "leader_epoch", -1),
        value.metadata,
        value.commit_timestamp,
        getattr(value, "expire_timestamp", -1),
        topic_id.bytes if topic_id.int else None,
    )


names = st.text(max_size=20)
int64 = st.integers(-(2**63), 2**63 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
keys = st.builds(OffsetCommitKey, names, names, int32)
current = st.builds(
    lambda key, value, version: write(key, value, version),
    keys,
    st.builds(
        OffsetCommitValue,
        int64,
        int32,
        st.text(max_size=200),
        int64,
        int64,
        st.sampled_from([NO_ID, UUID(int=7), UUID(int=2**127 + 3)]),
    ),
    st.integers(0, 4),
)
legacy = st.builds(
    lambda key, value: write(key, value, 0),
    st.builds(LegacyOffsetCommitKey, names, names, int32),
    st.builds(LegacyOffsetCommitValue, int64, names, int64),
)
removed = st.builds(lambda key: write(key, None), keys)
foreign = st.tuples(st.one_of(st.none(), st.binary(max_size=30)), st.none() | st.binary())
pair = st.one_of(current, legacy, removed, foreign)


@settings(deadline=None)
@given(st.lists(pair, min_size=1, max_size=10))
def test_commits_of_any_version_are_decoded_as_one_by_one(
    pairs: list[tuple[bytes | None, bytes | None]],
) -> None:
    records = records_of(pairs)
    commits = read_commits(records)
    found, undecodable = expected(records)
    assert rows(commits) == found
    assert set(commits.undecodable) == undecodable
    assert commits.rows.tolist() == sorted(found)


@settings(deadline=None, max_examples=400)
@given(st.lists(st.one_of(current, legacy, removed), min_size=1, max_size=5), st.data())
def test_a_changed_or_cut_commit_is_decoded_or_refused_as_one_by_one(
    pairs: list[tuple[bytes, bytes | None]], data: st.DataObject
) -> None:
    damaged: list[tuple[bytes | None, bytes | None]] = []
    for key, value in pairs:
        parts: list[bytes | None] = []
        for part in (key, value):
            if part:
                changed = bytearray(part)
                place = data.draw(st.integers(1, len(part) - 1)) if len(part) > 1 else 0
                if data.draw(st.booleans()):
                    changed[place] = data.draw(st.integers(0, 255))
                elif data.draw(st.booleans()):
                    del changed[place:]
                else:
                    changed += b"\0"
                parts.append(bytes(changed))
            else:
                parts.append(part)
        damaged.append((parts[0], parts[1]))
    records = records_of(damaged)
    commits = read_commits(records)
    found, undecodable = expected(records)
    assert rows(commits) == found
    assert set(commits.undecodable) == undecodable


def test_a_name_that_is_not_utf_8_is_refused_and_its_neighbours_are_not() -> None:
    good = write(OffsetCommitKey("group", "topic", 1), OffsetCommitValue(5))
    bad = (b"\0\1\0\1\xff\0\1t\0\0\0\0", good[1])
    commits = read_commits(records_of([good, bad, good]))
    assert commits.rows.tolist() == [0, 2]
    assert list(commits.undecodable) == [1]
    assert commits.undecodable[1]


GOLDEN = {
    # key, value, and what they say, as Kafka 4.1's own serializers wrote them
    "v0": ("0000000000000000000500016d00000000000003e8", (0, 5, -1, "m", 1000, -1, None)),
    "v1": (
        "0001000000000000000500016d00000000000003e800000000000007d0",
        (1, 5, -1, "m", 1000, 2000, None),
    ),
    "v2": ("0002000000000000000500016d00000000000003e8", (2, 5, -1, "m", 1000, -1, None)),
    "v3": ("000300000000000000050000000300016d00000000000003e8", (3, 5, 3, "m", 1000, -1, None)),
    "v4": ("0004000000000000000500000003026d00000000000003e800", (4, 5, 3, "m", 1000, -1, None)),
    "v4 with a topic id": (
        "0004000000000000000500000003026d00000000000003e801001000000000000000010000000000000002",
        (4, 5, 3, "m", 1000, -1, UUID(int=(1 << 64) + 2).bytes),
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_kafkas_own_bytes_are_decoded_without_a_second_look(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groupsdk.history.read.commits.read_value", None)
    value, said = GOLDEN[name]
    key = bytes.fromhex("000100016700017400000002")
    commits = read_commits(records_of([(key, bytes.fromhex(value)), (key, None)]))
    assert rows(commits) == {0: ("g", "t", 2, said), 1: ("g", "t", 2, None)}


def test_no_commits_are_no_trouble() -> None:
    commits = read_commits(records_of([(b"\0\2\0\1g", b"\0\3")]))
    assert len(commits) == 0
    assert not commits.undecodable


def test_the_sample_is_decoded_as_kafka_dumps_it() -> None:
    # Kafka's own tool is the judge: every commit, field by field.
    dump = dumped()
    seen = 0
    for path in segment_files():
        for records in read_batches(path.read_bytes()):
            for row, (group, topic, partition, value) in rows(read_commits(records)).items():
                place = partition_of(path.parent), int(records.offsets[row])
                time, text = dump.pop(place)
                assert time == int(records.timestamps[row])
                key = {
                    "type": "1",
                    "data": {"group": group, "topic": topic, "partition": partition},
                }
                assert text == f" key: {compact(key)} payload: {payload(value)}"
                seen += 1
    assert seen == expected_counts()["records_by_type"]["1"]
    assert not [text for _, text in dump.values() if '{"type":"1"' in text]


def payload(value: tuple[Any, ...] | None) -> str:
    """Print a value as Kafka's tool does."""
    if value is None:
        return "<DELETE>"
    version, offset, epoch, metadata, commit_timestamp, _, topic_id = value
    assert topic_id is None
    data = {
        "offset": offset,
        "leaderEpoch": epoch,
        "metadata": metadata,
        "commitTimestamp": commit_timestamp,
    }
    return compact({"version": str(version), "data": data})


def compact(value: Any) -> str:
    """Write JSON without spaces."""
    return json.dumps(value, separators=(",", ":"))
