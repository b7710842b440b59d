"""Read what a JoinGroup request says of a member, and take note of it."""

import sys

from groupsdk.broker.groups.answers import join_error
from groupsdk.broker.groups.group import ClassicGroup
from groupsdk.broker.groups.member import GroupMember, Parked
from groupsdk.broker.groups.protocols import Protocols
from groupsdk.broker.runtime.contract import RequestContext
from groupsdk.broker.runtime.turn import Turn
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.join_group import JoinGroupRequest


def offered_protocols(request: JoinGroupRequest) -> Protocols:
    """Return what a join offers; of a name given twice the first counts."""
    protocols = request.protocols
    offered = tuple([(sys.intern(each.name), each.metadata) for each in protocols])
    if len(offered) == 1:
        return offered
    first: dict[str, bytes] = {}
    for name, metadata in offered:
        first.setdefault(name, metadata)
    return offered if len(first) == len(offered) else tuple(first.items())


def rebalance_timeout_ms(request: JoinGroupRequest) -> int:
    """Return how long the group is to wait for a member; version 0 has the session timeout only."""
    if request.rebalance_timeout_ms < 0:
        return request.session_timeout_ms
    return request.rebalance_timeout_ms


def update_member(group: ClassicGroup, member: GroupMember, request: JoinGroupRequest) -> None:
    """Take note of what a member says of itself when it joins again."""
    group.set_protocols(member, offered_protocols(request))
    member.rebalance_timeout_ms = rebalance_timeout_ms(request)
    member.session_timeout_ms = request.session_timeout_ms


def park_join(
    group: ClassicGroup, member: GroupMember, context: RequestContext, turn: Turn
) -> None:
    """Park a join; one that is parked already is not waited for any more, and told to come again."""
    old = group.park_join(member, Parked(context.token, context.api_version))
    if old is not None:
        turn.reply(
            old.token,
            join_error(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id, old.api_version),
        )


def with_reason(reason: str, request: JoinGroupRequest) -> str:
    """Add the reason that the client gave to ours (KIP-800)."""
    return f"{reason} ({request.reason})" if request.reason else reason
