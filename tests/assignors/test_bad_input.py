"""What members claim and send may be anything: the result is valid, or the error says what is wrong."""

import logging
from collections.abc import Mapping, Sequence
from typing import cast

import pytest

from assignors.registry import resolve
from assignors.sticky.user_data import encode_claim
from assignors.weighted import WeightReport
from groupsdk.assignment import Cluster, PartitionAssignor, Subscription
from groupsdk.assignment.check.steps import StepLimit
from groupsdk.assignment.plan import Plan, find_problems
from tests.support.cases import each_case


NAMES = ("range", "roundrobin", "sticky", "cooperative-sticky", "weighted", "lag")
CLUSTER = Cluster({"t": 6, "u": 3, "empty": 0})
STEPS = 20_000


def claiming(
    name: str, topics: Sequence[str], owned: Mapping[str, Sequence[int]], generation_id: int
) -> Subscription:
    """Lets a member claim something in the place where an assignor looks for it."""
    data = None
    if name == "sticky":
        data = encode_claim(owned, generation_id)
    elif name == "weighted":
        weights = {topic: dict.fromkeys(numbers, 2.0) for topic, numbers in owned.items()}
        data = WeightReport(1.0, owned, generation_id, weights).encode()
    return Subscription(topics, data, owned, generation_id)


Claim = tuple[Sequence[str], Mapping[str, Sequence[int]], int]
BOTH = ("t", "u")

CLAIMS: dict[str, dict[str, Claim]] = {
    "no members": {},
    "members without topics": {"a": ((), {}, -1), "b": ((), {"t": (0,)}, 1)},
    "one without topics": {"a": ((), {"t": (0, 1)}, 1), "b": (BOTH, {}, 1)},
    "unknown topics": {"a": (("x", "t"), {"x": (0, 1)}, 1), "b": (("y",), {"y": (7,)}, 1)},
    "a topic without partitions": {"a": (("empty",), {"empty": (0,)}, 1), "b": (BOTH, {}, 1)},
    "a topic named twice": {"a": (("t", "t", "u"), {"t": (0,)}, 1), "b": (BOTH, {}, 1)},
    "claimed by two": {"a": (BOTH, {"t": (0, 1)}, 3), "b": (BOTH, {"t": (0, 1)}, 3)},
    "claimed by all": {m: (BOTH, {"t": range(6), "u": range(3)}, 3) for m in "abcd"},
    "claimed twice by one": {"a": (BOTH, {"t": (0, 0, 1, 1)}, 3), "b": (BOTH, {"u": (2, 2)}, 3)},
    "by a stale generation": {"a": (BOTH, {"t": (0, 1)}, 1), "b": (BOTH, {"t": (0, 1)}, 7)},
    "by a generation below none": {"a": (BOTH, {"t": (0,)}, -9), "b": (BOTH, {"t": (0,)}, -1)},
    "by the greatest generation": {"a": (BOTH, {"t": (0,)}, 2**31 - 1), "b": (BOTH, {}, 0)},
    "partitions that are gone": {"a": (BOTH, {"t": (0, 6, 99)}, 3), "b": (BOTH, {"u": (3,)}, 3)},
    "negative numbers": {"a": (BOTH, {"t": (-1, -6, 0)}, 3), "b": (BOTH, {"u": (-(2**31),)}, 3)},
    "the greatest number": {"a": (BOTH, {"t": (2**31 - 1,)}, 3), "b": (BOTH, {}, 3)},
    "not subscribed any more": {"a": (("u",), {"t": (0, 1, 2)}, 3), "b": (BOTH, {}, 3)},
    "nothing of a topic": {"a": (BOTH, {"t": (), "u": ()}, 3), "b": (BOTH, {}, 3)},
}


def assigned(
    name: str, subscriptions: Mapping[str, Subscription], cluster: Cluster = CLUSTER
) -> Plan:
    """Shares out, within a number of steps."""
    with StepLimit(STEPS):
        return Plan(cluster, subscriptions, resolve(name).assign(cluster, subscriptions))


