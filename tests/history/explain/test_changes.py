"""What two generations tell of why the second one came."""

from dataclasses import replace

from groupsdk.history.explain.changes import (
    CONFIDENCE,
    Cause,
    Changes,
    compare,
    deleted_topics,
    in_order,
    lost_work,
)
from groupsdk.history.explain.timeline.member import Member


A = Member("a", None, "one", "/h", 45_000, 300_000, ("t",), (), (("t", (0, 1)),))
B = Member("b", None, "two", "/h", 45_000, 300_000, ("t",), (), (("t", (2,)),))


def group(*members: Member) -> dict[str, Member]:
    """Name members by their ids."""
    return {member.member_id: member for member in members}


def test_a_member_that_was_not_there_has_joined() -> None:
    changes = compare(group(A), group(A, B))
    assert changes == Changes(("b",), (), {}, (), (Cause.JOIN,))


def test_of_a_member_that_is_gone_the_records_do_not_say_why() -> None:
    changes = compare(group(A, B), group(A))
    assert changes.gone == changes.departed == ("b",)
    assert changes.causes == ()


def test_the_same_client_on_the_same_host_has_started_again() -> None:
    again = replace(A, member_id="a2")
    changes = compare(group(A, B), group(again, B))
    assert changes.replaced == {"a": Cause.CLIENT_RESTART}
    assert changes.departed == ()
    assert changes.causes == (Cause.CLIENT_RESTART,)
    elsewhere = replace(again, client_host="/other")
    assert compare(group(A), group(elsewhere)).causes == (Cause.JOIN,)


def test_each_that_came_succeeds_one_that_went() -> None:
    twin = replace(A, member_id="twin")
    changes = compare(group(A, twin), group(replace(A, member_id="new")))
    assert len(changes.replaced) == 1
    assert len(changes.departed) == 1


def test_a_static_member_comes_back_under_another_id() -> None:
    static = replace(A, instance_id="i-1")
    back = replace(static, member_id="a2", client_host="/other")
    changes = compare(group(static), group(back))
    assert changes.causes == (Cause.STATIC_REPLACED,)
    assert changes.replaced == {"a": Cause.STATIC_REPLACED}
    # whoever is static is not taken for the next one of its client
    dynamic = replace(A, member_id="a3")
    assert compare(group(static), group(dynamic)).causes == (Cause.JOIN,)


def test_the_same_members_with_other_topics() -> None:
    changes = compare(group(A), group(replace(A, topics=("t", "u"))))
    assert changes.resubscribed == ("a",)
    assert changes.causes == (Cause.SUBSCRIPTION_CHANGE,)
    assert compare(group(A), group(replace(A, topics=("t",)))).causes == (Cause.REJOIN,)


def test_new_partitions_are_growth_where_nothing_else_happened() -> None:
    assert compare(group(A), group(A), news=Cause.TOPIC_GROWTH).causes == (Cause.TOPIC_GROWTH,)
    assert compare(group(A), group(A, B), news=Cause.TOPIC_GROWTH).causes == (Cause.JOIN,)


def test_a_wanted_topic_of_which_nobody_has_a_partition_any_more_is_deleted() -> None:
    both = replace(A, topics=("t", "u"), assigned=(("t", (0,)), ("u", (0,))))
    left = replace(both, assigned=(("t", (0,)),))
    assert deleted_topics(group(both), group(left)) == {"u"}
    # who does not want it any more has it no longer
    assert deleted_topics(group(both), group(replace(left, topics=("t",)))) == set()
    moved = replace(B, topics=("u",), assigned=(("u", (0,)),))
    assert deleted_topics(group(both, B), group(left, moved)) == set()


def test_work_that_nobody_has_any_more_is_lost() -> None:
    assert lost_work(group(A, B), group(A))
    assert not lost_work(group(A), group(A, B))


def test_the_second_round_of_a_cooperative_rebalance() -> None:
    # 2 was taken from its owner, and given to nobody yet
    first = group(replace(A, owned=(("t", (0, 1, 2)),)), replace(B, assigned=()))
    second = group(replace(A, owned=A.assigned), B)
    assert compare(first, second, cooperative=True).causes == (Cause.COOPERATIVE_FOLLOWUP,)
    assert compare(first, second).causes == (Cause.REJOIN,)
    # of owners that do not say what they have, what is given later tells
    unsaid = group(A, replace(B, assigned=()))
    assert compare(unsaid, group(A, B), cooperative=True).causes == (Cause.COOPERATIVE_FOLLOWUP,)


def test_the_same_members_that_want_the_same_came_because_one_asked() -> None:
    again = group(replace(A, owned=A.assigned))
    assert compare(group(A), again, cooperative=True).causes == (Cause.REJOIN,)
    assert compare(again, again).causes == (Cause.REJOIN,)
    assert compare({}, {}).causes == ()


def test_several_causes_stand_with_the_most_telling_first() -> None:
    static = replace(B, instance_id="i")
    changes = compare(
        group(A, static), group(replace(A, topics=("u",)), replace(static, member_id="b2"))
    )
    assert changes.causes == (Cause.SUBSCRIPTION_CHANGE, Cause.STATIC_REPLACED)
    assert in_order({Cause.JOIN, Cause.EXPIRY}) == (Cause.EXPIRY, Cause.JOIN)
    # who replaces a static member does not make the others come: whatever else happened did
    assert in_order(tuple(Cause))[-2:] == (Cause.STATIC_REPLACED, Cause.UNKNOWN)


def test_every_cause_says_how_far_it_can_be_trusted() -> None:
    assert set(CONFIDENCE) == set(Cause)
    assert all(0 <= how <= 1 for how in CONFIDENCE.values())
