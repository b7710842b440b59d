"""Groups of the newer protocols, followed from epoch to epoch."""

from groupsdk.wire.coordinator_records.consumer_group import ConsumerGroupMetadataKey
from groupsdk.wire.coordinator_records.offsets_log import write
from groupsdk.wire.coordinator_records.share_group import (
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
)
from groupsdk.wire.coordinator_records.streams_group import (
    CurrentTaskIds,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
)
from groupsdk.wire.messages.streams_groups import TaskIds
from tests.history.explain.modern_log import (
    JOINED,
    SHARED,
    TOPIC_ID,
    current,
    epoch,
    gone,
    matched,
    member,
    target,
    targets_of,
)
from tests.history.explain.timelines import (
    causes,
    departures,
    generations,
    members,
    memberships,
    walked,
)


def test_an_epoch_is_a_generation() -> None:
    rows = walked(*JOINED, *SHARED)
    first, second = generations(rows)
    assert (first.protocol, first.generation, first.n_members, first.n_partitions) == (
        *("consumer", 1, 1),
        2,
    )
    assert (second.generation, second.n_members, second.n_partitions, second.joined) == (2, 2, 2, 1)
    assert causes(rows) == [["join"], ["join"]]
    # from its own record to the last member that had what it was to get
    assert first.converged_ms - first.ts_ms == 3000
    assert second.converged_ms - second.ts_ms == 6000


def test_targets_what_members_have_and_what_they_give_up_stand_apart() -> None:
    rows = walked(*JOINED, *SHARED)
    found = [
        (row.phase, row.member.member_id, row.member.assigned)
        for row in members(rows)
        if row.generation == 2
    ]
    assert found == [
        ("target", "a", ((TOPIC_ID, (0,)),)),
        ("current", "a", ((TOPIC_ID, (0,)),)),
        ("target", "b", ((TOPIC_ID, (1,)),)),
        ("current", "b", ((TOPIC_ID, (1,)),)),
        ("revoking", "a", ((TOPIC_ID, (1,)),)),
    ]


def test_one_that_leaves_had_its_partitions_until_the_next_epoch() -> None:
    rows = walked(*JOINED, *SHARED, *gone("a"), epoch(3), target("b", 0, 1), targets_of(3))
    second = [row for row in members(rows) if row.generation == 2 and row.phase == "target"]
    assert [row.member.n_partitions for row in second] == [1, 1]
    (departure,) = departures(rows)
    assert (departure.member.member_id, departure.generation) == ("a", 3)
    assert departure.member.assigned == ((TOPIC_ID, (0,)),)
    third = generations(rows)[2]
    assert (third.gone, third.n_members, third.causes) == (1, 1, ())


def test_one_that_is_gone_before_it_got_its_partitions_had_none_to_commit() -> None:
    begun = [*JOINED, member("b"), epoch(2), target("a", 0), target("b", 1), targets_of(2)]
    rows = walked(*begun, current("a", 1, [0], [1]), current("b", 2, []), *gone("b"), epoch(3))
    assert [row.member.assigned for row in departures(rows)] == [()]
    # and one that was to give up still has what it has
    rows = walked(*begun, current("a", 1, [0], [1]), current("b", 2, []), *gone("a"), epoch(3))
    (departure,) = departures(rows)
    assert departure.member.n_partitions == 2
    # where compaction has left nothing of it, it is what it was to get
    rows = walked(*begun, *gone("b"), epoch(3))
    assert [row.member.n_partitions for row in departures(rows)] == [1]


def test_an_epoch_for_other_topics_or_more_partitions() -> None:
    rows = walked(
        *JOINED,
        epoch(2, metadata_hash=10),
        member("a", topics=("t", "u")),
        epoch(3, metadata_hash=11),
        epoch(4, metadata_hash=11),
    )
    assert causes(rows) == [["join"], ["topic_growth"], ["subscription_change"], []]


def test_an_epoch_after_which_nobody_gets_a_topic_is_of_its_deletion() -> None:
    deleted = [epoch(2, metadata_hash=10), target("a"), targets_of(2)]
    rows = walked(*JOINED, *deleted)
    assert causes(rows)[1] == ["topic_deleted"]


