from groupsdk.broker.coordinator.classic.group import (
    ClassicGroup,
    empty_group,
    group_metadata,
    group_tombstone,
)
from groupsdk.broker.coordinator.classic.member import GroupMember
from groupsdk.broker.coordinator.group_status import GroupState
from groupsdk.broker.coordinator.runtime.contract import LogRecord
from groupsdk.wire.coordinator_records.declaration import write_value
from groupsdk.wire.coordinator_records.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from groupsdk.wire.coordinator_records.offsets_log import read_key, read_value


# Kafka's own bytes, from the project's reference of the formats.
KEY = bytes.fromhex("0002000167")
VALUE = bytes.fromhex(
    "00030008636f6e73756d657200000001000572616e676500016d00000000000003e80000000100016dffff000163000a"
    "2f3132372e302e302e31000493e00000afc80000000d000000000001000174ffffffff00000019000000000001000174"
    "000000020000000000000002ffffffff"
)
EMPTY = bytes.fromhex("0003000000000000ffffffff00000000000003e800000000")
SUBSCRIPTION = bytes.fromhex("000000000001000174ffffffff")
ASSIGNMENT = bytes.fromhex("000000000001000174000000020000000000000002ffffffff")


def kafkas_group() -> ClassicGroup:
    group = ClassicGroup("g", 1_000)
    group.protocol_type, group.protocol_name, group.generation_id = "consumer", "range", 1
    offer = (("sticky", b"other"), ("range", SUBSCRIPTION))
    group.add(GroupMember(group, "m", None, "c", "/127.0.0.1", 300_000, 45_000, offer))
    return group


def value_of(record: LogRecord) -> GroupMetadataValue:
    key = read_key(record.key)
    assert key == GroupMetadataKey("g")
    value = read_value(key, record.value)
    assert isinstance(value, GroupMetadataValue)
    return value


def read_group(value: GroupMetadataValue) -> ClassicGroup:
    group = ClassicGroup("g", 0)
    assert group.replay(value) == []
    return group


def test_a_group_is_written_byte_for_byte_as_kafka_writes_it() -> None:
    value = kafkas_group().with_assignments({"m": ASSIGNMENT}, 1_000)

    assert group_metadata("g", value).encoded() == ((KEY, VALUE),)
    assert empty_group("g", 1_000).encoded() == ((KEY, EMPTY),)
    assert group_tombstone("g").encoded() == ((KEY, None),)


def test_stored_classic_group_is_read_as_stable_with_its_metadata_in_use() -> None:
    group = read_group(value_of(LogRecord(KEY, VALUE)))

    assert (group.state, group.generation_id, group.leader_id) == (GroupState.STABLE, 1, "m")
    member = group.members["m"]
    assert member.protocols == (("range", SUBSCRIPTION),)
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (45_000, 300_000)
    assert member.assignment == ASSIGNMENT
    assert group.is_subscribed_to("t")
    assert not group.is_subscribed_to("u")
    again = group_metadata("g", group.with_assignments({"m": ASSIGNMENT}, 1_000))
    assert again.encoded() == ((KEY, VALUE),)


def test_one_that_is_served_keeps_what_no_record_says() -> None:
    group = kafkas_group()
    member = group.members["m"]
    offer = member.protocols

    assert group.replay(value_of(LogRecord(KEY, VALUE))) == []

    assert group.members["m"] is member
    assert member.protocols == offer
    assert member.assignment == ASSIGNMENT
    assert group.supported == {"sticky": 1, "range": 1}


def test_members_that_are_not_in_the_record_go() -> None:
    group = kafkas_group()
    member = group.members["m"]

    assert group.replay(value_of(LogRecord(KEY, EMPTY))) == [member]

    assert (group.state, group.members, group.supported) == (GroupState.EMPTY, {}, {})


def test_a_static_member_goes_on_under_another_id() -> None:
    group = read_group(GroupMetadataValue("work", 1, "p", "a", members=(MemberMetadata("a", "i"),)))
    member = group.members["a"]
    group.pending_syncs = {"a"}

    group.replay(group.with_static_member("a", MemberMetadata("b", "i", session_timeout=7)))

    assert group.members == {"b": member}
    assert (member.member_id, member.session_timeout_ms) == ("b", 7)
    assert (group.leader_id, group.static_members) == ("b", {"i": "b"})
    assert group.pending_syncs == {"b"}


def test_without_members_it_is_empty() -> None:
    group = read_group(value_of(LogRecord(KEY, EMPTY)))

    assert group.state is GroupState.EMPTY
    assert group.protocol_type is None
    assert group.state_timestamp_ms == 1_000


def test_old_versions_have_no_rebalance_timeout_and_no_timestamp() -> None:
    value = GroupMetadataValue(
        "consumer", 3, "range", "m", members=(MemberMetadata("m", session_timeout=30_000),)
    )
    record = LogRecord(KEY, write_value(value, 0))

    group = read_group(value_of(record))

    assert group.members["m"].rebalance_timeout_ms == 30_000
    assert group.state_timestamp_ms == -1


def test_the_instance_ids_of_a_damaged_log_may_be_the_same() -> None:
    twins = tuple(MemberMetadata(each, "i") for each in ("a", "b"))

    group = read_group(GroupMetadataValue("work", 1, "p", "a", members=twins))
    for each in list(group.members.values()):
        group.remove(each)

    assert group.static_members is None
