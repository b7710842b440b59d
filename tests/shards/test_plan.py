"""Holds the plan of who should own what."""

from groupsdk.shards.plan import PlanSettings, plan_targets
from groupsdk.shards.protocol import MemberState
from groupsdk.shards.shard_list import checked_shards


def test_equal_shards_are_shared_evenly_and_stay() -> None:
    shards = checked_shards(f"s-{number}" for number in range(7))
    members = {"a": MemberState(), "b": MemberState()}
    owners = {f"s-{number}": "a" for number in range(5)}

    plan = plan_targets(shards, members, owners, PlanSettings())

    loads = [list(plan.targets.values()).count(member) for member in members]
    assert sorted(loads) == [3, 4]
    assert plan.moves == 1


def test_a_draining_member_is_no_target() -> None:
    shards = checked_shards(["x", "y"])
    members = {"a": MemberState(draining=True), "b": MemberState()}

    plan = plan_targets(shards, members, {"x": "a"}, PlanSettings())

    assert plan.targets == {"x": "b", "y": "b"}


def test_without_a_member_nothing_can_be_placed() -> None:
    plan = plan_targets(checked_shards(["x"]), {}, {}, PlanSettings())

    assert list(plan.unplaceable) == ["x"]
