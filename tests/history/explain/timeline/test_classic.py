"""Groups of the classic protocol, followed from generation to generation."""

from examples.history_log import Seat, deletion, generation
from groupsdk.history.explain.timeline.rows import MemberRow
from groupsdk.wire.coordinator_records.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from groupsdk.wire.coordinator_records.offsets_log import write
from tests.history.explain.timelines import (
    causes,
    departures,
    generations,
    members,
    memberships,
    rejects,
    walked,
)


ONE = Seat("one", {"t": [0, 1]})
TWO = Seat("two", {"t": [2]})


def test_a_group_is_made_joined_grows_and_ends() -> None:
    rows = walked(
        generation("g", 0, {}),
        generation("g", 1, {"a": Seat("one", {"t": [0, 1, 2]})}),
        generation("g", 2, {"a": ONE, "b": TWO}),
        generation("g", 3, {"a": Seat("one", {"t": [0, 1]}), "b": Seat("two", {"t": [2, 3]})}),
        generation("g", 4, {}),
    )
    assert causes(rows) == [["created"], ["join"], ["join"], ["topic_growth"], []]
    found = generations(rows)
    assert [row.n_members for row in found] == [0, 1, 2, 2, 0]
    assert [row.n_partitions for row in found] == [0, 3, 3, 4, 0]
    assert [row.joined for row in found] == [0, 1, 1, 0, 0]
    assert [row.gone for row in found] == [0, 0, 0, 0, 2]
    assert [row.is_empty for row in found] == [True, False, False, False, True]
    assert [row.seq for row in found] == [0, 1, 2, 3, 4]
    assert [row.ts_ms for row in found] == [0, 1000, 2000, 3000, 4000]
    assert found[2].balance_stddev == 0.5
    assert (found[2].assignor, found[2].leader) == ("range", "a")
    assert {row.member.member_id for row in departures(rows)} == {"a", "b"}
    assert all(row.seq == 4 for row in departures(rows))


def test_member_that_joined_and_left_before_its_record_is_told() -> None:
    rows = walked(
        generation("g", 0, {}),
        generation("g", 0, {}),
        generation("g", 1, {}),
        generation("g", 3, {}),
        deletion("g"),
        generation("g", 0, {}),
    )
    assert causes(rows) == [["created"], ["join"], ["join"], ["created"]]
    assert [row.missing_before for row in generations(rows)] == [0, 0, 1, 0]


def test_members_have_their_shares_beside_their_generation() -> None:
    rows = walked(generation("g", 1, {"a": ONE, "b": TWO}))
    found = members(rows)
    assert [(row.member.member_id, row.member.assigned, row.phase) for row in found] == [
        ("a", (("t", (0, 1)),), "final"),
        ("b", (("t", (2,)),), "final"),
    ]
    assert isinstance(found[0], MemberRow)
    assert found[0].member.topics == ("t",)


def test_the_last_record_of_a_generation_counts() -> None:
    # A static member that comes back takes over under another id, and the generation is written again.
    rows = walked(
        generation("g", 1, {"a": Seat("one", {"t": [0]}, instance_id="i")}),
        generation("g", 2, {"a": Seat("one", {"t": [0]}, instance_id="i"), "b": TWO}),
        generation("g", 2, {"a2": Seat("one", {"t": [0]}, instance_id="i"), "b": TWO}),
        generation("g", 3, {"b": TWO}),
    )
    assert causes(rows) == [["join"], ["join", "static_replaced"], []]
    second = generations(rows)[1]
    # but it began where it was first written: what was committed in between was committed in it
    assert (second.seq, second.ts_ms, second.offset) == (1, 1000, 1)
    ends = {row.member.member_id: (row.end_reason, row.end_ms) for row in memberships(rows)}
    assert ends == {"a": ("static_replaced", 2000), "a2": (None, 3000), "b": (None, -1)}
    starts = {row.member.member_id: (row.start_ms, row.offset) for row in memberships(rows)}
    assert starts == {"a": (0, 0), "a2": (2000, 2), "b": (1000, 1)}
    assert [row.member.member_id for row in departures(rows)] == ["a2"]


def test_a_static_member_that_comes_back_is_not_why_the_others_had_come_again() -> None:
    static = Seat("one", {"t": [0]}, instance_id="i")
    rows = walked(
        generation("g", 1, {"a": static, "b": TWO}),
        generation("g", 2, {"a": static, "b": TWO}),
        generation("g", 2, {"a2": static, "b": TWO}),
        generation("g", 3, {"a3": static, "b": TWO}),
    )
    assert causes(rows) == [["join"], ["rejoin", "static_replaced"], ["static_replaced"]]


def test_a_group_that_is_made_again_is_another_incarnation() -> None:
    rows = walked(
        generation("g", 1, {"a": ONE}),
        deletion("g"),
        deletion("g"),
        generation("g", 1, {"a": ONE}),
    )
    first, second = generations(rows)
    assert (first.incarnation, first.seq, second.incarnation, second.seq) == (0, 0, 1, 1)
    assert second.missing_before == 0
    assert [row.end_reason for row in memberships(rows)] == ["group_deleted", None]


def test_a_hole_that_compaction_left_is_counted() -> None:
    rows = walked(generation("g", 5, {"a": ONE}), generation("g", 9, {"a": ONE, "b": TWO}))
    first, second = generations(rows)
    assert first.causes == ()
    assert first.missing_before == 0
    assert second.missing_before == 3


