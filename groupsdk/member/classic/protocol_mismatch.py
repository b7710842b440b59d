"""Explain to the caller why a group refuses the protocol that its member offers."""

from collections.abc import Sequence
from typing import Final

from groupsdk.error_code import ErrorCode
from groupsdk.errors import (
    BrokerError,
    GroupSdkError,
    broker_error,
)
from groupsdk.member.actions import Action
from groupsdk.member.member import Member
from groupsdk.types import ProtocolMetadata
from groupsdk.wire.messages.groups import DescribedGroup, DescribeGroupsRequest
from groupsdk.wire.schema import ApiKey


_ANSWER_MS: Final = 2_000
"""How long to wait for the group's description: the caller waits for its error meanwhile."""
_MAX_CLIENTS: Final = 5
"""How many of the members' client ids are told."""


class ProtocolMismatch:
    """Explains an INCONSISTENT_GROUP_PROTOCOL error by asking the coordinator what the group uses instead.

    A broker describes a group's protocol type, the protocol that it uses at present, and its members, but not the other
    protocols that these offer. If the cause is unknown, the error says so, and why."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._error: BrokerError | None = None
        self._asked = ""

    def ask(
        self,
        error: BrokerError,
        api: ApiKey,
        protocol_type: str,
        protocols: Sequence[ProtocolMetadata],
    ) -> Action:
        """Ask the coordinator to describe the group; the caller gets the error once that is answered."""
        member = self._member
        group_id = member.config.group_id
        names = ", ".join(repr(protocol.name) for protocol in protocols)
        self._error = error
        self._asked = f"{api.name} of group {group_id!r} as {protocol_type!r}, with {names}"
        return member.send(
            DescribeGroupsRequest(groups=(group_id,)),
            ApiKey.DESCRIBE_GROUPS,
            min(_ANSWER_MS, member.config.request_timeout_ms),
        )

    def described(self, groups: Sequence[DescribedGroup]) -> GroupSdkError:
        """Return the refusal, completed with what the group uses."""
        for group in groups:
            if group.group_id == self._member.config.group_id:
                return self._told(_uses(group))
        return self._told(_unknown("the broker does not describe it"))

    def undescribed(self, why: GroupSdkError) -> GroupSdkError:
        """Return the refusal, with why the group could not be described."""
        return self._told(_unknown(str(why)))

    def _told(self, uses: str) -> GroupSdkError:
        error, self._error = self._error, None
        assert error is not None, "nothing was asked"
        return broker_error(error.code, f"{self._asked} ({uses})")


def _uses(group: DescribedGroup) -> str:
    if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return (
            "it is not a classic group by now: if it is there, it has members of the consumer protocol"
            " (group.protocol=consumer, KIP-848), and the broker lets no others in"
            " (group.consumer.migration.policy), or the group's classic members share no assignor with this one"
        )
    if group.error_code:
        return _unknown(str(broker_error(group.error_code, "DescribeGroups")))
    if not group.protocol_type:
        return _unknown(
            f"the broker shows it as {group.group_state!r}, without members: they may have left meanwhile, or"
            " use the protocol of KIP-848"
        )
    clients = sorted({member.client_id for member in group.members})
    names = ", ".join(map(repr, clients[:_MAX_CLIENTS]))
    if len(clients) > _MAX_CLIENTS:
        names += f" and {len(clients) - _MAX_CLIENTS} more"
    if group.protocol_data:
        chosen = f"uses {group.protocol_data!r}; brokers do not report what else its members offer"
    else:
        chosen = "is rebalancing; brokers do not report what its members offer"
    count = f"{len(group.members)} member{'' if len(group.members) == 1 else 's'}"
    return f"the group is of type {group.protocol_type!r}, has {count} (client.id {names}) and {chosen}"


def _unknown(why: str) -> str:
    return f"the protocols of the group are unknown: {why}"