@each_case("name", NAMES)
@pytest.mark.parametrize("what", CLAIMS)
def test_any_claim_leads_to_a_valid_plan(name: str, what: str) -> None:
    members = {m: claiming(name, *claim) for m, claim in CLAIMS[what].items()}

    plan = assigned(name, members)

    assert not list(find_problems(plan, may_withhold=name in ("cooperative-sticky", "lag")))
    assert plan.assignment.keys() == members.keys()


@each_case("name", NAMES)
@pytest.mark.parametrize("what", CLAIMS)
def test_a_cooperative_group_gets_everything_in_the_second_round(name: str, what: str) -> None:
    members = {m: claiming(name, *claim) for m, claim in CLAIMS[what].items()}
    first = assigned(name, members)
    again = {
        member: claiming(name, each.topics, first.assignment[member].partitions, 8)
        for member, each in members.items()
    }

    assert not list(find_problems(assigned(name, again)))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\0", id="one byte"),
        pytest.param(b"\xff" * 40, id="minus one everywhere"),
        pytest.param(b"\x7f\xff\xff\xff" * 10, id="counts too great"),
        pytest.param(b"\0\0\0\1\0\1\xff\0\0\0\1\0\0\0\0\0\0\0\1", id="a topic that is no text"),
        pytest.param(encode_claim({"t": (0,)}, 1)[:-5], id="cut off"),
        pytest.param(b"a" * 100_000, id="long"),
    ],
)
def test_user_data_that_does_not_parse_is_no_claim(
    name: str, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    members = {"a": Subscription(BOTH, data), "b": Subscription(BOTH)}

    with caplog.at_level(logging.CRITICAL):
        plan = assigned(name, members)

    assert not list(find_problems(plan))


@pytest.mark.parametrize("name", NAMES)
def test_no_topics_at_all(name: str) -> None:
    plan = assigned(name, {"a": Subscription(("t",))}, Cluster({}))

    assert len(plan.assignment["a"]) == 0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("count", "error", "message"),
    [
        (-1, ValueError, "topic 't': the number of partitions is -1, not 0 to 2147483648"),
        (2**31 + 1, ValueError, "topic 't': the number of partitions is 2147483649"),
        ("3", TypeError, "topic 't': the number of partitions is '3', not an int"),
        (2.0, TypeError, "topic 't': the number of partitions is 2.0, not an int"),
        (None, TypeError, "topic 't': the number of partitions is None, not an int"),
    ],
)
def test_numbers_of_partitions_that_cannot_be(
    name: str, count: object, error: type[Exception], message: str
) -> None:
    cluster = Cluster({"t": cast("int", count)})

    with pytest.raises(error, match=message):
        resolve(name).assign(cluster, {"a": Subscription(("t",))})


@pytest.mark.parametrize("name", NAMES)
def test_topics_given_as_one_string(name: str) -> None:
    with pytest.raises(TypeError, match="member 'a': topics is the string 'orders', not a list"):
        resolve(name).assign(Cluster({"orders": 1}), {"a": Subscription("orders")})


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "racks",
    [
        pytest.param([], id="of no partition"),
        pytest.param([("a",)], id="of one partition"),
        pytest.param([("a",)] * 20, id="of more partitions than there are"),
        pytest.param([()] * 6, id="none"),
        pytest.param([("",)] * 6, id="without a name"),
        pytest.param([["a", "a"], {"b"}, frozenset("c"), ("d",), "e", ()], id="of all types"),
    ],
)
def test_racks_of_any_shape(name: str, racks: list[Sequence[str]]) -> None:
    cluster = Cluster({"t": 6}, {"t": racks, "unknown": [("a",)]})
    members = {
        rack or "none": Subscription(("t",), rack_id=rack) for rack in ("a", "b", "", None, "z")
    }

    assert not list(find_problems(assigned(name, members, cluster)))


def test_all_shipped_assignors_are_looked_at() -> None:
    made: list[PartitionAssignor] = [resolve(name) for name in NAMES]

    assert [each.name for each in made] == list(NAMES)
