"""Kafka's group membership as a public, trustworthy Python library.

The names below are imported on first use (PEP 562), so that using one part (say, the embedded broker) does not pay for
importing the others.
"""

from typing import TYPE_CHECKING, Final

from groupsdk.lazy_imports import lazy_attributes
from groupsdk.version import __version__


if TYPE_CHECKING:
    from groupsdk.assignment.contract import TopicPartition
    from groupsdk.consumer.aio import AsyncGroupConsumer as AsyncGroupConsumer
    from groupsdk.consumer.consumer import GroupConsumer as GroupConsumer
    from groupsdk.coordinator import AsyncGroupCallbacks, Coordinator, GroupCallbacks
    from groupsdk.drivers.aio.member import AsyncAbstractCoordinator, AsyncGroupMember
    from groupsdk.drivers.threads.member import AbstractCoordinator, GroupMember
    from groupsdk.errors import GroupSdkError
    from groupsdk.member.recorder import RebalanceEvent
    from groupsdk.member.state import MemberState
    from groupsdk.settings.config import MemberConfig
    from groupsdk.settings.security import OAuthToken, SecuritySettings
    from groupsdk.snapshot import MemberSnapshot
    from groupsdk.types import (
        NO_GENERATION,
        DescribedMember,
        Generation,
        GroupDescription,
        GroupMembers,
        GroupMembershipOperation,
        OffsetAndMetadata,
        ProtocolMetadata,
    )

_HOMES: Final = {
    "AbstractCoordinator": "groupsdk.drivers.threads.member",
    "AsyncAbstractCoordinator": "groupsdk.drivers.aio.member",
    "AsyncGroupCallbacks": "groupsdk.coordinator",
    "AsyncGroupMember": "groupsdk.drivers.aio.member",
    "Coordinator": "groupsdk.coordinator",
    "DescribedMember": "groupsdk.types",
    "Generation": "groupsdk.types",
    "GroupCallbacks": "groupsdk.coordinator",
    "GroupDescription": "groupsdk.types",
    "GroupMember": "groupsdk.drivers.threads.member",
    "GroupMembers": "groupsdk.types",
    "GroupMembershipOperation": "groupsdk.types",
    "GroupSdkError": "groupsdk.errors",
    "MemberConfig": "groupsdk.settings.config",
    "MemberSnapshot": "groupsdk.snapshot",
    "MemberState": "groupsdk.member.state",
    "NO_GENERATION": "groupsdk.types",
    "OAuthToken": "groupsdk.settings.security",
    "OffsetAndMetadata": "groupsdk.types",
    "ProtocolMetadata": "groupsdk.types",
    "RebalanceEvent": "groupsdk.member.recorder",
    "SecuritySettings": "groupsdk.settings.security",
    "TopicPartition": "groupsdk.assignment.contract",
}

_HEAVY_HOMES: Final = {
    "AsyncGroupConsumer": "groupsdk.consumer.aio",
    "GroupConsumer": "groupsdk.consumer.consumer",
}
"""These import confluent-kafka: they are not in `__all__`, so that ``from groupsdk import *`` does without it."""


__getattr__ = lazy_attributes(__name__, _HOMES | _HEAVY_HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_HEAVY_HOMES})


__all__ = [
    "NO_GENERATION",
    "AbstractCoordinator",
    "AsyncAbstractCoordinator",
    "AsyncGroupCallbacks",
    "AsyncGroupMember",
    "Coordinator",
    "DescribedMember",
    "Generation",
    "GroupCallbacks",
    "GroupDescription",
    "GroupMember",
    "GroupMembers",
    "GroupMembershipOperation",
    "GroupSdkError",
    "MemberConfig",
    "MemberSnapshot",
    "MemberState",
    "OAuthToken",
    "OffsetAndMetadata",
    "ProtocolMetadata",
    "RebalanceEvent",
    "SecuritySettings",
    "TopicPartition",
    "__version__",
]
