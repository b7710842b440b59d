"""Test what is said about single partitions."""

import pytest

from assignors.explanation import explain
from groupsdk.assignment import Assignment, Cluster, Subscription, TopicPartition
from groupsdk.assignment.plan import Plan


CLUSTER = Cluster({"t": 4, "u": 1}, {"t": [("a",), ("b",), ("b",), ("z",)]})


def member(
    topics: str = "t", owned: tuple[int, ...] = (), generation_id: int = 1, rack: str | None = None
) -> Subscription:
    return Subscription(
        tuple(topics.split()),
        owned_partitions={"t": owned} if owned else {},
        generation_id=generation_id,
        rack_id=rack,
    )


def said(
    members: dict[str, Subscription], given: dict[str, tuple[int, ...]], number: int = 0
) -> str:
    shares = {m: Assignment({"t": given[m]} if m in given else {}) for m in members}
    return str(explain(Plan(CLUSTER, members, shares), ("t", number)))


def test_explanation_names_the_parts_of_a_plan() -> None:
    members = {"x": member(owned=(0,)), "y": member()}
    shares = {"x": Assignment({"t": (0, 1)}), "y": Assignment({"t": (2, 3)})}

    explanation = explain(Plan(CLUSTER, members, shares), TopicPartition("t", 0))

    assert (explanation.member_id, explanation.owner) == ("x", "x")
    assert str(explanation).splitlines() == [
        "t-0 is with 'x'.",
        "It stays where it was.",
        "'x' has 2 in all; the 1 other subscribers have 2 to 2.",
    ]
    assert explanation.reasons == tuple(str(explanation).splitlines()[1:])


@pytest.mark.parametrize(
    ("members", "given", "expected"),
    [
        pytest.param(
            {"x": member(), "y": member()},
            {"x": (0,)},
            "No member owned it: it is new, or its owner has left.",
            id="new",
        ),
        pytest.param(
            {"x": member(), "y": member("u", (0,))},
            {"x": (0,)},
            "Its last owner, 'y', is not subscribed to the topic any more.",
            id="unsubscribed",
        ),
        pytest.param(
            {"x": member(owned=(0,)), "y": member(owned=(0,))},
            {"x": (0,)},
            "Claimed by 'x', 'y' in generation 1 alike, so nobody was taken for its owner.",
            id="disputed",
        ),
        pytest.param(
            {"x": member(), "y": member(owned=(0, 1, 2))},
            {"x": (0,), "y": (1, 2)},
            "'y' owned 3 and now has 2.",
            id="for balance",
        ),
        pytest.param(
            {"x": member(rack="a"), "y": member(owned=(0,), rack="b")},
            {"x": (0,), "y": (1,)},
            "'y' is in rack 'b', where no replica is.",
            id="for its rack",
        ),
        pytest.param(
            {"x": member(), "y": member(owned=(0,))},
            {"x": (0,), "y": (1,)},
            "Nothing that can be seen from outside made 'y' give it up: it lost no load by it.",
            id="for nothing",
        ),
        pytest.param(
            {"x": member(), "y": member(owned=(0,))},
            {"y": (1,)},
            "Claimed by 'y': in a cooperative rebalance it is given to another only in the next round",
            id="withheld",
        ),
        pytest.param(
            {"x": member(), "y": member()},
            {"y": (1,)},
            "That is wrong: nobody claims it, so it should have been given to a subscriber.",
            id="forgotten",
        ),
        pytest.param(
            {"x": member("u"), "y": member()},
            {"x": (0,)},
            "That is wrong: 'x' did not subscribe to 't'.",
            id="given to a stranger",
        ),
        pytest.param({"x": member("u")}, {}, "Nobody subscribed to 't'.", id="unwanted"),
        pytest.param(
            {"x": member(), "y": member("u")},
            {"x": (0,)},
            "'x' is the only subscriber of 't'.",
            id="no choice",
        ),
        pytest.param(
            {"x": member(), "y": member()},
            {"x": (0, 1, 2), "y": (3,)},
            "Balance alone would rather have it with 'y'.",
            id="unfair",
        ),
        pytest.param(
            {"x": member(rack="a")},
            {"x": (0,)},
            "'x' is in rack 'a', where a replica is (a).",
            id="near",
        ),
        pytest.param(
            {"x": member(rack="c"), "y": member(rack="a")},
            {"x": (0,), "y": (1,)},
            "'x' is in rack 'c', the replicas are in a; of the 1 subscribers that are near, 'y' has "
            "the least with 1.",
            id="another is near",
        ),
        pytest.param(
            {"x": member(rack="c")},
            {"x": (0,)},
            "'x' is in rack 'c'; no subscriber is in a rack of the replicas (a).",
            id="nobody is near",
        ),
    ],
)
def test_reason_of_an_assignment_is_explained(
    members: dict[str, Subscription], given: dict[str, tuple[int, ...]], expected: str
) -> None:
    assert expected in said(members, given)


def test_a_partition_that_does_not_exist() -> None:
    assert "The topic 't' has 4 partitions, numbered from 0: this is none" in said(
        {"x": member()}, {}, 4
    )


def test_a_topic_that_is_not_known() -> None:
    text = str(explain(Plan(CLUSTER, {"x": member("gone")}, {"x": Assignment()}), ("gone", 0)))

    assert (
        text
        == "gone-0 is with nobody.\nThe topic 'gone' is not known, and nothing of it is assigned."
    )
