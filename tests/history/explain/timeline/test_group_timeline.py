"""All groups of a log, one after the other, with whatever else stands in it."""

import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from examples.history_log import Seat, deletion, generation
from groupsdk.history.explain.timeline.group_timeline import KNOWN_TYPES
from groupsdk.history.explain.timeline.rows import GroupRecord
from groupsdk.history.read.batches import read_batches
from groupsdk.history.read.reading import Reader
from groupsdk.history.tables.stages import RECORDS
from groupsdk.wire.coordinator_records.consumer_group import (
    ConsumerGroupMetadataKey,
)
from groupsdk.wire.coordinator_records.dump import dump_segment
from groupsdk.wire.coordinator_records.offsets_log import KEYS, write
from tests.history.explain.modern_log import (
    JOINED,
    current,
    epoch,
    gone,
    member,
    target,
    targets_of,
)
from tests.history.explain.timelines import (
    causes,
    departures,
    follow_groups,
    generations,
    memberships,
    records,
    rejects,
    walked,
)
from tests.history.sample import DATA


ONE = Seat("one", {"t": [0, 1]})
ALL_PROTOCOLS = sorted((DATA / "protocols").glob("*/*.log.gz"))
"""Segments of Kafka 4.3 with groups of every protocol, in every compression."""


def test_each_group_is_followed_on_its_own() -> None:
    first = records([generation("a", n, {"m": ONE}) for n in (1, 2)], "a")
    second = records([generation("b", n, {"m": ONE}) for n in (7,)], "b")
    found = generations(follow_groups([*first, *second]))
    assert [(row.group_id, row.seq, row.generation) for row in found] == [
        ("a", 0, 1),
        ("a", 1, 2),
        ("b", 0, 7),
    ]


def test_a_record_that_stands_in_twice_counts_once() -> None:
    given_twice = [
        each for record in records([generation("g", 1, {"m": ONE})]) for each in (record, record)
    ]
    rows = list(follow_groups(given_twice))
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
    rows = list(follow_groups([GroupRecord("", 0, 0, 0, 0, None, b"x")]))
    assert rejects(rows)[0].record_type == -1


def test_a_group_may_change_its_protocol() -> None:
    rows = walked(generation("g", 1, {"m": ONE}), *JOINED)
    assert [(row.protocol, row.seq) for row in generations(rows)] == [
        ("classic", 0),
        ("consumer", 1),
    ]


TO_CONSUMER = [
    generation("g", 1, {"a": ONE}),
    generation("g", 2, {"a": Seat("one", {"t": [0]}), "b": Seat("two", {"t": [1]})}),
    deletion("g"),
    *(member("a"), member("b"), epoch(2), target("a", 0), target("b", 1), targets_of(2)),
    *(current("a", 2, [0]), current("b", 2, [1])),
    *(member("c"), epoch(3), target("c"), targets_of(3), current("c", 3, [])),
]
"""A third member comes with the consumer protocol: all others' places go with them."""
TO_CLASSIC = [
    *(*gone("a"), *gone("b"), *gone("c")),
    write(ConsumerGroupMetadataKey("g"), None),
    generation("g", 3, {"a": Seat("one", {"t": [0]}), "b": Seat("two", {"t": [1]})}),
    generation("g", 4, {"a": Seat("one", {"t": [0]}), "b": Seat("two", {"t": [1]})}),
]
"""The third member leaves: the generation comes again as a classic one, and the members rebalance."""


def test_a_group_that_goes_online_to_another_protocol_and_back_goes_on() -> None:
    rows = walked(*TO_CONSUMER, *TO_CLASSIC)
    assert [
        (row.protocol, row.incarnation, row.seq, row.generation, row.missing_before)
        for row in generations(rows)
    ] == [
        ("classic", 0, 0, 1, 0),
        ("classic", 0, 1, 2, 0),
        # the last generation of the one protocol is the first of the other: that is no rebalance
        ("consumer", 0, 2, 3, 0),
        ("classic", 0, 3, 4, 0),
    ]
    assert causes(rows) == [["join"], ["join"], ["join"], []]
    stays = {row.member.member_id: row for row in memberships(rows)}
    assert {each: (row.first_seq, row.last_seq, row.end_seq) for each, row in stays.items()} == {
        "a": (0, 3, -1),
        "b": (1, 3, -1),
        "c": (2, 2, 3),
    }
    (departure,) = departures(rows)
    # it went as the group changed, and not only when the others had come again
    changed_ms = 1000 * (len(TO_CONSUMER) + len(TO_CLASSIC) - 2)
    assert (departure.member.member_id, departure.seq, departure.ts_ms) == ("c", 3, changed_ms)
    assert departure.alive_ms == 1000 * (len(TO_CONSUMER) - 1)


