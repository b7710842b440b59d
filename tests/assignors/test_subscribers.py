"""Test who subscribed to what, and in which order members and topics are taken."""

from typing import cast

import pytest

from assignors.subscribers import (
    checked,
    java_topic_order,
    member_order,
    partition_counts,
    subscribers_of,
)
from groupsdk.assignment import Cluster, Subscription
from tests.assignors.groups import cluster, subscribed


def test_static_members_come_first_by_instance_id_then_the_others_by_member_id() -> None:
    members = subscribed("m-0 m-a m-z m-b", "t", instance={"m-z": "a", "m-a": "b"})

    assert member_order(members) == ["m-z", "m-a", "m-0", "m-b"]


def test_members_are_ordered_by_utf16_code_units() -> None:
    instance = {"x": "\ufffd", "y": "\U0001f600"}

    assert member_order(subscribed("x y", "t", instance=instance)) == ["y", "x"]
    assert member_order(subscribed("\ufffd \U0001f600", "t")) == ["\U0001f600", "\ufffd"]


def test_members_with_one_instance_id_are_ordered_by_member_id() -> None:
    members = subscribed("b a", "t", instance={"a": "i", "b": "i"})

    assert member_order(members) == ["a", "b"]


def test_an_empty_instance_id_is_one() -> None:
    assert member_order(subscribed("a b", "t", instance={"b": ""})) == ["b", "a"]


def test_subscribers_are_numbered_in_the_order_given() -> None:
    members = subscribed({"C0": "t u", "C1": "u", "C2": "t u gone"})

    found = subscribers_of({"t": 1, "u": 1, "v": 1}, members, ["C2", "C1", "C0"])

    assert {topic: list(each) for topic, each in found.topics.items()} == {
        "t": [0, 2],
        "u": [0, 1, 2],
    }


def test_equal_lists_of_topics_are_one() -> None:
    members = {"a": Subscription(["t", "u"]), "b": Subscription(("t", "u"))}

    found = subscribers_of({"t": 1, "u": 1}, members, ["a", "b"])

    assert found.topics["t"] is found.topics["u"]


def test_topics_without_partitions_do_not_count() -> None:
    assert partition_counts(cluster(t=2, none=0)) == {"t": 2}


@pytest.mark.parametrize(("count", "text"), [(-1, "-1"), ((1 << 31) + 1, "2147483649")])
def test_a_number_of_partitions_that_cannot_be(count: int, text: str) -> None:
    with pytest.raises(
        ValueError, match=f"topic 't': the number of partitions is {text}, not 0 to 2147483648"
    ):
        partition_counts(cluster(t=count))


def test_a_number_of_partitions_that_is_no_int() -> None:
    with pytest.raises(TypeError, match="topic 't': the number of partitions is '3', not an int"):
        partition_counts(cluster(t=cast("int", "3")))


def test_topics_that_are_one_string() -> None:
    with pytest.raises(TypeError, match="member 'm': topics is the string 'abc'"):
        checked({"m": Subscription("abc")})


def test_the_order_of_topics_depends_on_no_order_of_the_input() -> None:
    # "Aa" and "BB" share a bucket, in which the first one put in comes first
    counts = {"BB": 1, "Aa": 1}
    one = {"x": Subscription(("BB",)), "y": Subscription(("Aa",))}
    other = dict(reversed(one.items()))

    assert java_topic_order(counts, one) == java_topic_order(counts, other)
    assert java_topic_order(counts, {"x": Subscription(("BB", "Aa"))}) == ["Aa", "BB"]


def test_topics_that_are_not_known_decide_with_on_the_order() -> None:
    # Kafka's HashSet of all subscribed topics holds them; seven are too few to let it grow
    counts = {"Aa": 1, "BB": 1}
    members = {"x": Subscription(("Aa", "BB", *(f"gone-{n}" for n in range(7))))}

    assert java_topic_order(counts, members) == ["Aa", "BB"]


def test_nothing_in_nothing_out() -> None:
    assert java_topic_order({}, {}) == []
    assert subscribers_of({}, {}, []).topics == {}
    assert partition_counts(Cluster({})) == {}
