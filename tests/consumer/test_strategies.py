"""Test what assignors a consumer offers, and which rebalance protocol follows."""

from typing import Any

import pytest

from assignors import CooperativeStickyAssignor, RangeAssignor
from groupsdk.assignment import RebalanceProtocol
from groupsdk.consumer.strategies import Strategies, resolve
from groupsdk.errors import ConfigError, InconsistentGroupProtocolError


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


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ([], "empty"),
        ("", "empty"),
        (["range", RangeAssignor()], "'range' twice"),
        (["range", OnlyCooperative], "range: EAGER; mine: COOPERATIVE"),
        ("rnage", "did you mean 'range'"),
        (7, "no assignor"),
    ],
)
def test_what_cannot_work_is_refused(given: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Strategies(given)


def test_without_the_package_of_assignors_only_assignors_themselves_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = OnlyCooperative()
    monkeypatch.setitem(__import__("sys").modules, "assignors.registry", None)
    assert resolve(own) is own
    with pytest.raises(ConfigError, match="without the package 'assignors'"):
        resolve("range")
