"""Runs the example of assignors for consumers, and holds each of them to what it says."""

import importlib
import re
from collections.abc import Callable
from typing import Any

import pytest

from assignors import check_assignor
from groupsdk.assignment import Cluster, GroupAssignment, Subscription
from groupsdk.testing import LocalKafka
from tests.examples.conftest import StartExample
from tests.examples.process import ROOT


example: Any = importlib.import_module("examples.custom_consumer_assignor")


def counts(plan: GroupAssignment) -> dict[str, int]:
    """Returns how many partitions each member has."""
    return {member_id: len(share) for member_id, share in plan.items()}


@pytest.mark.parametrize(
    "make", [example.CapacityAssignor, example.LagAssignor, example.KeyAssignor]
)
def test_an_assignor_keeps_the_contract(make: Callable[[], Any]) -> None:
    assert check_assignor(make, cases=50) == 100


def test_capacities_share_out_in_proportion() -> None:
    members = {
        "big": Subscription(("jobs",), example.CapacityAssignor(3).subscription_user_data(())),
        "small": Subscription(("jobs",), example.CapacityAssignor(1).subscription_user_data(())),
    }
    plan = example.CapacityAssignor().assign(Cluster({"jobs": 8}), members)
    assert counts(plan) == {"big": 6, "small": 2}


def test_a_long_lag_is_all_that_a_member_has() -> None:
    lags = {("jobs", 3): 1_000, ("jobs", 0): 10}
    members = {"a": Subscription(("jobs",)), "b": Subscription(("jobs",))}
    plan = example.LagAssignor(lambda: lags).assign(Cluster({"jobs": 6}), members)
    alone = next(share for share in plan.values() if 3 in share.partitions["jobs"])
    assert len(alone) == 1


def test_topics_go_to_those_who_have_their_key() -> None:
    topics = ("x.jobs", "y.jobs", "z.jobs")
    members = {"a": Subscription(topics, b"x"), "b": Subscription(topics, b"y")}
    plan = example.KeyAssignor().assign(Cluster(dict.fromkeys(topics, 2)), members)
    assert set(plan["a"].partitions) == {"x.jobs", "z.jobs"}
    assert set(plan["b"].partitions) == {"y.jobs", "z.jobs"}


@pytest.mark.kafka
def test_the_example_shares_out_by_capacity(
    own_kafka: Callable[..., LocalKafka], start_example: StartExample
) -> None:
    kafka = own_kafka()
    process = start_example(
        "examples/custom_consumer_assignor.py", "--bootstrap-servers", kafka.bootstrap_servers
    )
    process.wait_for("^key holds on 400 groups")
    assert process.end() == 0
    shown = [line for line in process.lines if " has " in line]
    assert "big has 6 partitions" in shown
    assert "small has 2 partitions" in shown


def test_the_assignor_of_the_page_keeps_the_contract() -> None:
    text = (ROOT / "docs/consumer.md").read_text(encoding="utf-8")
    code = next(
        each for each in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "class Cap" in each
    )
    names: dict[str, Any] = {}
    exec(code, names)
    assert check_assignor(names["CapacityAssignor"], cases=50) == 100
    assert code.count("\n") <= 40
