"""All groups of a log, one after the other, with whatever else stands in it."""

from hypothesis import given, settings, strategies as st

from examples.history_log import Seat, generation
from groupsdk.history.groups.rows import GroupRecord, TopicRow
from groupsdk.history.groups.walk import KNOWN_TYPES, walk
from groupsdk.wire.coordinator_records.consumer_group import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    TopicMetadata,
)
from groupsdk.wire.coordinator_records.offsets_log import write
from tests.history.groups.modern_log import JOINED, TOPIC, TOPIC_ID
from tests.history.groups.walking import generations, memberships, records, rejects, walked


ONE = Seat("one", {"t": [0, 1]})


def test_each_group_is_followed_on_its_own() -> None:
    first = records([generation("a", n, {"m": ONE}) for n in (1, 2)], "a")
    second = records([generation("b", n, {"m": ONE}) for n in (7,)], "b")
    found = generations(walk([*first, *second]))
    assert [(row.group_id, row.seq, row.generation) for row in found] == [
        ("a", 0, 1),
        ("a", 1, 2),
        ("b", 0, 7),
    ]


def test_a_record_that_stands_in_twice_counts_once() -> None:
    given_twice = [
        each for record in records([generation("g", 1, {"m": ONE})]) for each in (record, record)
    ]
    rows = list(walk(given_twice))
    assert len(generations(rows)) == len(memberships(rows)) == 1


def test_a_record_that_cannot_be_decoded_is_said_and_the_group_goes_on() -> None:
    key, value = generation("g", 2, {"m": ONE})
    assert value is not None
    rows = walked(
        generation("g", 1, {"m": ONE}),
        (key, value[:-3]),
        (key, b"\0\x63" + value[2:]),
        (b"\0\x63\0\1g", b"\0\0"),
        (b"\0", b""),
        generation("g", 3, {"m": ONE}),
    )
    assert [row.generation for row in generations(rows)] == [1, 3]
    assert [(row.offset, row.record_type) for row in rejects(rows)] == [
        (1, 2),
        (2, 2),
        (3, 99),
        (4, -1),
    ]
    assert "record type 99 is not known" in rejects(rows)[2].reason
    assert 99 not in KNOWN_TYPES


def test_a_record_without_a_key_is_said() -> None:
    rows = list(walk([GroupRecord("", 0, 0, 0, 0, None, b"x")]))
    assert rejects(rows)[0].record_type == -1


def test_a_group_may_change_its_protocol() -> None:
    rows = walked(generation("g", 1, {"m": ONE}), *JOINED)
    assert [row.protocol for row in generations(rows)] == ["classic", "consumer"]


def test_old_records_tell_the_names_of_topics() -> None:
    value = ConsumerGroupPartitionMetadataValue((TopicMetadata(TOPIC, "orders", 3),))
    rows = walked(write(ConsumerGroupPartitionMetadataKey("g"), value))
    assert rows == [TopicRow(TOPIC_ID, "orders")]


@settings(deadline=None)
@given(st.lists(st.tuples(st.binary(max_size=40), st.none() | st.binary(max_size=60)), max_size=8))
def test_no_bytes_at_all_make_it_fail(pairs: list[tuple[bytes, bytes | None]]) -> None:
    found = walked(generation("g", 1, {"m": ONE}), *((b"\0\2" + k, v) for k, v in pairs))
    assert generations(found)[0].generation == 1
    walked(*((k, v) for k, v in pairs))
