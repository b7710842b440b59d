"""Tests what members and tools ask of groups, over several coordinators."""

from pytest_mock import MockerFixture

from groupsdk.broker.coordinators import Coordinators
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.configs import IncrementalAlterableConfig as Change
from groupsdk.wire.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from groupsdk.wire.messages.group_admin import (
    ConsumerGroupDescribeRequest,
    DeleteGroupsRequest,
    ListGroupsRequest,
)
from groupsdk.wire.messages.groups import (
    DescribeGroupsRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    MemberIdentity,
)
from tests.broker.clients import Client, connect, join, join_request
from tests.broker.settings.test_changes import changed


def test_a_group_from_its_first_member_to_its_end(client: Client) -> None:
    member = join(client, "g")
    beat = HeartbeatRequest("g", member.generation_id, member.member_id)
    assert client.ask(beat).error_code == 0
    described = client.ask(DescribeGroupsRequest(("g",)), 5).groups[0]
    assert (described.group_state, described.protocol_data) == ("Stable", "range")
    assert described.members[0].client_host == "/127.0.0.1"
    assert described.members[0].client_id == "test"
    leaving = LeaveGroupRequest("g", members=(MemberIdentity(member.member_id),))
    assert client.ask(leaving, 5).members[0].error_code == 0
    assert client.ask(DeleteGroupsRequest(("g",)), 2).results[0].error_code == 0


def test_a_heartbeat_is_fine_while_the_coordinator_loads(
    client: Client, mocker: MockerFixture
) -> None:
    member = join(client, "g")
    beat = HeartbeatRequest("g", member.generation_id, member.member_id)
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    mocker.patch.object(Coordinators, "runtime_for", return_value=loading)
    for version in range(5):
        assert client.ask(beat, version).error_code == 0
    # others hear of it, and ask again
    leaving = LeaveGroupRequest("g", members=(MemberIdentity(member.member_id),))
    assert client.ask(leaving, 5).error_code == loading
    mocker.stopall()
    assert client.ask(beat).error_code == 0


def test_members_of_the_consumer_protocol_are_refused_where_it_is_not_enabled(
    client: Client,
) -> None:
    request = ConsumerGroupHeartbeatRequest(
        "g", "m", 0, rebalance_timeout_ms=1000, subscribed_topic_names=("t",), topic_partitions=()
    )
    key = "group.coordinator.rebalance.protocols"
    assert changed(client, "", Change(key, 0, "classic")) == (0, None)
    for version in (0, 1):
        answer = client.ask(request, version)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert answer.error_message is not None
        assert "group.protocol=classic" in answer.error_message
    code, text = changed(client, "", Change(key, 0, "consumer"))
    assert code == ErrorCode.INVALID_REQUEST
    assert "must be one of classic,consumer" in str(text)
    assert changed(client, "", Change(key, 1, None)) == (0, None)
    assert client.ask(request, 1).error_code == 0


def test_a_consumer_group_is_described_listed_and_deleted(client: Client) -> None:
    request = ConsumerGroupHeartbeatRequest(
        "g", "m", 0, rebalance_timeout_ms=1000, subscribed_topic_names=("t",), topic_partitions=()
    )
    joined = client.ask(request, 1)
    assert joined.assignment is not None
    (held,) = joined.assignment.topic_partitions
    assert (joined.member_epoch, held.partitions) == (2, (0, 1, 2))
    described = client.ask(ConsumerGroupDescribeRequest(("g", "none", "")), 1)
    found, none, nameless = described.groups
    assert (found.group_state, found.members[0].member_type) == ("Stable", 1)
    assert (none.error_code, nameless.error_code) == (69, 24)
    (listed,) = client.ask(ListGroupsRequest((), ("Consumer",)), 5).groups
    assert (listed.group_type, listed.protocol_type) == ("consumer", "consumer")
    assert client.ask(ListGroupsRequest((), ("classic",)), 5).groups == ()
    assert client.ask(DeleteGroupsRequest(("g",)), 2).results[0].error_code == 68
    assert client.ask(ConsumerGroupHeartbeatRequest("g", "m", -1), 1).member_epoch == -1
    assert client.ask(DeleteGroupsRequest(("g",)), 2).results[0].error_code == 0
    assert client.ask(ListGroupsRequest(), 5).groups == ()


def test_two_members_wait_for_each_other(broker: EmbeddedBroker, client: Client) -> None:
    first = join(client, "g")
    with connect(broker, client_id="second") as second:
        given = second.ask(join_request("g"), 9).member_id
        asked = join_request("g", given)
        sent = second.send(asked, 9)
        beat = HeartbeatRequest("g", first.generation_id, first.member_id)
        while client.ask(beat).error_code != 27:
            pass
        again = client.ask(join_request("g", first.member_id), 9)
        joined = second.answer(asked, sent)
        assert again.generation_id == joined.generation_id == first.generation_id + 1
        assert again.leader == first.member_id
        assert {each.member_id for each in again.members} == {given, first.member_id}


def test_groups_of_all_coordinators_are_listed_and_described(client: Client) -> None:
    names = [f"group-{n}" for n in range(5)]
    for name in names:
        join(client, name)
    assert sorted(each.group_id for each in client.ask(ListGroupsRequest(), 5).groups) == names
    assert client.ask(ListGroupsRequest(("Empty",)), 5).groups == ()
    described = client.ask(DescribeGroupsRequest((*names, "none")), 5).groups
    assert [each.group_id for each in described] == [*names, "none"]
    assert [each.group_state for each in described] == ["Stable"] * 5 + ["Dead"]
    results = client.ask(DeleteGroupsRequest(("none", "group-1")), 2).results
    assert [(each.group_id, each.error_code) for each in results] == [("none", 69), ("group-1", 68)]


def test_describe_groups_returns_authorized_operations_on_request(client: Client) -> None:
    join(client, "g")
    asked = DescribeGroupsRequest(("g",), include_authorized_operations=True)
    assert client.ask(asked, 5).groups[0].authorized_operations == 0b110101001000
    assert client.ask(DescribeGroupsRequest(("g",)), 5).groups[0].authorized_operations == -(2**31)


def test_a_member_that_disconnects_stays_until_its_session_ends(broker: EmbeddedBroker) -> None:
    with connect(broker) as client:
        member = join(client, "g")
    assert list(broker.groups["g"].members) == [member.member_id]


def test_the_answer_to_a_join_that_nobody_awaits_disturbs_nobody(broker: EmbeddedBroker) -> None:
    with connect(broker) as client:
        first = join(client, "g")
        with connect(broker) as gone:
            given = gone.ask(join_request("g"), 9).member_id
            gone.send(join_request("g", given), 9)
            beat = HeartbeatRequest("g", first.generation_id, first.member_id)
            while client.ask(beat).error_code != 27:
                pass
        assert client.ask(join_request("g", first.member_id), 9).error_code == 0


def test_empty_group_ids(client: Client) -> None:
    assert client.ask(join_request(""), 9).error_code == ErrorCode.INVALID_GROUP_ID
    assert client.ask(HeartbeatRequest("", 1, "m")).error_code == ErrorCode.INVALID_GROUP_ID


def test_nodes_send_members_to_each_other() -> None:
    with EmbeddedBroker(nodes=2) as broker:
        other = 3 - broker.coordinator("g")
        with connect(broker, other) as client:
            assert client.ask(join_request("g"), 9).error_code == 16
            assert client.ask(DescribeGroupsRequest(("g",)), 5).groups[0].error_code == 16
            assert client.ask(DeleteGroupsRequest(("g",)), 2).results[0].error_code == 16
