from groupsdk.broker.groups.config import GroupConfig
from groupsdk.broker.groups.deadlines import NEVER
from groupsdk.broker.groups.member import GroupMember
from groupsdk.broker.groups.registry import GroupRegistry


def test_a_group_that_goes_takes_its_deadlines_along() -> None:
    registry = GroupRegistry(GroupConfig())
    group = registry.create("g", 1)
    member = GroupMember(group, "m", None, "c", "/h", 60_000, 10_000, ())
    group.add(member)
    registry.renew_session(member, 1_000)
    registry.add_pending(group, "n", 5_000)
    registry.phases.set(group, 7_000)
    pending = (group.pending_joins or {})["n"]
    assert (member.deadline_ms, pending.deadline_ms, group.deadline_ms) == (11_000, 5_000, 7_000)

    registry.remove("g")
    registry.remove("g")

    assert {member.deadline_ms, pending.deadline_ms, group.deadline_ms} == {NEVER}
    assert registry.groups == {}


def test_creating_replaces() -> None:
    registry = GroupRegistry(GroupConfig())
    first = registry.create("g", 1)
    registry.phases.set(first, 5)

    second = registry.create("g", 2)

    assert registry.groups == {"g": second}
    assert first.deadline_ms == NEVER


def test_an_id_is_dropped_once() -> None:
    registry = GroupRegistry(GroupConfig())
    group = registry.create("g", 1)
    registry.add_pending(group, "n", 5_000)

    assert registry.drop_pending(group, "n")
    assert not registry.drop_pending(group, "n")
    assert registry.sessions.pop_due(10_000) == []
