from groupsdk.broker.groups.deadlines import NEVER
from groupsdk.broker.groups.group import ClassicGroup
from groupsdk.broker.groups.member import GroupMember, PendingMember


def test_a_member_begins_without_a_session_and_with_nothing_parked() -> None:
    group = ClassicGroup("g", 1)
    member = GroupMember(group, "m", None, "c", "/h", 60_000, 10_000, (("a", b"1"),))

    assert member.deadline_ms == PendingMember(group, "n").deadline_ms == NEVER
    assert (member.join, member.sync, member.assignment) == (None, None, b"")
    assert not member.is_new


def test_there_are_many_so_that_they_have_slots_only() -> None:
    group = ClassicGroup("g", 1)

    for each in (group, PendingMember(group, "n")):
        assert not hasattr(each, "__dict__")
    assert not hasattr(GroupMember(group, "m", None, "c", "/h", 1, 1, ()), "__dict__")
