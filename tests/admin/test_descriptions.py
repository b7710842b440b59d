"""Tests how members' bytes are read, and what is said of groups."""

from groupsdk.admin.descriptions import (
    Assignment,
    GroupDescription,
    GroupType,
    Member,
    PartitionLag,
    ranges,
    read_assignment,
    read_subscription,
    readable,
    shown,
)
from groupsdk.assignment import Assignment as PlannedAssignment, Subscription, TopicPartition
from groupsdk.assignment.subscriptions import encode_assignments, encode_subscription
from groupsdk.wire.connect_protocol import (
    ConnectAssignment,
    ConnectorTaskId,
    WorkerState,
    encode_assignment,
    encode_metadata,
)
from groupsdk.wire.shards.protocol import (
    MemberState,
    ShardAssignment,
    encode_assignment as encode_shards,
    encode_member,
)


def test_a_consumers_bytes_are_read() -> None:
    data = encode_subscription(Subscription(["a", "b"], owned_partitions={"a": [1, 0]}))
    found = read_subscription("consumer", data)
    assert found.topics == ("a", "b")
    assert found.owned == (TopicPartition("a", 0), TopicPartition("a", 1))
    plan = encode_assignments({"m": PlannedAssignment({"b": [2], "a": [1]})})
    assigned = read_assignment("consumer", plan["m"])
    assert assigned.parts == ("a-1", "b-2")
    assert assigned.size == 2


def test_a_list_of_a_protocol_of_its_own_has_parts_and_another_content_has_a_text() -> None:
    listed = read_assignment("work", b'["a", 2, {"b": 1}]')
    assert (listed.parts, listed.size) == (("a", "2", '{"b": 1}'), 3)
    assert listed.text == '["a", 2, {"b": 1}]'
    other = read_assignment("work", b'{"shards": [1]}')
    assert (other.parts, other.size, other.text) == ((), None, '{"shards": [1]}')
    assert (read_assignment("work", b"").size, read_assignment("work", b"").text) == (0, "")


def test_a_consumer_in_a_group_of_another_type_is_known_by_its_bytes() -> None:
    joined = encode_subscription(Subscription(["a"]))
    plan = encode_assignments({"m": PlannedAssignment({"a": [1]})})
    assert read_subscription("work", joined).topics == ("a",)
    assert read_assignment("work", plan["m"], joined).parts == ("a-1",)
    assert read_assignment("work", plan["m"], b"{}").parts == ()
    assert read_subscription("connect", joined).topics == ()


def test_a_connect_workers_bytes_are_read() -> None:
    assert (
        read_subscription("connect", encode_metadata(WorkerState("http://w:1", 3))).url
        == "http://w:1"
    )
    data = encode_assignment(
        ConnectAssignment(
            leader="l",
            leader_url="http://l:1",
            connectors=["c"],
            tasks=[ConnectorTaskId("c", 0), ConnectorTaskId("d", 1)],
            revoked_tasks=[ConnectorTaskId("e", 2)],
        )
    )
    found = read_assignment("connect", data)
    assert found.parts == ("c", "c-0", "d-1")
    assert (found.revoked, found.leader_url) == (("e-2",), "http://l:1")


def test_a_connect_worker_keeps_what_it_joined_with_unless_it_is_revoked() -> None:
    """As in the incremental protocol: an assignment names only what is new (KIP-415)."""
    had = ConnectAssignment(
        leader="l", connectors=["c"], tasks=[ConnectorTaskId("c", 0), ConnectorTaskId("c", 1)]
    )
    joined_with = encode_metadata(WorkerState("http://w:1", 3, had))
    given = encode_assignment(
        ConnectAssignment(
            leader="l", tasks=[ConnectorTaskId("d", 0)], revoked_tasks=[ConnectorTaskId("c", 1)]
        )
    )
    assert read_assignment("connect", given, joined_with).parts == ("c", "c-0", "d-0")
    nothing_new = encode_assignment(ConnectAssignment(leader="l"))
    assert read_assignment("connect", nothing_new, joined_with).parts == ("c", "c-0", "c-1")
    # the eager protocol names all
    eager = encode_metadata(WorkerState("http://w:1", 3), 0)
    assert read_assignment("connect", encode_assignment(had, 0), eager).size == 3


def test_other_bytes_are_shown_as_what_they_are() -> None:
    assert readable(b'{"a": 1}') == {"a": 1}
    assert readable(b"plain") == "plain"
    assert readable(b"\x00\xff") == {"base64": "AP8="}
    assert readable(b"a\x1bb") == {"base64": "YRti"}
    # a consumer whose bytes are none
    assert read_assignment("consumer", b"\x00").other == {"base64": "AA=="}
    assert read_subscription("mine", b"").other is None
    assert shown({"a": "é"}) == '{"a": "é"}'
    assert len(shown("x" * 5_000)) < 500


def test_partitions_are_written_briefly() -> None:
    parts = [TopicPartition("b", 1), *(TopicPartition("a", each) for each in (5, 0, 2, 1))]
    assert ranges(tuple(parts)) == "a(0-2,5), b(1)"
    assert ranges({"a": (1, 0)}) == "a(0-1)"
    assert ranges(()) == ""


def test_lag_is_known_where_both_ends_are() -> None:
    assert PartitionLag("t", 0, 3, 10).lag == 7
    # the log was cut behind the group
    assert PartitionLag("t", 0, 12, 10).lag == 0
    assert PartitionLag("t", 0, None, 10).lag is None
    assert PartitionLag("t", 0, 3, None).lag is None


def test_a_group_with_members_is_active() -> None:
    def group(state: str, *members: Member) -> GroupDescription:
        return GroupDescription("g", GroupType.CLASSIC, state, "consumer", "", 1, members)

    assert not group("Empty").active
    assert not group("Dead").active
    assert group("PreparingRebalance").active
    assert group("Stable", Member("m", "c", "h", assignment=Assignment())).active
    assert GroupType.of("") is GroupType.CLASSIC
    assert GroupType.of("Consumer") is GroupType.CONSUMER
    assert GroupType.of("next") is GroupType.UNKNOWN


def test_a_shard_workers_bytes_are_read_with_loads_and_weights() -> None:
    state = MemberState(
        loads={"s-1": 1.5, "s-2": 0.5, "s-9": 64}, zone="a", capacity=2.0, draining=True
    )
    subscription = read_subscription("crawl", encode_member(state), "shards")
    assignment = read_assignment(
        "crawl",
        encode_shards(ShardAssignment(1, 1, {"s-1": 5, "s-2": 5, "s-3": 6}, weights={"s-2": 4.0})),
        protocol="shards",
    )
    member = Member("m", "c", "/h", subscription=subscription, assignment=assignment)

    assert (subscription.zone, subscription.capacity, subscription.draining) == ("a", 2.0, True)
    assert assignment.text == "s-(1-3)"
    assert member.load == 2.0, "of what it owns, as far as it is known"
    assert assignment.weights == {"s-2": 4.0}
    assert member.weight == 6.0
