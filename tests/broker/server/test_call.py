"""Tests calls: how one is answered, what it may do, and what it asks of coordinators."""

from typing import Any

from groupsdk.broker.authorizer import Acl
from groupsdk.broker.server.call import (
    LeaderHints,
    allowed,
    ask,
    cluster_allowed,
    gather,
    operations,
    route,
)
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
)
from tests.broker.rig import ClusterRig
from tests.broker.server.calls import StandInConnection, call_of


def test_a_route_is_made_once_and_only_for_what_is_served() -> None:
    assert route(12, 4) is route(12, 4)
    assert route(12, 5) is None
    assert route(12, -1) is None
    assert route(999, 0) is None
    assert route(0, 2) is None
    found = route(12, 4)
    assert found is not None
    assert (found.flexible, found.flexible_answer) == (True, True)
    versions = route(18, 3)
    assert versions is not None
    assert (versions.flexible, versions.flexible_answer) == (True, False)


def test_a_call_is_answered_once() -> None:
    connection = StandInConnection(ClusterRig())
    call = call_of(connection, 12, 4)
    first = HeartbeatResponse(error_code=1)
    call.answer(first)
    call.answer(HeartbeatResponse(error_code=2))
    call.answer_nothing()
    assert connection.answers == [first]
    assert connection.went_on == 0
    assert (call.version, call.principal, call.client_host) == (4, "User:ANONYMOUS", "/127.0.0.1")


def test_a_call_may_have_no_answer() -> None:
    connection = StandInConnection(ClusterRig())
    call = call_of(connection, 12, 4)
    call.answer_nothing()
    call.answer(HeartbeatResponse())
    assert (connection.answers, connection.went_on) == ([], 1)
    silent = call_of(connection, 12, 4)
    silent.silence()
    silent.answer(HeartbeatResponse())
    assert connection.answers == []
    assert not silent.lost
    connection.closed = True
    assert silent.lost


def test_a_request_is_read_and_an_answer_written_by_its_route() -> None:
    found = route(12, 0)
    assert found is not None
    data = b"\0\x01g\0\0\0\x05\0\x01m"
    assert found.decode(data, 0) == HeartbeatRequest("g", 5, "m")
    assert found.encode(HeartbeatResponse(error_code=27)) == b"\0\x1b"


def test_without_an_authorizer_everything_is_allowed() -> None:
    call = call_of(StandInConnection(ClusterRig()), 3, 12)
    assert allowed(call, "delete", "topic", "t")
    assert cluster_allowed(call, "alter")
    assert operations(call, "group", "g", asked=True) == 0b110101001000
    assert operations(call, "group", "g", asked=False) == -(2**31)


def test_with_one_it_decides() -> None:
    rig = ClusterRig(authorizer_class_name="standard", super_users="User:root")
    app = call_of(StandInConnection(rig, principal="User:app"), 3, 12)
    root = call_of(StandInConnection(rig, principal="User:root"), 3, 12)
    assert not allowed(app, "read", "topic", "t")
    assert allowed(root, "read", "topic", "t")
    assert not cluster_allowed(app, "alter")
    assert operations(app, "topic", "t", asked=True) == 0
    authorizer = rig.cluster.authorizer
    assert authorizer is not None
    authorizer.add([Acl(2, "t", 3, "User:app", "127.0.0.1", 3, 3)])
    assert allowed(app, "read", "topic", "t")
    assert operations(app, "topic", "t", asked=True) == 1 << 3 | 1 << 8


def test_leaders_are_named_once_with_their_addresses() -> None:
    rig = ClusterRig(nodes=3, topics={"t": 3}, broker_rack="r")
    hints = LeaderHints(call_of(StandInConnection(rig), 0, 10))
    topic = rig.cluster.catalogue.topics["t"]
    assert hints.endpoints() == []
    assert hints.leader(topic, 1) == (2, 0)
    assert hints.leader(topic, 1) == (2, 0)
    assert hints.endpoints() == [(2, "PLAINTEXT.invalid", 2, "r")]
    rig.nodes[2].running = False
    assert hints.endpoints() == []


def test_one_coordinator_or_its_error() -> None:
    rig = ClusterRig()
    connection = StandInConnection(rig)
    beat = HeartbeatRequest("g", 1, "m")
    call = call_of(connection, 12, 4)
    ask(call, rig.cluster.groups.runtime_for(1, "g"), beat, call.answer)
    call = call_of(connection, 12, 4)
    ask(call, ErrorCode.NOT_COORDINATOR, beat, call.answer)
    assert [each.error_code for each in connection.answers] == [25, 16]


def test_answers_come_together_in_the_order_of_the_questions() -> None:
    rig = ClusterRig()
    connection = StandInConnection(rig)
    call = call_of(connection, 15, 5)
    groups = rig.cluster.groups
    parts: list[Any] = [
        (groups.runtime_for(1, "a"), DescribeGroupsRequest(("a",))),
        (ErrorCode.NOT_COORDINATOR, DescribeGroupsRequest(("b",))),
        (groups.runtime_for(1, "c"), DescribeGroupsRequest(("c",))),
    ]

    def combine(answers: list[DescribeGroupsResponse]) -> DescribeGroupsResponse:
        return DescribeGroupsResponse(groups=tuple(g for each in answers for g in each.groups))

    assert gather(call, parts, combine) is None
    (answer,) = connection.answers
    assert [(each.group_id, each.error_code) for each in answer.groups] == [
        ("a", 0),
        ("b", 16),
        ("c", 0),
    ]
    assert gather(call, [], combine) == DescribeGroupsResponse()
