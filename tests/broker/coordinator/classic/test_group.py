from groupsdk.broker.coordinator.classic.group import ClassicGroup
from groupsdk.broker.coordinator.classic.member import GroupMember, Parked, PendingMember, Protocols
from groupsdk.broker.coordinator.group_status import GroupState
from groupsdk.error_code import ErrorCode
from tests.broker.coordinator.group.driving import subscription


RANGE: Protocols = (("range", subscription("t")),)


def group_of(*member_ids: str, protocol_type: str = "consumer") -> ClassicGroup:
    group = ClassicGroup("g", 1)
    group.protocol_type = protocol_type
    for each in member_ids:
        group.add(member(group, each))
    return group


def member(
    group: ClassicGroup, member_id: str, instance_id: str | None = None, offer: Protocols = RANGE
) -> GroupMember:
    return GroupMember(group, member_id, instance_id, "c", "/h", 60_000, 10_000, offer)


def test_the_first_member_leads_and_then_any_other() -> None:
    group = group_of("a", "b", "c")
    leaders = []

    for each in "abc":
        leaders.append(group.leader_id)
        group.remove(group.members[each])

    assert [*leaders, group.leader_id] == ["a", "b", "c", None]
    assert group.supported == {}


def test_all_have_joined_when_every_join_is_parked_and_no_id_is_out() -> None:
    group = group_of("a", "b")
    joined = [group.has_all_members_joined]
    for each in group.members.values():
        assert group.park_join(each, Parked(1, 9)) is None
        joined.append(group.has_all_members_joined)
    assert joined == [False, False, True]
    assert group.park_join(group.members["a"], Parked(2, 9)) == Parked(1, 9)

    group.add_pending(PendingMember(group, "c"))
    joined = [group.has_all_members_joined]
    assert group.drop_pending("c") is not None
    assert group.drop_pending("c") is None
    joined.append(group.has_all_members_joined)
    assert group.take_join(group.members["a"]) == Parked(2, 9)
    joined.append(group.has_all_members_joined)

    assert joined == [False, True, False]


def test_protocols_are_counted_as_members_change() -> None:
    group = group_of("a", "b")
    both: Protocols = (("range", b""), ("sticky", b""))
    group.state = GroupState.STABLE
    assert group.supports("consumer", ["sticky", "range"])
    assert not group.supports("consumer", ["sticky"])
    assert not group.supports("work", ["range"])

    for each in group.members.values():
        group.set_protocols(each, both)

    assert group.supports("consumer", ["sticky"])
    assert group.supported == {"range": 2, "sticky": 2}


def test_an_empty_group_takes_any_type() -> None:
    group = ClassicGroup("g", 1)

    assert group.supports("work", ["x"])
    assert not group.supports("", ["x"])
    assert not group.supports("work", [])


def test_static_members_are_known_by_their_instances() -> None:
    group = group_of("a")
    static = member(group, "b", "i")
    group.add(static)
    assert group.validate("b", "i") is ErrorCode.NONE
    assert group.validate("b", None) is ErrorCode.NONE
    assert group.validate("a", "i") is ErrorCode.FENCED_INSTANCE_ID
    assert group.validate("b", "j") is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.validate("x", None) is ErrorCode.UNKNOWN_MEMBER_ID

    group.pending_syncs = {"b"}
    group.rename(static, "c")
    assert group.static_member_id("i") == "c"
    assert group.pending_syncs == {"c"}
    assert set(group.members) == {"a", "c"}

    group.remove(static)
    assert group.static_members is None
    assert group.pending_syncs is None


def test_a_generation_begins_with_a_protocol_and_topics() -> None:
    group = group_of("a", "b")
    group.state = GroupState.PREPARING_REBALANCE
    assert group.is_subscribed_to("anything")

    group.begin_generation(5)

    assert (group.generation_id, group.protocol_name) == (1, "range")
    assert group.state is GroupState.COMPLETING_REBALANCE
    assert group.is_subscribed_to("t")
    assert not group.is_subscribed_to("u")


def test_members_of_another_kind_are_subscribed_to_nothing() -> None:
    group = group_of("a", protocol_type="work")
    group.state = GroupState.PREPARING_REBALANCE
    group.begin_generation(5)

    assert group.subscribed_topics is None
    assert not group.is_subscribed_to("t")


def test_a_leader_that_did_not_join_is_replaced_by_one_that_did() -> None:
    group = group_of("a", "b", "c")
    assert not group.elect_joined_leader()
    group.park_join(group.members["b"], Parked(1, 9))

    assert group.elect_joined_leader()
    assert group.leader_id == "b"
    group.park_join(group.members["a"], Parked(2, 9))

    assert group.elect_joined_leader()
    assert group.leader_id == "b"


def test_the_last_one_to_sync_is_told_apart() -> None:
    group = group_of("a", "b")
    group.pending_syncs = {"a", "b"}

    assert not group.discard_pending_sync("a")
    assert group.discard_pending_sync("b")
    assert not group.discard_pending_sync("b")