def test_a_static_member_may_be_what_takes_a_group_back() -> None:
    static = Seat("client-m", {"t": [0]}, instance_id="i")
    rows = walked(
        *(member("m", instance="i"), epoch(2), target("m", 0), targets_of(2), current("m", 2, [0])),
        *gone("m"),
        write(ConsumerGroupMetadataKey("g"), None),
        generation("g", 2, {"m2": static}),
        generation("g", 3, {}),
    )
    assert [(row.protocol, row.seq, row.generation) for row in generations(rows)] == [
        ("consumer", 0, 2),
        ("classic", 1, 3),
    ]
    ends = {row.member.member_id: (row.end_reason, row.end_seq) for row in memberships(rows)}
    assert ends == {"m": ("static_replaced", 0), "m2": (None, 1)}
    assert [row.member.member_id for row in departures(rows)] == ["m2"]


def test_a_group_that_ends_with_members_in_it_was_deleted_unless_another_protocol_goes_on() -> None:
    rows = walked(*TO_CONSUMER[:3])
    assert {row.end_reason for row in memberships(rows)} == {"group_deleted"}
    # an empty group is replaced, not taken over
    rows = walked(generation("g", 7, {}), deletion("g"), *JOINED)
    assert [(row.incarnation, row.missing_before) for row in generations(rows)] == [(0, 0), (1, 0)]


@pytest.mark.parametrize("path", ALL_PROTOCOLS, ids=lambda path: path.parent.name)
def test_groups_of_every_protocol_print_as_kafkas_tool_prints_them(path: Path) -> None:
    printed = path.with_name(path.name.replace(".log.", ".txt."))
    expected = gzip.decompress(printed.read_bytes()).decode().splitlines()
    segment = gzip.decompress(path.read_bytes())
    assert expected == ["Log starting offset: 0", *dump_segment(segment, KEYS)]


def test_groups_of_every_protocol_are_followed_and_nothing_is_rejected() -> None:
    found = []
    for partition, path in enumerate(ALL_PROTOCOLS):
        for records_read in read_batches(gzip.decompress(path.read_bytes())):
            assert records_read.bad == ()
            made = Reader().take(records_read, partition, "")
            rows = [row for name, batch in made if name == RECORDS for row in batch.to_pylist()]
            found += [
                GroupRecord(
                    *(row["group_id"], partition, row["src_offset"], 0, row["leader_epoch"]),
                    *(row["key"], row["value"]),
                )
                for row in rows
                if row["topic"] is None
            ]
    followed = list(follow_groups(sorted(found, key=lambda each: (each.group_id, each.offset))))
    assert rejects(followed) == []
    protocols = {(row.group_id, row.protocol) for row in generations(followed)}
    assert protocols == {
        *(("workers", "classic"), ("static", "classic"), ("migrating", "classic")),
        *(("modern", "consumer"), ("modern-regex", "consumer"), ("migrating", "consumer")),
        *(("sharing", "share"), ("streaming", "streams")),
    }
    ended = {row.group_id for row in memberships(followed) if row.end_seq >= 0}
    assert {group for group, _ in protocols} == ended


@settings(deadline=None)
@given(st.lists(st.tuples(st.binary(max_size=40), st.none() | st.binary(max_size=60)), max_size=8))
def test_any_bytes_are_walked_without_an_error(pairs: list[tuple[bytes, bytes | None]]) -> None:
    found = walked(generation("g", 1, {"m": ONE}), *((b"\0\2" + k, v) for k, v in pairs))
    assert generations(found)[0].generation == 1
    walked(*((k, v) for k, v in pairs))
