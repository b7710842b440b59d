"""Holds what members are told: release first, then gain, with epochs that rise."""

from groupsdk.shards.handover import (
    LeaderMemory,
    assign_shards,
    known_incarnation,
    least_incarnation,
)
from groupsdk.shards.plan import PlanSettings
from groupsdk.shards.protocol import MemberState, Progress, decode_assignment, epoch_of
from groupsdk.shards.shard_list import checked_shards


def test_a_shard_is_given_to_its_target_only_when_nobody_claims_it() -> None:
    shards = checked_shards(["x", "y"])
    held = {"x": 5, "y": 5}
    first = assign_shards(
        shards,
        {"a": MemberState(held=held), "b": MemberState()},
        generation=2,
        incarnation=1,
        memory=LeaderMemory(),
        settings=PlanSettings(),
        now_ms=0,
    )
    kept = dict(first.assignments["a"].owned)
    (moving,) = held.keys() - kept
    assert len(kept) == 1
    assert first.assignments["b"].owned == {}

    second = assign_shards(
        shards,
        {"a": MemberState(held=kept, releasing={moving: 5}), "b": MemberState()},
        generation=3,
        incarnation=1,
        memory=first.memory,
        settings=PlanSettings(),
        now_ms=0,
    )
    assert second.assignments["a"].owned == kept
    assert second.assignments["b"].owned == {}

    third = assign_shards(
        shards,
        {"a": MemberState(held=kept), "b": MemberState()},
        generation=4,
        incarnation=1,
        memory=second.memory,
        settings=PlanSettings(),
        now_ms=0,
    )
    assert third.assignments["a"].owned == kept
    assert third.assignments["b"].owned == {moving: epoch_of(1, 4)}
    assert decode_assignment(third.encoded["b"]) == third.assignments["b"]


def test_without_a_list_everybody_keeps_what_it_holds() -> None:
    members = {"a": MemberState(held={"x": 5}), "b": MemberState(releasing={"y": 4})}

    plan = assign_shards(None, members, 2, 1, LeaderMemory(), PlanSettings(), 0)

    assert plan.assignments["a"].owned == {"x": 5}
    assert plan.assignments["b"].owned == {}


def test_the_incarnation_goes_on_while_a_member_stays_in_the_group() -> None:
    stays = MemberState(progress=Progress(7, 3))
    left = MemberState(progress=Progress(7, 4, unbroken=False))

    assert known_incarnation({}, 1) is None
    assert known_incarnation({"a": MemberState()}, 1) is None
    assert known_incarnation({"a": stays, "b": MemberState()}, 4) == 7
    assert known_incarnation({"a": stays}, 3) is None
    assert known_incarnation({"a": stays, "b": left}, 5) == 7
    assert known_incarnation({"a": stays, "b": left}, 4) is None
    assert known_incarnation({"b": left}, 9) is None
    assert known_incarnation({"a": stays}, 5) is None, "generation 4 may have begun another"
    assert known_incarnation({"a": stays, "b": MemberState(progress=Progress(8, 8))}, 9) == 8
    beyond = MemberState(progress=Progress(8, 8, unbroken=False))
    assert known_incarnation({"a": stays, "b": beyond}, 9) is None


def test_a_new_incarnation_is_above_all_epochs_that_are_known() -> None:
    members = {
        "a": MemberState(progress=Progress(7, 3), held={"x": epoch_of(9, 1)}),
        "b": MemberState(releasing={"y": epoch_of(12, 2**21 - 1)}),
    }

    assert least_incarnation({}) == 1
    assert least_incarnation(members) == 13
    assert epoch_of(least_incarnation(members), 0) > epoch_of(12, 2**21 - 1)
    assert least_incarnation({"a": MemberState(progress=Progress(7, 2**21 + 5))}) == 9
