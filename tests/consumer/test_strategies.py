"""Test what assignors a consumer offers, and which rebalance protocol follows."""

from typing import Any

import pytest

from assignors import CooperativeStickyAssignor, RangeAssignor
from groupsdk.assignment import Assignment, Cluster, RebalanceProtocol, resolve_assignor
from groupsdk.consumer.strategies import Strategies, check_exists
from groupsdk.errors import AssignmentError, ConfigError, InconsistentGroupProtocolError


@pytest.mark.parametrize(
    ("given", "names", "protocol"),
    [
        ("range", ["range"], RebalanceProtocol.EAGER),
        ("range, roundrobin", ["range", "roundrobin"], RebalanceProtocol.EAGER),
        (["range", "cooperative-sticky"], ["range", "cooperative-sticky"], RebalanceProtocol.EAGER),
        (CooperativeStickyAssignor, ["cooperative-sticky"], RebalanceProtocol.COOPERATIVE),
        ([RangeAssignor(), "sticky"], ["range", "sticky"], RebalanceProtocol.EAGER),
        ("org.apache.kafka.clients.consumer.RangeAssignor", ["range"], RebalanceProtocol.EAGER),
        ("assignors.range:RangeAssignor", ["range"], RebalanceProtocol.EAGER),
    ],
)
def test_assignors_come_in_every_shape(
    given: Any, names: list[str], protocol: RebalanceProtocol
) -> None:
    strategies = Strategies(given)
    assert [each.name for each in strategies] == names
    assert strategies.protocol is protocol
    assert strategies.cooperative is (protocol is RebalanceProtocol.COOPERATIVE)


def test_the_chosen_one_has_to_be_one_of_them() -> None:
    strategies = Strategies(["range", "sticky"])
    assert strategies.chosen("sticky").name == "sticky"
    with pytest.raises(InconsistentGroupProtocolError, match=r"'mine', but .* range, sticky"):
        strategies.chosen("mine")


class OnlyCooperative(RangeAssignor):
    name = "mine"
    supported_protocols = frozenset({RebalanceProtocol.COOPERATIVE})


class NotAFrozenset(RangeAssignor):
    supported_protocols = RebalanceProtocol.EAGER  # type: ignore[assignment]


class Nameless(RangeAssignor):
    name = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ([], "empty"),
        (NotAFrozenset, "supported_protocols are <RebalanceProtocol.EAGER.*, not a frozenset"),
        (Nameless, "its name is None, not a non-empty string"),
        ("", "empty"),
        (["range", RangeAssignor()], "'range' twice"),
        (["range", OnlyCooperative], "range: EAGER; mine: COOPERATIVE"),
        ("rnage", "did you mean 'range'"),
        (7, "is not an assignor"),
    ],
)
def test_unusable_strategies_are_refused(given: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Strategies(given)


def test_without_the_package_of_assignors_only_assignors_themselves_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = OnlyCooperative()
    monkeypatch.setitem(__import__("sys").modules, "assignors.registry", None)
    assert resolve_assignor(own) is own
    with pytest.raises(ConfigError, match="without the package 'assignors'"):
        resolve_assignor("range")


@pytest.mark.parametrize(
    ("topic", "number", "words"),
    [
        ("t", 99, r"t-99 to 'a', but topic 't' has partitions 0 to 2"),
        ("t", -7, r"t--7 to 'a', but topic 't' has partitions 0 to 2"),
        ("t", 3, r"t-3 to 'a'"),
        ("u", 0, r"u-0 to 'a', but topic 'u' does not exist"),
    ],
)
def test_a_plan_with_a_partition_that_does_not_exist_is_refused(
    topic: str, number: int, words: str
) -> None:
    cluster = Cluster({"t": 3})
    good = {"b": Assignment({"t": (0, 2)}), "c": Assignment({"u": ()}), "d": Assignment()}
    check_exists("mine", cluster, good)
    with pytest.raises(AssignmentError, match=f"'mine' gives {words}"):
        check_exists("mine", cluster, good | {"a": Assignment({topic: (0, 1, number)[-1:]})})
