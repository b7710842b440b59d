from groupsdk.broker.coordinator.classic.group import ClassicGroup
from groupsdk.broker.coordinator.classic.join import (
    offered_protocols,
    park_join,
    rebalance_timeout_ms,
    update_member,
    with_reason,
)
from groupsdk.broker.coordinator.classic.member import GroupMember
from groupsdk.broker.coordinator.runtime.contract import RequestContext
from groupsdk.broker.coordinator.runtime.result_builder import ResultBuilder
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.groups import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)


def request(*offers: tuple[str, bytes], rebalance_ms: int = 60_000) -> JoinGroupRequest:
    return JoinGroupRequest(
        "g",
        10_000,
        rebalance_ms,
        protocols=tuple(JoinGroupRequestProtocol(*each) for each in offers),
        reason="why",
    )


def test_of_a_name_offered_twice_the_first_counts() -> None:
    assert offered_protocols(request(("a", b"1"))) == (("a", b"1"),)
    offers = request(("a", b"1"), ("b", b"2"), ("a", b"3"))

    assert offered_protocols(offers) == (("a", b"1"), ("b", b"2"))


def test_without_a_rebalance_timeout_it_is_the_session_timeout() -> None:
    assert rebalance_timeout_ms(request()) == 60_000
    assert rebalance_timeout_ms(request(rebalance_ms=0)) == 0
    assert rebalance_timeout_ms(request(rebalance_ms=-1)) == 10_000


def test_a_members_particulars_change() -> None:
    group = ClassicGroup("g", 1)
    member = GroupMember(group, "m", None, "c", "/h", 1, 2, (("old", b""),))
    group.add(member)

    update_member(group, member, request(("new", b"1")))

    assert member.protocols == (("new", b"1"),)
    assert (member.rebalance_timeout_ms, member.session_timeout_ms) == (60_000, 10_000)
    assert group.supported == {"new": 1}


def test_a_join_that_is_replaced_is_told_to_come_again() -> None:
    group = ClassicGroup("g", 1)
    member = GroupMember(group, "m", None, "c", "/h", 1, 2, ())
    group.add(member)
    builder = ResultBuilder(5)

    park_join(group, member, RequestContext(1, 9), builder)
    assert builder.replies == []
    park_join(group, member, RequestContext(2, 9), builder)

    (reply,) = builder.replies
    assert reply.token == 1
    assert isinstance(reply.response, JoinGroupResponse)
    assert reply.response.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert reply.response.member_id == "m"
    assert group.awaiting_joins == 1


def test_the_clients_reason_is_added() -> None:
    assert with_reason("m joins", request()) == "m joins (why)"
    assert with_reason("m joins", JoinGroupRequest()) == "m joins"
