"""Tests questions to several coordinators at once."""

from typing import Any

from groupsdk.broker.server.call import ask, gather
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    HeartbeatRequest,
)
from tests.broker.rig import ClusterRig
from tests.broker.server.calls import StandInConnection, call_of


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