def test_a_pattern_that_stands_for_fewer_topics_is_of_a_deletion() -> None:
    rows = walked(
        *JOINED,
        matched("^t", "t", "tt"),
        # the topic is gone, and then the pattern is looked up again
        *(epoch(2, metadata_hash=10), target("a"), targets_of(2)),
        matched("^t", "t"),
        epoch(3, metadata_hash=10),
        epoch(4, metadata_hash=10),
    )
    assert causes(rows)[1:] == [["topic_deleted"], ["topic_deleted"], []]


def test_a_static_member_comes_back() -> None:
    rows = walked(
        member("a", instance="i"), epoch(1), *gone("a"), member("a2", instance="i"), epoch(2)
    )
    assert causes(rows)[1] == ["static_replaced"]
    assert {row.member.member_id: row.end_reason for row in memberships(rows)} == {
        "a": "static_replaced",
        "a2": None,
    }


def test_a_group_that_is_deleted_and_made_again() -> None:
    rows = walked(
        *JOINED, *gone("a"), epoch(2, 0), write(ConsumerGroupMetadataKey("g"), None), *JOINED
    )
    assert [(row.incarnation, row.seq, row.generation) for row in generations(rows)] == [
        (0, 0, 1),
        (0, 1, 2),
        (1, 2, 1),
    ]
    assert generations(rows)[1].is_empty


def test_records_before_any_epoch_are_no_trouble() -> None:
    # compaction may have taken the record of the epoch, or left only what is current
    rows = walked(current("a", 4, [1]), *gone("z"), target("z", 1), targets_of(4))
    assert generations(rows) == []
    rows = walked(current("a", 4, [1]), member("a"), epoch(5))
    assert [row.missing_before for row in generations(rows)] == [0]


def test_a_share_group_has_epochs_as_well() -> None:
    value = ShareGroupMemberMetadataValue(None, "c", "/h", ("t",))
    rows = walked(
        write(ShareGroupMemberMetadataKey("g", "m"), value),
        write(ShareGroupMetadataKey("g"), ShareGroupMetadataValue(1, 5)),
    )
    (row,) = generations(rows)
    assert (row.protocol, row.n_members) == ("share", 1)


def test_an_epoch_that_is_written_again_is_no_rebalance() -> None:
    rows = walked(*JOINED, epoch(1), current("a", 1, [0, 1]), epoch(2, metadata_hash=10))
    assert causes(rows) == [["join"], ["topic_growth"]]
    # of a group that was deleted and made again, of which compaction took the end, it is one
    rows = walked(*JOINED, *gone("a"), member("b"), epoch(1))
    assert [row.n_members for row in generations(rows)] == [1, 1]


def test_standby_and_warmup_tasks_stand_apart_and_have_no_owner() -> None:
    tasks = (CurrentTaskIds("0", (0, 1), (7, 7)),)
    standby, warmup = (CurrentTaskIds("0", (n,), (7,)) for n in (2, 3))
    current = StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=2, active_tasks=tasks, standby_tasks=(standby,), warmup_tasks=(warmup,)
    )
    target = StreamsGroupTargetAssignmentMemberValue(active_tasks=(TaskIds("0", (0, 1)),))
    rows = walked(
        write(StreamsGroupMemberMetadataKey("g", "m"), StreamsGroupMemberMetadataValue()),
        write(StreamsGroupMetadataKey("g"), StreamsGroupMetadataValue(epoch=2)),
        write(StreamsGroupTargetAssignmentMemberKey("g", "m"), target),
        write(
            StreamsGroupTargetAssignmentMetadataKey("g"),
            StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=2),
        ),
        write(StreamsGroupCurrentMemberAssignmentKey("g", "m"), current),
    )
    assert {row.phase: row.member.assigned for row in members(rows)} == {
        "target": (("0", (0, 1)),),
        "current": (("0", (0, 1)),),
        "standby": (("0", (2,)),),
        "warmup": (("0", (3,)),),
    }
    assert generations(rows)[0].n_partitions == 2
