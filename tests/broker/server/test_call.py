"""Tests that a request is answered once, by whoever serves its version."""

from groupsdk.broker.server.call import route
from groupsdk.wire.messages.groups import HeartbeatRequest, HeartbeatResponse
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
