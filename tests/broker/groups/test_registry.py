from groupsdk.broker.groups.config import GroupConfig
from groupsdk.broker.groups.deadlines import NEVER
from groupsdk.broker.groups.member import GroupMember
from groupsdk.broker.groups.registry import MAX_PENDING_BYTES, GroupRegistry


def test_a_group_that_goes_takes_its_deadlines_along() -> None:
    registry = GroupRegistry(GroupConfig())
    group = registry.create("g", 1)
    member = GroupMember(group, "m", None, "c", "/h", 60_000, 10_000, ())
    group.add(member)
    registry.renew_session(member, 1_000)
    registry.add_pending(group, "n", 5_000, 1)
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
    registry.add_pending(group, "n", 5_000, 1)

    assert registry.drop_pending(group, "n")
    assert not registry.drop_pending(group, "n")
    assert registry.sessions.pop_due(10_000) == []


def test_ids_that_do_not_come_back_hold_bounded_memory() -> None:
    registry = GroupRegistry(GroupConfig())
    groups = [registry.create(f"g{n}", 1) for n in range(3)]
    size = 32_000
    for number in range(1_000):
        registry.add_pending(groups[number % 3], f"{number:x<{size}}", 5_000, 7)

    ended = registry.sessions.pop_due(10)

    kept = 1_000 - len(ended)
    assert kept * size < MAX_PENDING_BYTES < (kept + 1) * (size + 1_000)
    # the oldest, and what comes back is not counted any more
    assert {each.member_id[:1] for each in ended[:10]} == set("0123456789")
    for session in ended:
        assert registry.drop_pending(session.group, session.member_id)
    assert sum(len(group.pending_joins or ()) for group in groups) == kept
    for group in groups:
        registry.remove(group.group_id)
    for number in range(200):
        registry.add_pending(registry.create("h", 1), f"{number:x<{size}}", 5_000, 7)
    assert registry.sessions.pop_due(10) == []
