"""Test what is found wrong with plans."""

from typing import cast

import pytest

from groupsdk.assignment import Assignment, Cluster, GroupAssignment, Subscription, TopicPartition
from groupsdk.assignment.plan import Plan, find_problems, owners


CLUSTER = Cluster({"t": 2, "u": 1, "nobody's": 3, "empty": 0})
MEMBERS = {"a": Subscription(("t", "u", "gone")), "b": Subscription(("t", "empty"))}


def plan(a: dict[str, tuple[int, ...]], b: dict[str, tuple[int, ...]]) -> Plan:
    return Plan(CLUSTER, MEMBERS, {"a": Assignment(a), "b": Assignment(b)})


def test_a_valid_plan_has_no_problems() -> None:
    assert list(find_problems(plan({"t": (0,), "u": (0,)}, {"t": (1,)}))) == []


@pytest.mark.parametrize(
    ("a", "b", "problem"),
    [
        ({"t": (0,), "u": (0,)}, {}, "t-1 is not assigned to anyone"),
        ({"t": (0, 1), "u": (0,)}, {"t": (1,)}, "t-1 is given to both 'a' and 'b'"),
        ({"t": (0, 0), "u": (0,)}, {"t": (1,)}, "t-0 is given to both 'a' and 'a'"),
        (
            {"t": (0, 2), "u": (0,)},
            {"t": (1,)},
            "member 'a' is given t-2, which does not exist",
        ),
        (
            {"t": (0, -1), "u": (0,)},
            {"t": (1,)},
            "member 'a' is given t--1, which does not exist",
        ),
        (
            {"t": (0,), "u": (0,), "gone": (0,)},
            {"t": (1,)},
            "member 'a' is given gone-0, which does not exist",
        ),
        (
            {"t": (0,)},
            {"t": (1,), "u": (0,)},
            "member 'b' is given u-0, but did not subscribe to 'u'",
        ),
    ],
)
def test_problem_of_a_plan_is_found_alone(
    a: dict[str, tuple[int, ...]], b: dict[str, tuple[int, ...]], problem: str
) -> None:
    assert list(find_problems(plan(a, b))) == [problem]


@pytest.mark.parametrize(
    ("assignment", "problem"),
    [
        ({"a": Assignment({"t": (0, 1), "u": (0,)})}, "member 'b' is not in the plan"),
        (
            {"a": Assignment({"t": (0, 1), "u": (0,)}), "b": Assignment(), "c": Assignment()},
            "the plan has 'c', which is not a member",
        ),
        (
            {"a": Assignment({"t": (0, 1), "u": (0,)}), "b": {"t": (0,)}},
            "member 'b' is given {'t': (0,)}, which is not an Assignment",
        ),
        ([], "the plan must be a mapping of member ids, not []"),
    ],
)
def test_plans_of_the_wrong_shape(assignment: object, problem: str) -> None:
    wrong = Plan(CLUSTER, MEMBERS, cast("GroupAssignment", assignment))

    assert list(find_problems(wrong)) == [problem]


def claiming(generations: dict[str, int]) -> dict[str, Subscription]:
    return {
        member_id: Subscription(("t",), owned_partitions={"t": (0, 0)}, generation_id=generation)
        for member_id, generation in generations.items()
    }


def test_claimed_partition_may_be_withheld_in_a_cooperative_plan() -> None:
    members = claiming({"a": 1}) | {"b": Subscription(("t",))}
    withheld = Plan(CLUSTER, members, {"a": Assignment(), "b": Assignment({"t": (1,)})})

    assert list(find_problems(withheld, may_withhold=True)) == []
    assert list(find_problems(withheld)) == ["t-0 is not assigned to anyone"]


def test_owned_partition_given_to_another_at_once_is_a_problem() -> None:
    members = claiming({"a": 1}) | {"b": Subscription(("t",))}
    taken = Plan(CLUSTER, members, {"a": Assignment({"t": (1,)}), "b": Assignment({"t": (0,)})})

    assert list(find_problems(taken, may_withhold=True)) == [
        "t-0 is given to 'b' while 'a' still owns it: it must be revoked first"
    ]
    assert list(find_problems(taken)) == []


@pytest.mark.parametrize(
    ("generations", "owner"),
    [({"a": 1, "b": 2}, "b"), ({"a": 2, "b": 1}, "a"), ({"a": 2, "b": 2}, None), ({"a": -5}, "a")],
)
def test_the_owner_is_who_claims_last_and_alone(
    generations: dict[str, int], owner: str | None
) -> None:
    one = Plan(CLUSTER, claiming(generations), {})

    assert owners(one).get(TopicPartition("t", 0)) == owner


def test_claims_on_nothing_own_nothing() -> None:
    members = {
        "a": Subscription(("t",), owned_partitions={"t": (2, -1), "u": (0,), "gone": (0,)}),
        "b": Subscription(("u",)),
    }

    assert owners(Plan(CLUSTER, members, {})) == {}


def test_holders_and_what_can_be_assigned() -> None:
    one = plan({"t": (0,)}, {"t": (1,)})

    assert one.holders() == {TopicPartition("t", 0): "a", TopicPartition("t", 1): "b"}
    assert one.assignable() == {"t": 2, "u": 1}


def test_a_member_that_is_not_subscribed_any_more_still_reads_what_it_owns() -> None:
    members = {
        "a": Subscription((), owned_partitions={"t": (0,)}, generation_id=1),
        "b": Subscription(("t",)),
    }
    withheld = Plan(CLUSTER, members, {"a": Assignment(), "b": Assignment({"t": (1,)})})
    taken = Plan(CLUSTER, members, {"a": Assignment(), "b": Assignment({"t": (0, 1)})})

    assert list(find_problems(withheld, may_withhold=True)) == []
    assert list(find_problems(taken, may_withhold=True)) == [
        "t-0 is given to 'b' while 'a' still owns it: it must be revoked first"
    ]