def test_generations_that_count_backwards_are_no_hole() -> None:
    rows = walked(generation("g", 9, {"a": ONE}), generation("g", 2, {"a": ONE}))
    assert [row.missing_before for row in generations(rows)] == [0, 0]


def test_the_same_members_over_a_hole_tell_nothing() -> None:
    rows = walked(*(generation("g", number, {"a": ONE}) for number in (1, 2, 4)))
    assert causes(rows) == [["join"], ["rejoin"], []]


def test_a_topic_that_was_wanted_and_is_there_at_last_has_grown() -> None:
    wanting = Seat("one", {"t": [0]}, ("t", "later"))
    rows = walked(
        generation("g", 1, {"a": wanting}),
        generation("g", 2, {"a": Seat("one", {"t": [0], "later": [0]}, ("t", "later"))}),
    )
    assert causes(rows) == [["join"], ["topic_growth"]]


def test_a_topic_that_is_deleted_is_the_cause() -> None:
    both = Seat("one", {"t": [0], "u": [0]}, ("t", "u"))
    rows = walked(
        generation("g", 1, {"a": both}),
        generation("g", 2, {"a": Seat("one", {"t": [0]}, ("t", "u"))}),
    )
    assert causes(rows) == [["join"], ["topic_deleted"]]


def test_changed_leader_of_the_partition_is_a_changed_coordinator() -> None:
    rows = walked(
        *(generation("g", number, {"a": ONE}) for number in (1, 2, 3, 4)), epochs=(4, 4, 6, 6)
    )
    assert [row.coordinator_changed for row in generations(rows)] == [False, False, True, False]


def test_a_generation_that_is_written_again_by_another_coordinator_did_not_begin_there() -> None:
    static = Seat("one", {"t": [0]}, instance_id="i")
    rows = walked(
        generation("g", 1, {"a": static}),
        generation("g", 1, {"a2": static}),
        generation("g", 2, {"a2": static, "b": TWO}),
        generation("g", 3, {"a2": static}),
        epochs=(4, 6, 6, 6),
    )
    # the generation after it is the first one since
    assert [row.coordinator_changed for row in generations(rows)] == [False, True, False]


def test_a_cooperative_group_comes_twice() -> None:
    rows = walked(
        generation("g", 1, {"a": Seat("one", {"t": [0, 1, 2]})}, protocol="cooperative-sticky"),
        generation("g", 2, {"a": ONE, "b": Seat("two", {}, ("t",))}, protocol="cooperative-sticky"),
        generation("g", 3, {"a": ONE, "b": Seat("two", {"t": [2]})}, protocol="cooperative-sticky"),
    )
    assert causes(rows) == [["join"], ["join"], ["cooperative_followup"]]


def test_a_log_that_begins_between_two_rounds_shows_no_growth() -> None:
    had = Seat("one", {"t": [0, 1]}, owned={"t": [0, 1, 2]})
    rows = walked(
        generation("g", 7, {"a": had, "b": Seat("two", {}, ("t",))}, protocol="cooperative-sticky"),
        generation("g", 8, {"a": ONE, "b": TWO}, protocol="cooperative-sticky"),
        generation(
            "g", 9, {"a": ONE, "b": Seat("two", {"t": [2, 3]})}, protocol="cooperative-sticky"
        ),
    )
    assert causes(rows) == [[], ["cooperative_followup"], ["topic_growth"]]


def test_the_members_of_a_streams_application_keep_what_does_not_move() -> None:
    rows = walked(
        generation("g", 1, {"a": Seat("one", {"t": [0, 1, 2]})}, protocol="stream"),
        generation("g", 2, {"a": ONE, "b": Seat("two", {}, ("t",))}, protocol="stream"),
        generation("g", 3, {"a": ONE, "b": TWO}, protocol="stream"),
    )
    assert causes(rows) == [["join"], ["join"], ["cooperative_followup"]]


def test_a_member_with_the_same_data_is_decoded_once_for_each_assignor() -> None:
    rows = walked(
        generation("g", 1, {"a": ONE}, protocol="range"),
        generation("g", 2, {"a": ONE}, protocol="range"),
        generation("g", 3, {"a": ONE}, protocol="roundrobin"),
    )
    first, second, third = (row.member for row in members(rows))
    assert second is first
    assert third.assignor_offered == "roundrobin"


def test_members_of_an_unknown_kind_have_no_partitions() -> None:
    member = MemberMetadata("w", None, "connect", "/h", 60_000, 10_000, b"\0\1what", b"\0\2")
    value = GroupMetadataValue("of ours", 1, "v1", "w", 0, (member,))
    rows = walked(write(GroupMetadataKey("g"), value))
    assert generations(rows)[0].protocol_type == "of ours"
    assert members(rows)[0].member.assigned == ()
    assert rejects(rows) == []


def test_an_assignment_that_cannot_be_read_is_said_and_the_member_stays() -> None:
    member = MemberMetadata("w", None, "c", "/h", -1, 10_000, b"\0\0\0\0", b"\0\1\xff")
    value = GroupMetadataValue("consumer", 1, "range", "w", 0, (member,))
    rows = walked(write(GroupMetadataKey("g"), value, 0))
    (reject,) = rejects(rows)
    assert "member w" in reject.reason
    assert members(rows)[0].member.rebalance_timeout_ms == 10_000
