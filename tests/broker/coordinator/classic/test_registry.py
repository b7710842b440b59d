import pytest

from groupsdk.broker.coordinator.classic.group import ClassicGroup
from groupsdk.broker.coordinator.classic.member import GroupMember
from groupsdk.broker.coordinator.classic.registry import MAX_PENDING_BYTES, GroupRegistry
from groupsdk.broker.coordinator.counters import CoordinatorCounters
from groupsdk.broker.coordinator.runtime.deadlines import NEVER
from groupsdk.broker.settings.table import GroupConfig
from groupsdk.wire.coordinator_records.group_metadata import GroupMetadataValue, MemberMetadata


@pytest.fixture
def registry() -> GroupRegistry:
    return GroupRegistry(GroupConfig(), CoordinatorCounters())


def created(registry: GroupRegistry, group_id: str) -> ClassicGroup:
    registry.replay(group_id, GroupMetadataValue())
    return registry.groups[group_id]


def test_a_group_that_goes_takes_its_deadlines_along(registry: GroupRegistry) -> None:
    group = created(registry, "g")
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


def test_a_group_that_is_there_stays_the_same_object(registry: GroupRegistry) -> None:
    group = created(registry, "g")
    registry.add_pending(group, "n", 5_000, 1)

    assert created(registry, "g") is group
    registry.replay_offset("g")
    assert registry.groups == {"g": group}
    assert group.is_pending("n")

    registry.replay("g", None)
    assert registry.groups == {}
    assert registry.sessions.pop_due(10_000) == []


def test_members_that_are_in_the_record_no_more_have_no_session(registry: GroupRegistry) -> None:
    registry.replay("g", GroupMetadataValue("work", 1, "p", "m", members=(MemberMetadata("m"),)))
    member = registry.groups["g"].members["m"]
    registry.renew_session(member, 1)

    created(registry, "g")

    assert member.deadline_ms == NEVER


def test_an_id_is_dropped_once(registry: GroupRegistry) -> None:
    group = created(registry, "g")
    registry.add_pending(group, "n", 5_000, 1)

    assert registry.drop_pending(group, "n")
    assert not registry.drop_pending(group, "n")
    assert registry.sessions.pop_due(10_000) == []


def test_ids_that_do_not_come_back_hold_bounded_memory(registry: GroupRegistry) -> None:
    groups = [created(registry, f"g{n}") for n in range(3)]
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
        registry.add_pending(created(registry, "h"), f"{number:x<{size}}", 5_000, 7)
    assert registry.sessions.pop_due(10) == []
